"""What holds a run back, with the evidence, and the change of its configuration that goes at it.

The lines between one and the other are this project's, not measured laws: a change is worth a try, and where it was
tried, what it gave is told (advice.py).
"""

from collections.abc import Iterator
from typing import NamedTuple

from tbd import frameworks
from tbd.analysis.curves import Curve, gain_a_doubling
from tbd.analysis.evidence import percent, times, units_metric
from tbd.analysis.operators import operators, share_of_few
from tbd.analysis.values import Value, value
from tbd.config import cells
from tbd.data import serves

DATA_WAIT, COMMUNICATION = 0.1, 0.2  # of the step: from here on they are worth the work
BUSY = 0.8  # of the time with a kernel running, or of the cores
FULL = 0.5  # of the peak: what well-tuned networks reach
BANDWIDTH = 0.6  # of the memory's bandwidth in use
FEW = 0.4  # of the time in what does few operations for each number
GAIN = 1.1  # by which a doubling of the batch must multiply throughput


class Change(NamedTuple):
    """An override to try, such as compile=inductor."""

    key: str
    value: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}"


class Bottleneck(NamedTuple):
    """`name`: data, network, batch too small, launch overhead, memory bandwidth, compute, or not known."""

    name: str
    evidence: str
    changes: tuple[Change, ...]


def bottleneck(curve: Curve, batch: int) -> Bottleneck:
    """Of the curve's runs at this batch. Looks at what costs most to miss first: waiting, then idling, then working."""
    runs = curve.points[batch]
    found = _waiting(curve, batch) or (_on_gpu(curve, batch) if curve.on_gpu else _on_cpu(curve, batch))
    if found is not None:
        return found
    few = share_of_few(operators(runs[-1]))
    if few >= FEW:
        text = f"{few:.0%} of the time is in operators that do few operations for each number"
        return Bottleneck("memory bandwidth", text, (*_compilers(curve), *_precisions(curve)))
    units = value(runs, units_metric(curve))
    if units is None:
        return Bottleneck("not known", "neither a trace, nor a peak, nor a counter was recorded", ())
    text = f"the device is busy, at {percent(units)} of its peak ({units_metric(curve)})"
    return Bottleneck("compute", text, (*_precisions(curve), *_compilers(curve)))


def _waiting(curve: Curve, batch: int) -> Bottleneck | None:
    runs = curve.points[batch]
    data, network = value(runs, "data_wait_share"), value(runs, "communication_share")
    if data is not None and data.value >= DATA_WAIT:
        played = value(runs, "emulator_share")
        of_it = f", {percent(played)} of it for emulators" if played is not None else ""
        source = curve.settings.get("data.name", "")
        synthetic = source != "synthetic" and serves("synthetic", curve.model)
        return Bottleneck(
            "data", f"it waits for data {percent(data)} of the time{of_it}",
            (Change("data", "synthetic"),) if synthetic else (Change("batch_size", str(2 * batch)),),
        )  # fmt: skip
    if network is not None and network.value >= COMMUNICATION:
        text = f"it waits for other devices {percent(network)} of the time"
        return Bottleneck("network", text, (Change("batch_size", str(2 * batch)),))
    return None


def _on_gpu(curve: Curve, batch: int) -> Bottleneck | None:
    runs = curve.points[batch]
    busy, memory = value(runs, "gpu_compute_utilization"), value(runs, "dram_utilization")
    if busy is not None and busy.value < BUSY:
        text = f"no kernel runs {percent(Value(1 - busy.value, 1 - busy.high, 1 - busy.low))} of the time"
        return _too_small(curve, batch, text) or Bottleneck(
            "launch overhead", text, (*_compilers(curve), Change("batch_size", str(2 * batch)))
        )
    if memory is not None and memory.value >= BANDWIDTH:
        text = f"{percent(memory)} of the memory's bandwidth is in use"
        return Bottleneck("memory bandwidth", text, (*_compilers(curve), *_precisions(curve)))
    return _below_peak(curve, batch)


def _on_cpu(curve: Curve, batch: int) -> Bottleneck | None:
    busy = value(curve.points[batch], "cpu_utilization")
    if busy is not None and busy.value < BUSY:
        text = f"the cores are busy {percent(busy)} of the time"
        return _too_small(curve, batch, text) or Bottleneck(
            "launch overhead", text, (*_compilers(curve), Change("batch_size", str(2 * batch)))
        )
    return _below_peak(curve, batch)


def _below_peak(curve: Curve, batch: int) -> Bottleneck | None:
    """Compute where the units are near their peak; batch too small where a larger one has been seen to help."""
    units = value(curve.points[batch], units_metric(curve))
    if units is not None and units.value >= FULL:
        text = f"the arithmetic units are at {percent(units)} of their peak ({units_metric(curve)})"
        return Bottleneck("compute", text, (*_precisions(curve), *_compilers(curve)))
    return _too_small(curve, batch, "")


def _too_small(curve: Curve, batch: int, text: str) -> Bottleneck | None:
    """Where the next larger batch of the sweep gives more, beyond the interval."""
    rates = curve.values("throughput")
    larger = min((size for size in rates if size > batch), default=None)
    if batch not in rates or larger is None:
        return None
    gain = gain_a_doubling((batch, rates[batch]), (larger, rates[larger]))
    if gain.low <= GAIN:
        return None
    seen = f"a doubling of the batch multiplies throughput by {times(gain).removesuffix(' times')}"
    return Bottleneck("batch too small", f"{text}; {seen}" if text else seen, (Change("batch_size", str(larger)),))


def _compilers(curve: Curve) -> Iterator[Change]:
    """Other ways of compiling that this model, framework and device have."""
    if curve.framework in frameworks.names():
        for name in frameworks.facts(curve.framework).COMPILE:
            if name != curve.settings.get("compile") and _works(curve, compiler=name):
                yield Change("compile", name)


def _precisions(curve: Curve) -> Iterator[Change]:
    """The next faster precision: tf32 and bf16 work on the tensor cores of a GPU, bf16 halves what is moved."""
    faster = {"fp64": ("fp32",), "fp32": ("tf32", "bf16") if curve.on_gpu else ("bf16",), "tf32": ("bf16",)}
    for name in faster.get(curve.settings.get("precision", ""), ()):
        if _works(curve, precision=name):
            yield Change("precision", name)


def _works(curve: Curve, precision: str = "", compiler: str = "") -> bool:
    if curve.framework not in frameworks.names():
        return False
    options = {key.removeprefix("model."): text for key, text in curve.settings.items() if key.startswith("model.")}
    device = curve.settings.get("hardware.device", "cpu")
    precision = precision or curve.settings.get("precision", "fp32")
    compiler = compiler or curve.settings.get("compile", "")
    return cells.unsupported(curve.model, options, curve.framework, device, precision, compiler) is None
