"""From curves to pictures: what several questions show alike."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from tbd.analysis.charts import Bars, Line, Lines
from tbd.analysis.curves import Curve
from tbd.analysis.values import Value
from tbd.measure.metrics import ITEMS, SHARE, find


def unit_of(curve: Curve, metric: str) -> str:
    """The unit of the metric in the curve's runs, such as images/s."""
    return find(metric).unit_shown(next(iter(curve.points.values()))[0].unit)


def over_batches(
    title: str, curves: Sequence[Curve], metric: Callable[[Curve], str] | str, least: int = 2
) -> list[Lines]:
    """A panel for each model: the metric over the batch, a line for each curve of at least so many batches."""
    panels: dict[str, list[Line]] = defaultdict(list)
    y_label = ""
    for curve in curves:
        name = metric if isinstance(metric, str) else metric(curve)
        values = curve.values(name)
        if len(values) >= least:
            unit = unit_of(curve, name)
            own = find(name).unit == ITEMS
            y_label = "" if own else unit
            panels[f"{curve.model} ({unit})" if own else curve.model].append(
                line(curve.label.removeprefix(curve.model).strip(), values, 100.0 if find(name).unit == SHARE else 1.0)
            )
    for lines in panels.values():
        lines.sort(key=lambda one: -max(one.y))
    return [Lines(title, "batch size", y_label, dict(panels))] if panels else []


def line(label: str, values: dict[int, Value], factor: float = 1.0) -> Line:
    found = list(values.values())
    whole = any(one.low < one.high for one in found)
    low, high = ([end * factor for end in ends] for ends in ([v.low for v in found], [v.high for v in found]))
    return Line(label, list(values), [v.value * factor for v in found], low if whole else (), high if whole else ())


def bars(title: str, unit: str, sizes: Iterable[tuple[str, float]], mark: float | None = None) -> list[Bars]:
    """A bar for each name, the longest first."""
    ordered = sorted(sizes, key=lambda size: -size[1])
    names, lengths = [name for name, _ in ordered], [length for _, length in ordered]
    return [Bars(title, unit, names, {unit: lengths}, mark)] if ordered else []
