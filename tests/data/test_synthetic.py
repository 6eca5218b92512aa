import itertools

import numpy
import pytest

from tbd import data
from tbd.data.synthetic import RING
from tests.data.ranks import assert_together


def open_batches(specification, request, count):
    return list(itertools.islice(data.open_source(specification, request).batches(), count))


def differing(some, others):
    """How many batches of two lists differ."""
    return sum(any((a.arrays[name] != b.arrays[name]).any() for name in a.arrays) for a, b in zip(some, others))


@pytest.fixture(params=["resnet50", "seq2seq"])
def specification(request):
    return request.getfixturevalue(request.param)


def test_batches_take_turns(specification, request_of):
    batches = open_batches(specification, request_of("synthetic"), 2 * RING)
    assert differing(batches[:RING], batches[1 : RING + 1]) == RING
    assert differing(batches[:RING], batches[RING:]) == 0


def test_seed_and_rank_alone_decide_the_batches(specification, request_of):
    first = open_batches(specification, request_of("synthetic", seed=1), RING)
    assert differing(first, open_batches(specification, request_of("synthetic", seed=1), RING)) == 0
    assert differing(first, open_batches(specification, request_of("synthetic", seed=2), RING)) == RING
    assert (
        differing(first, open_batches(specification, request_of("synthetic", seed=1, rank=1, world_size=2), RING))
        == RING
    )


def test_ranks_together_see_the_batches_of_one_process(specification, request_of):
    one = open_batches(specification, request_of("synthetic", batch_size=6), RING)
    requests = [request_of("synthetic", batch_size=2, rank=rank, world_size=3) for rank in range(3)]
    assert_together(one, [open_batches(specification, request, RING) for request in requests])
    digests = {data.open_source(specification, request).describe()["digest"] for request in requests}
    assert digests == {data.open_source(specification, request_of("synthetic", batch_size=6)).describe()["digest"]}


def test_batches_carry_the_specifications_items_and_flops(specification, request_of):
    for batch in open_batches(specification, request_of("synthetic", batch_size=3), RING):
        assert batch.items == specification.items(batch.arrays)
        assert batch.flops == specification.flops(batch.arrays)


def test_one_of_each_shape_covers_the_stream(specification, request_of):
    source = data.open_source(specification, request_of("synthetic"))
    shapes = [{name: array.shape for name, array in batch.arrays.items()} for batch in source.one_of_each_shape()]
    stream = itertools.islice(source.batches(), RING)
    assert all({name: array.shape for name, array in batch.arrays.items()} in shapes for batch in stream)
    assert len(shapes) == 1


def test_describes_itself(resnet50, request_of):
    source = data.open_source(resnet50, request_of("synthetic", batch_size=4, seed=7))
    described = source.describe()
    assert described["name"] == "synthetic"
    assert described["source"] == "synthetic batches of resnet50, seed 7"
    assert described["counts"] == {"batches": RING, "images": 4 * RING}
    assert described["skipped"] == {}
    other = data.open_source(resnet50, request_of("synthetic", batch_size=4, seed=8)).describe()
    assert len(described["digest"]) == 64 and described["digest"] != other["digest"]


def test_arrays_are_of_the_types_that_frameworks_take(seq2seq, request_of):
    arrays = next(data.open_source(seq2seq, request_of("synthetic")).batches()).arrays
    assert {array.dtype for array in arrays.values()} == {numpy.dtype("int32")}
