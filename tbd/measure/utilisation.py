"""How busy the processors were within the windows."""

import math

import numpy as np

from tbd.measure.events import Absent, Array, Sample, Window

# Samples that must lie within the window: with fewer, most of the figure would be interpolated over its edges.
MIN_SAMPLES = 4
MAX_UNSAMPLED_S = 0.3  # at the window's end: a period of the sampler (tbd/tracking/sampler.py) and some lateness
# A clock tick of the kernel's accounting is 0.01 s (sysconf(_SC_CLK_TCK) = 100): less is rounding, not a loss.
TICK_S = 0.01


def cpu_seconds(samples: list[Sample], window: Window, field: str) -> float:
    """CPU seconds within the window, from the samples of a cumulative counter, `cpu_s` or `controller_cpu_s`.

    The counter is interpolated linearly at the window's edges, so the error is below one sampling period's CPU seconds.
    Where the samples end up to MAX_UNSAMPLED_S before the window does, what they cover is scaled to the whole of it.
    Raises Absent where the samples don't enclose the window, are too few within, or go backwards.
    """
    pairs = sorted((sample.t, value) for sample in samples if (value := getattr(sample, field)) is not None)
    if not pairs:
        raise Absent("no sample of it was taken")
    times, values = np.array(pairs).T
    # a worker that ends right after the window is not sampled again: its last moment is taken to be as the rest
    last = min(window.end, float(times[-1]))
    if times[0] > window.begin or window.end - last > MAX_UNSAMPLED_S:
        raise Absent("the samples don't enclose the timed window")
    inside = int(((times >= window.begin) & (times <= window.end)).sum())
    if inside < MIN_SAMPLES:
        raise Absent(
            f"only {inside} sample(s) lie within the timed window of {window.seconds:.2f} s, {MIN_SAMPLES} are needed: "
            "raise measure.steps"
        )
    near = (times >= times[times <= window.begin][-1]) & (times <= times[times >= last][0])
    if (np.diff(values[near]) < -TICK_S).any():
        raise Absent("the sampled CPU time goes backwards: a process that ended took its share along")
    sampled = float(np.interp(last, times, values) - np.interp(window.begin, times, values))
    return sampled * window.seconds / (last - window.begin)


def cpu_utilization(cpu_s: float, cores: float | None, window_s: float) -> float:
    """CPU seconds of the run's process tree / (cores x window): 1 where every usable core is busy.

    `cores`: that the run may use by its affinity and its control group, not those it asked for.
    """
    if not cores:
        raise Absent("the controller wrote no number of cores")
    utilization = cpu_s / (cores * window_s)
    # 2 % for the ticks and the interpolation
    if not 0 <= utilization <= 1.02:
        raise Absent(f"{cpu_s:.2f} CPU seconds can't be had from {cores:g} cores in {window_s:.2f} s")
    return min(utilization, 1.0)


def controller_cpu_share(cpu_s: float, window_s: float) -> float:
    """The controller's CPU seconds / window: its share of one core while the worker was measured."""
    return cpu_s / window_s


def other_cpu_cores(host_s: float, tree_s: float, controller_s: float, window_s: float) -> float:
    """(CPU seconds of the whole machine - the worker's tree's - the controller's) / window: cores kept busy by others.

    What others do takes caches and memory bandwidth from the run even where a core is left for it. The kernel counts
    the machine's time and the processes' by different means, so a little less than nothing is nothing.
    """
    others = host_s - tree_s - controller_s
    if others < -0.05 * (tree_s + controller_s) - TICK_S:
        raise Absent(f"the machine's {host_s:.2f} CPU seconds are less than the run's own {tree_s + controller_s:.2f}")
    return max(others, 0.0) / window_s


def emulator_share(emulator_s: list[float | None], window_s: float) -> float:
    """sum(seconds that the windows waited for emulators) / window: a part of data_wait_share."""
    waited = [seconds for seconds in emulator_s if seconds is not None]
    if len(waited) < len(emulator_s):
        raise Absent("the data are not played in emulators")
    return sum(waited) / window_s


def data_wait_share(data_wait_s: Array | None, window_s: float) -> float:
    """sum(seconds that a step waited for its batch) / window: what a faster input pipeline could gain at most."""
    if data_wait_s is None:
        raise Absent("the worker wrote no data_wait_s")
    share = float(data_wait_s.sum() / window_s)
    if share > 1 + math.sqrt(np.finfo(float).eps):
        raise Absent(f"the waits for data sum to {share:.2f} of the window")
    return min(share, 1.0)
