"""For each run, what holds it back, what to try, and what that gave where it was tried."""

import shlex
from collections.abc import Iterator
from typing import NamedTuple

from tbd.analysis.bottleneck import Bottleneck, Change, bottleneck
from tbd.analysis.curves import Curve
from tbd.analysis.evidence import Evidence
from tbd.analysis.values import Value, ratio


class Attempt(NamedTuple):
    """A change to try, the command for it, and by what it multiplied the throughput; None where nobody tried."""

    change: Change
    command: str
    gave: Value | None


class Advice(NamedTuple):
    """Of the runs of one curve at one batch."""

    curve: Curve
    batch: int
    bottleneck: Bottleneck
    attempts: list[Attempt]


def advice(evidence: Evidence) -> list[Advice]:
    """Of every batch of every curve that has a throughput."""
    twins = _Twins(evidence.curves)
    found = []
    for curve in evidence.curves:
        for batch in curve.values("throughput"):
            told = bottleneck(curve, batch)
            attempts = [
                Attempt(change, _command(curve, batch, change), twins.gave(curve, batch, change))
                for change in told.changes
            ]
            found.append(Advice(curve, batch, told, attempts))
    return found


class _Twins:
    """Finds the curve that differs from another one in one choice alone."""

    def __init__(self, curves: list[Curve]):
        self._without: dict[tuple[str, tuple[tuple[str, str], ...]], list[Curve]] = {}
        for curve in curves:
            for key in ("compile", "precision", "data"):
                self._without.setdefault((key, _rest(curve, key)), []).append(curve)

    def gave(self, curve: Curve, batch: int, change: Change) -> Value | None:
        here = curve.values("throughput")[batch]
        for other, size in self._changed(curve, batch, change):
            there = other.values("throughput").get(size)
            if there is not None:
                return ratio(there, here)
        return None

    def _changed(self, curve: Curve, batch: int, change: Change) -> Iterator[tuple[Curve, int]]:
        if change.key == "batch_size":
            yield curve, int(change.value)
            return
        name = "data.name" if change.key == "data" else change.key
        for other in self._without[change.key, _rest(curve, change.key)]:
            if other.settings.get(name) == change.value:
                yield other, batch


def _rest(curve: Curve, key: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(item for item in curve.settings.items() if item[0].partition(".")[0] != key))


def _command(curve: Curve, batch: int, change: Change) -> str:
    """The run's own command with the change in it."""
    words = curve.points[batch][-1].tags.get("tbd.overrides", "").split()
    kept = [word for word in words if word.lstrip("+").partition("=")[0] != change.key]
    return f"python -m tbd.train {shlex.join([*kept, str(change)])}"
