"""What several ranks see, compared with what one process sees."""

import numpy
import pytest


def assert_together(batches, ranks):
    """The ranks' batches hold the rows of `batches`, in order and in the same shapes but for the number of rows."""
    assert [len(own) for own in ranks] == [len(batches)] * len(ranks)
    for batch, *own in zip(batches, *ranks):
        for name, array in batch.arrays.items():
            assert sum(len(one.arrays[name]) for one in own) == len(array)
            for rank, one in enumerate(own):
                numpy.testing.assert_array_equal(one.arrays[name], array[rank :: len(ranks)])
        for unit, count in batch.items.items():
            # seconds are no whole numbers: their sum depends on the order
            assert sum(one.items[unit] for one in own) == pytest.approx(count, rel=1e-12)
        assert sum(one.flops for one in own) == batch.flops
