"""What devices count themselves, by the controller's samples: energy, the work of a GPU's units, clocks held down."""

from collections.abc import Sequence

import numpy as np

from tbd.measure.events import Absent, Array, Sample, Window

MIN_SAMPLES = 3  # within the window: with fewer most of the figure would be interpolated over its edges
MAX_UNSAMPLED = 0.1  # of the window, at its end
# NVML's reasons for which a GPU's clocks are below what was asked for (nvml.h, "nvmlClocksEventReasons"); those of a
# GPU that is idle (1), or whose clocks somebody set (2, 0x100), hold nothing down.
THROTTLE = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}


def readings(samples: Sequence[Sample], name: str) -> tuple[Array, Array]:
    """(times, values) of a sampled metric. Raises Absent where it was not sampled."""
    pairs = sorted((sample.t, sample.metrics[name]) for sample in samples if name in sample.metrics)
    if not pairs:
        raise Absent("it was not sampled")
    times, values = np.array(pairs).T
    return times, values


def _enclosed(times: Array, window: Window) -> float:
    """The last moment of the window that the samples tell of. Raises Absent where they tell of too little."""
    last = min(window.end, float(times[-1]))
    inside = int(((times >= window.begin) & (times <= window.end)).sum())
    if times[0] > window.begin or window.end - last > MAX_UNSAMPLED * window.seconds:
        raise Absent("its samples don't enclose the timed window")
    if inside < MIN_SAMPLES:
        raise Absent(
            f"only {inside} of its samples lie within the timed window of {window.seconds:.2f} s, {MIN_SAMPLES} are "
            "needed: raise measure.steps"
        )
    return last


def joules(samples: Sequence[Sample], window: Window, name: str) -> float:
    """Of a counter that only rises, what it rose by in the window: interpolated linearly at the window's edges.

    Where the samples end a little before the window does, what they cover is scaled to the whole of it.
    """
    times, values = readings(samples, name)
    last = _enclosed(times, window)
    if (np.diff(values) < 0).any():
        raise Absent("the energy counter went backwards")
    used = float(np.interp(last, times, values) - np.interp(window.begin, times, values))
    return used * window.seconds / (last - window.begin)


def mean(samples: Sequence[Sample], window: Window, name: str) -> float:
    """The mean over the window of a reading that tells of the time since the reading before it."""
    times, values = readings(samples, name)
    last = _enclosed(times, window)
    begins = np.concatenate(([times[0]], times[:-1]))
    weights = np.clip(np.minimum(times, last) - np.maximum(begins, window.begin), 0, None)
    return float((weights * values).sum() / weights.sum())


def throttled(samples: Sequence[Sample], window: Window, name: str) -> list[str]:
    """Why the GPU's clocks were held down at any sample in the window; [] where they never were."""
    times, values = readings(samples, name)
    bits = 0
    for value in values[(times >= window.begin) & (times <= window.end)]:
        bits |= int(value)
    return [reason for bit, reason in THROTTLE.items() if bits & bit]
