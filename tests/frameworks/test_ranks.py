"""What several ranks have of their own, and what a specification tells of their losses."""

import numpy
import pytest

from tbd import models
from tbd.frameworks.base import Framework
from tests.models import known


def seed(rank, seed=1):
    return Framework({"seed": seed, "rank": rank, "world_size": 4, "batch_size": 2}).random_seed


def test_each_rank_draws_masks_of_its_own_and_the_first_the_runs():
    found = [seed(rank) for rank in range(4)]
    assert found[0] == 1 and len(set(found)) == 4
    assert found == [seed(rank) for rank in range(4)]
    assert seed(1, seed=2) != seed(1)
    assert all(0 <= one < 2**31 for one in found)


@pytest.mark.parametrize("model", models.names())
def test_a_loss_is_the_mean_of_rows_or_of_a_translations_words(model):
    specification = models.create(model, {"size": "small"})
    batch = specification.synthetic_batch(known.batch_size(specification, 4), numpy.random.RandomState(0))
    for update in specification.updates(4):
        arrays = specification.update_arrays(batch, update.name, 0)
        rows = len(next(iter(arrays.values())))
        words = int(arrays["target_length"].sum()) if "target_length" in arrays else rows
        assert specification.loss_weight(arrays) == words


@pytest.mark.parametrize("model", models.names())
def test_what_ranks_exchange_is_every_trained_number_as_often_as_it_is_moved(model):
    specification = models.create(model, {"size": "small"})
    sizes = {p.name: int(numpy.prod(p.shape)) for p in specification.parameters}
    numbers = [sizes[name] for u in specification.updates(1) for name in u.parameters for _ in range(u.repeat)]
    assert specification.exchanged_bytes(4) == 4 * sum(numbers)
