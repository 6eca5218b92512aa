"""The line through peaks and batch sizes, and what a search's trials make of it."""

import numpy
import pytest

from tbd.measure import largest_batch
from tbd.measure.events import Absent
from tbd.measure.figures import compute


def test_two_batch_sizes_give_the_largest_batch_within_a_limit():
    # 100 MB and 2 MB an item
    assert largest_batch.line([8, 16], [116e6, 132e6]) == pytest.approx((100e6, 2e6))
    assert largest_batch.predicted([8, 16], [116e6, 132e6], 200e6) == 50
    assert largest_batch.predicted([8, 16], [116e6, 132e6], 201.9e6) == 50
    assert largest_batch.predicted([8, 16], [116e6, 132e6], 90e6) == 0


def test_one_size_or_a_peak_that_does_not_grow_is_no_line():
    with pytest.raises(Absent, match="two batch sizes"):
        largest_batch.line([8, 8], [116e6, 117e6])
    with pytest.raises(Absent, match="doesn't grow"):
        largest_batch.line([8, 16], [117e6, 116e6])


@pytest.mark.parametrize("sizes", [[800, 1600, 3200], [800, 1600, 3200, 6400, 9600], list(range(200, 1800, 200))])
def test_the_interval_holds_a_new_peak_at_the_limit_as_often_as_it_says(sizes):
    """Lines of 100 MB and 2 MB an item, peaks off by 10 MB; the limit is the peak of a batch of 30,000."""
    random, held = numpy.random.RandomState(0), 0
    for _ in range(1000):
        peaks = 100 + 2 * numpy.array(sizes) + 10 * random.standard_normal(len(sizes))
        low, high = largest_batch.interval(sizes, peaks, 100 + 2 * 30_000 + 10 * random.standard_normal())
        held += low <= 30_000 <= high
    assert 0.93 <= held / 1000 <= 0.97  # 95 %, with three standard errors of 0.7 %


def test_peaks_on_a_line_leave_no_doubt():
    assert largest_batch.interval([8, 16, 32], [116e6, 132e6, 164e6], 200.9e6) == (50, 50)


def test_an_interval_needs_three_sizes_that_are_near_a_line():
    with pytest.raises(Absent, match="three batch sizes"):
        largest_batch.interval([8, 16, 16], [116e6, 132e6, 133e6], 200e6)
    with pytest.raises(Absent, match="bound no batch"):
        largest_batch.interval([8, 16, 24], [100.0, 200.0, 120.0], 300.0)


def search(sleep_run, trials, **found):
    """Figures of a run whose search had these trials, {batch size: MB, above the limit of 200 it doesn't fit}."""
    return compute(sleep_run({"max_batch": {"trials": trials, **found}}, passes=["timing", "max_batch"])[0])


def test_a_search_is_beside_what_the_line_predicts(sleep_run):
    figures = search(sleep_run, {16: 132, 32: 164, 64: 228, 48: 196, 52: 204, 50: 201}, fits=48, too_large=50)
    assert figures.metrics["max_batch"] == 48
    assert figures.metrics["max_batch_predicted"] == 50
    assert "three batch sizes" in figures.absent["max_batch_predicted_low"], "48, the largest, is not in the line"
    assert [row["batch_size"] for row in figures.tables["max_batch"]] == [16, 32, 48, 50, 52, 64]
    assert [row["fits"] for row in figures.tables["max_batch"]] == [True, True, True, False, False, False]


def test_where_nothing_fits_there_is_no_largest_batch(sleep_run):
    figures = search(sleep_run, {1: 300}, fits=None, too_large=1)
    assert figures.absent["max_batch"] == figures.absent["max_batch_predicted"] == "not even a batch of 1 fits"


def test_without_a_search_its_figures_say_how_to_have_it(sleep_run):
    figures = compute(sleep_run({})[0])
    assert figures.absent["max_batch"] == "it was not searched for (measure.find_max_batch)"


def test_a_trial_that_ended_in_another_way_is_the_reason(sleep_run):
    figures = compute(sleep_run({"absent": {"max_batch": "the trial ended"}}, passes=["timing", "max_batch"])[0])
    assert figures.absent["max_batch"] == "the trial ended"
