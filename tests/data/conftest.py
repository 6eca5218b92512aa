import pytest

from tbd import models


@pytest.fixture
def seq2seq():
    """The Specification of seq2seq in its small size: room for 60 and 50 words."""
    return models.create("seq2seq", {"size": "small"})


@pytest.fixture
def resnet50():
    """The Specification of resnet50 in its small size: 32 pixels, 10 classes."""
    return models.create("resnet50", {"size": "small"})


@pytest.fixture
def request_of():
    """A function that gives a request for a data source: request_of("iwslt15", root=...)."""

    def request(name, batch_size=4, seed=1, rank=0, world_size=1, **options):
        return {
            "seed": seed,
            "rank": rank,
            "world_size": world_size,
            "batch_size": batch_size,
            "data": dict(options, name=name),
        }

    return request
