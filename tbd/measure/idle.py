"""Where a GPU's step goes: kernels, copies and communication with their overlap, and why the GPU stands still else.

The causes of a moment in which nothing runs on the device, by what the host does then:

    synchronisation   a call of the driver waits for the device (cudaStreamSynchronize, .item(), a copy to the host)
    launch            the host is in an operator or hands work over: the device waits for it (launch-bound)
    outside           the host is in no operator at all: it waits for data or runs the program around them

The profiler stretches what the host does, not what the device does. So the device's own times are taken as they are,
and the idle time is the unprofiled time without them, divided among the causes as in the trace.
"""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tbd.measure.events import Absent
from tbd.measure.spans import Moments
from tbd.measure.trace import COMMUNICATION, COMPUTE, COPY, HOST, Event, kinds

# calls that wait for the device: CUDA Runtime API and CUDA Driver API reference manuals. A copy without Async in its
# name returns when it is done.
WAITS = re.compile(r"synchronize|^(cudaMemcpy|cuMemcpy)(?!.*Async)", re.IGNORECASE)
CAUSES = ("launch", "synchronisation", "outside")
# of the step, and of the idle time: beyond both the run is bound by the cause
BOUND_IDLE, BOUND_CAUSE = 0.2, 0.5


@functools.cache
def waits(name: str) -> bool:
    return WAITS.search(name) is not None


@dataclass(frozen=True)
class Step:
    """Seconds of the traced steps on the device, and shares of `unprofiled_s`.

    `active_s` {kind: with anything of it}; `exposed_s` {kind: with it and without compute}; `idle_share`: of the
    unprofiled time, with nothing; `causes` {cause: its part of that}, summing to it.
    """

    active_s: dict[str, float]
    exposed_s: dict[str, float]
    unprofiled_s: float
    idle_share: float
    causes: dict[str, float]

    def share(self, kind: str) -> float:
        return self.active_s[kind] / self.unprofiled_s

    def exposed_share(self, kind: str) -> float:
        return self.exposed_s[kind] / self.unprofiled_s

    @property
    def bound(self) -> str:
        """The cause that the GPU stands still for most, where it does for much of the step; "" where it is busy."""
        worst = max(self.causes, key=lambda cause: self.causes[cause])
        much = self.idle_share > BOUND_IDLE and self.causes[worst] > BOUND_CAUSE * self.idle_share
        return worst if much else ""


def step(events: Sequence[Event], unprofiled_s: float | None) -> Step:
    """The Step of the traced steps. Raises Absent where no GPU is in the trace, or a time is missing or wrong."""
    if unprofiled_s is None or not unprofiled_s > 0:
        raise Absent("the worker did not time the traced steps without the profiler (unprofiled_s)")
    of_kind: dict[str, list[tuple[float, float]]] = {kind: [] for kind in (COMPUTE, COPY, COMMUNICATION, HOST, "wait")}
    if not any(event.on_gpu for event in events):
        raise Absent("no GPU is in the trace")
    for event, kind in zip(events, kinds(events), strict=True):
        if not event.on_gpu:
            kind = "wait" if waits(event.name) else HOST
        of_kind[kind].append((event.begin, event.end))
    begin = min(event.begin for event in events)
    spans = {kind: np.array(found, dtype=np.float64).reshape(-1, 2) for kind, found in of_kind.items()}
    moments = Moments(spans, begin, max(event.end for event in events))
    compute, copy, communication, host, wait = (moments.during[kind] for kind in of_kind)
    active = {kind: moments.total(moments.during[kind]) / 1e6 for kind in (COMPUTE, COPY, COMMUNICATION)}
    exposed = {kind: moments.total(moments.during[kind] & ~compute) / 1e6 for kind in (COPY, COMMUNICATION)}
    idle = ~(compute | copy | communication)
    busy = moments.total(~idle) / 1e6
    if busy > unprofiled_s:
        raise Absent(f"the GPU is busy for {busy / unprofiled_s:.2f} times the unprofiled time: one of them is wrong")
    idle_share = 1 - busy / unprofiled_s
    parts = {"launch": idle & host & ~wait, "synchronisation": idle & wait, "outside": idle & ~host & ~wait}
    seconds = {cause: moments.total(parts[cause]) for cause in CAUSES}
    whole = sum(seconds.values())
    if not whole and idle_share > 0:
        raise Absent("the trace has no idle moment to divide among its causes")
    causes = {cause: idle_share * seconds[cause] / whole if whole else 0.0 for cause in CAUSES}
    return Step(active, exposed, unprofiled_s, idle_share, causes)
