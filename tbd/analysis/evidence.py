"""The runs that a question is put to, as runs and as curves."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tbd.analysis.curves import Curve, curves
from tbd.analysis.runs import Run
from tbd.analysis.values import Value

PLACE = ("framework.", "hardware.", "precision", "compile", "framework_version", "device_names")


@dataclass(frozen=True)
class Evidence:
    runs: Sequence[Run]

    @cached_property
    def curves(self) -> list[Curve]:
        return curves(self.runs)

    @cached_property
    def single(self) -> list[Curve]:
        """The curves of one device."""
        return [curve for curve in self.curves if devices(curve) == 1]

    @property
    def gpu(self) -> list[Curve]:
        return [curve for curve in self.single if curve.on_gpu]


def devices(curve: Curve) -> int:
    """How many devices the runs trained on, over all machines."""
    counts = [curve.settings.get(f"hardware.{key}", "1") for key in ("devices", "nodes")]
    return int(counts[0]) * int(counts[1]) if all(count.isdigit() for count in counts) else 1


def place(curve: Curve) -> tuple[tuple[str, str], ...]:
    """Where and how it ran, whatever the model: framework, hardware, precision."""
    return tuple(sorted((key, text) for key, text in curve.settings.items() if key.startswith(PLACE)))


def units_metric(curve: Curve) -> str:
    """The metric that says how well the arithmetic units were used.

    The counter of those that the precision works on, where one was read; else model FLOPs by the measured peak.
    """
    counter = "fp32_utilization" if curve.settings.get("precision", "fp32") == "fp32" else "tensor_utilization"
    return counter if curve.values(counter) else "mfu"


def shown(one: Value | None, factor: float = 1.0, form: str = ".4g") -> str:
    """A figure with its interval, where it has one, for a table."""
    if one is None:
        return ""
    text = format(one.value * factor, form)
    return f"{text} ({one.low * factor:{form}} to {one.high * factor:{form}})" if one.low < one.high else text


def percent(one: Value | None) -> str:
    return "" if one is None else f"{shown(one, 100, '.1f')} %"


def times(one: Value | None) -> str:
    return "" if one is None else f"{shown(one, 1, '.2f')} times"
