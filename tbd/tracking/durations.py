"""How long a run will take, by what earlier runs here took."""

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from tbd.measure.jsonl import read, read_object
from tbd.tracking.spool import spools
from tbd.worker import status

NEWEST = 500  # spools that are looked at

# what decides most of how long a run takes, of request.json; the others of SAME decide the rest
ALIKE = ("model", "framework", "hardware", "measure")
SAME = (*ALIKE, "batch_size", "precision", "compile", "data")


class Durations:
    """Of the runs under `root` that ended ok."""

    def __init__(self, root: Path):
        self._same: dict[str, list[float]] = {}
        self._alike: dict[str, list[float]] = {}
        for spool in spools(root)[-NEWEST:]:
            end, request = spool.ended(), read_object(spool.path / "request.json")
            header = next(iter(read(spool.path / "controller.jsonl")[0]), {}) if end and request else {}
            if end and header and end.get("status") == status.OK:
                seconds = float(end["t"]) - float(header["t"])
                self._same.setdefault(_key(request, SAME), []).append(seconds)
                self._alike.setdefault(_key(request, ALIKE), []).append(seconds)

    def expected_s(self, request: Mapping[str, Any]) -> float | None:
        """The median of runs that did the same; else of those of the same model, framework, hardware and measure, at
        any batch size; None where there is none."""
        found = self._same.get(_key(request, SAME)) or self._alike.get(_key(request, ALIKE))
        return median(found) if found else None


def _key(request: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return repr([request.get(name) for name in names])
