"""What observations 5 and 7 share: recurrent models beside image classification, in the same framework and place."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tbd.analysis.curves import Curve
from tbd.analysis.evidence import Evidence, place
from tbd.analysis.finding import Missing
from tbd.analysis.missing import sweep
from tbd.analysis.suite import CLASSIFIERS
from tbd.analysis.values import Value


class Pair(NamedTuple):
    """A recurrent model's figure and those of the classifiers beside it, each at its largest batch."""

    curve: Curve
    figure: Value
    classifiers: dict[str, Value]


def pairs(curves: Sequence[Curve], recurrent: Sequence[str], metric: Callable[[Curve], str]) -> list[Pair]:
    """Every curve of a recurrent model that has a classifier in the same framework and place, by the same metric."""
    places: dict[object, dict[str, Value]] = defaultdict(dict)
    for curve in curves:
        largest = curve.largest(metric(curve))
        if curve.model in CLASSIFIERS and largest:
            places[place(curve), metric(curve)][curve.model] = largest[1]
    found = []
    for curve in curves:
        beside, largest = places.get((place(curve), metric(curve))), curve.largest(metric(curve))
        if curve.model in recurrent and beside and largest:
            found.append(Pair(curve, largest[1], beside))
    return found


def missing(evidence: Evidence, recurrent: Sequence[str], found: Sequence[Pair], on: str = "") -> list[Missing]:
    """What is needed for the recurrent models that have no pair: themselves, and a classifier beside them."""
    if not (wanted := [model for model in recurrent if model not in {pair.curve.model for pair in found}]):
        return []
    return [
        Missing(f"{model} at several batches" + (" on a GPU" if on else ""), sweep(model, evidence.runs, on=on))
        for model in [*wanted, CLASSIFIERS[0]]
    ]
