"""Step times: how long a step takes, and how much that varies."""

import numpy as np

from tbd.measure.events import Absent, Array

MAD_TO_DEVIATION = 1.4826  # 1 / Phi^-1(3/4): Rousseeuw and Croux 1993, JASA 88(424), section 1
MAX_UNSEEN_SHARE = 0.01  # of the window


def step_times(ends: Array, begin: float) -> Array:
    """Seconds a step, waits for data included: from one step's end to the next's, the first from the window's begin."""
    times = np.diff(ends, prepend=begin)
    if (times < 0).any():
        raise Absent("a timed step ended before the window began")
    return times


def mean_ms(window_s: float, steps: int) -> float:
    """Wall time of the windows / steps in them, in ms: what throughput is of."""
    return window_s / steps * 1e3


def percentile_ms(step_times_s: Array, percent: float) -> float:
    """The percentile of the step times in ms, interpolated linearly (Hyndman and Fan 1996, type 7)."""
    return float(np.percentile(step_times_s, percent) * 1e3)


def jitter_ms(step_times_s: Array) -> float:
    """1.4826 x median(|time - median(time)|) in ms: the standard deviation of normal noise, unmoved by outliers.

    The same measure as tf_cnn_benchmarks' jitter.
    """
    return float(MAD_TO_DEVIATION * np.median(np.abs(step_times_s - np.median(step_times_s))) * 1e3)


def unseen_share(step_times_s: Array, window_s: float) -> float:
    """The share of the window after the last step's end: 1 - sum(step times) / window.

    Near 0 where a step's end is the end of its work. More means that steps are only enqueued: throughput, taken between
    two synchronisations, stays right; the step times then describe the dispatch. Below 0 the device's clock and the
    host's don't agree.
    """
    return float(1 - step_times_s.sum() / window_s)


def unseen(share: float) -> str | None:
    """What to tell of a share by unseen_share() beyond MAX_UNSEEN_SHARE; None where it is within."""
    if abs(share) <= MAX_UNSEEN_SHARE:
        return None
    if share > 0:
        return f"{share:.1%} of the window lies after the last step's end: step times show the dispatch"
    return f"the last step ended {-share:.1%} of the window after it, by the device's clock: step times are off"
