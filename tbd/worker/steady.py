"""Whether the step time has become steady: the test that ends the warm-up.

The cost of a step is its time by its work, seconds a floating-point operation of the model, so that batches of
different shapes (length buckets) can be compared. Over the last `WINDOW` steps:

    drift     = |median(second half) / median(first half) - 1|
    variation = 1.4826 x median(|cost - median(cost)|) / median(cost)

The steps are steady where drift <= MAX_DRIFT and variation <= MAX_VARIATION. 1.4826 makes the median absolute deviation
estimate the standard deviation of a normal distribution (Rousseeuw and Croux 1993, section 1).
"""

import collections

import numpy

WINDOW = 8
# Chosen on shared 2-core machines: a warming process drifts by tens of percent, its noise afterwards is 5-20 %.
MAX_DRIFT = 0.10
MAX_VARIATION = 0.25

Verdict = collections.namedtuple("Verdict", "steady drift variation")


def verdict(step_times_s, work):
    """The Verdict on the last WINDOW of these steps; with fewer of them, not steady, drift and variation None.

    `step_times_s` in seconds, `work` in any unit proportional to a step's expected time; both one a step.
    """
    if len(step_times_s) < WINDOW:
        return Verdict(False, None, None)
    cost = numpy.array(step_times_s[-WINDOW:], float) / numpy.array(work[-WINDOW:], float)
    half = WINDOW // 2
    drift = abs(float(numpy.median(cost[half:]) / numpy.median(cost[:half])) - 1.0)
    middle = numpy.median(cost)
    variation = float(1.4826 * numpy.median(numpy.abs(cost - middle)) / middle)
    return Verdict(drift <= MAX_DRIFT and variation <= MAX_VARIATION, drift, variation)
