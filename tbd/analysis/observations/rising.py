"""What observations 4 and 6 share: a share of the device that rises with the batch."""

from collections.abc import Callable, Sequence

from tbd.analysis.charts import Bars
from tbd.analysis.curves import Curve
from tbd.analysis.evidence import percent
from tbd.analysis.finding import Case

LEAST = 2
POINT = 0.01  # a percentage point: less than that is no rise


def case(curve: Curve, metric: Callable[[Curve], str]) -> Case:
    name = metric(curve)
    found = list(curve.values(name).items())
    (small, low), (large, high) = found[0], found[-1]
    row = {
        "metric": name,
        "smallest batch": f"{small}: {percent(low)}",
        "largest batch": f"{large}: {percent(high)}",
    }
    return Case(curve.label, high.value - low.value > POINT, row)


def picture(title: str, curves: Sequence[Curve], metric: Callable[[Curve], str]) -> list[Bars]:
    """The share at the smallest batch and at the largest: what both have, and what one has beyond the other."""
    found = [(curve.label, list(curve.values(metric(curve)).values())) for curve in curves]
    ends = sorted(((label, values[0].value, values[-1].value) for label, values in found), key=lambda end: -end[2])
    parts = {
        "at both": [100 * min(first, last) for _, first, last in ends],
        "more at the largest batch": [100 * max(0.0, last - first) for _, first, last in ends],
        "less at the largest batch": [100 * max(0.0, first - last) for _, first, last in ends],
    }
    shown = {part: shares for part, shares in parts.items() if part == "at both" or any(shares)}
    return [Bars(title, "%", [label for label, _, _ in ends], shown)] if ends else []
