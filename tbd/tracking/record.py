"""What of a spool goes into MLflow: params, tags, metrics, the data set. Pure functions, within MLflow's limits.

The limits are those of mlflow/utils/validation.py (MLflow 3.17), and for tags of the older servers where they are less.
"""

import hashlib
import json
import math
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tbd.measure.figures import Point

MAX_KEY = 250
MAX_PARAM = 6000
MAX_TAG = 5000
MAX_DIGEST = 36
POINTS_A_STAGE = 500  # of one series; MLflow's UI draws fewer, and the spool's own file goes up whole

Event = Mapping[str, Any]


class Clock(NamedTuple):
    """Unix time from monotonic time: `wall` seconds at `t`."""

    t: float
    wall: float

    def at(self, t: float) -> float:
        return self.wall + (t - self.t)


def clock(controller_events: Iterable[Event], fallback_wall: float) -> Clock:
    """The clock of a spool, from its controller's header: of a sweep that was gone on with, the last one's."""
    header = _last(controller_events, "header")
    return Clock(float(header["t"]), float(header["wall_time"])) if header else Clock(0.0, fallback_wall)


def legal(name: str) -> str:
    """`name` with characters that MLflow refuses in one replaced by _, as a clean path of at most 250 characters."""
    plain = posixpath.normpath(re.sub(r"[^/\w.\- ]", "_", name)).lstrip("/")
    if plain.startswith("."):
        plain = "_" + plain[1:].replace("..", "_")
    return plain[:MAX_KEY].rstrip("/") or "_"


def cut(text: str, limit: int) -> str:
    """`text`, or its beginning with a note where it is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    note = f" [cut: {len(text)} characters in all]"
    return text[: limit - len(note)] + note


def params(config: Mapping[str, Any]) -> dict[str, str]:
    """The composed configuration, flattened: {"model.name": "resnet50", ...}. Lists are JSON, null is None."""
    flat: dict[str, str] = {}
    for name, value in _leaves(config, "") if config else ():
        key = legal(name)
        while key in flat:  # two names that differ in refused characters alone
            key = key[: MAX_KEY - 1] + "_"
        flat[key] = cut(
            value if isinstance(value, str) else json.dumps(value) if value is not None else "None", MAX_PARAM
        )
    return flat


def tags(
    run: Mapping[str, Any], request: Mapping[str, Any], worker_events: Iterable[Event], end: Event | None
) -> dict[str, str]:
    """What the run is, where it ran and how it ended, for MLflow's search and columns."""
    framework = _last(worker_events, "framework")
    devices = [str(device.get("name", "")) for device in framework.get("devices", [])]
    git = run.get("git") or {}
    found: dict[str, Any] = {
        "model": request.get("model", {}).get("name"),
        "framework": request.get("framework", {}).get("name"),
        "framework_version": framework.get("version"),
        "hardware": request.get("hardware", {}).get("name"),
        "device_names": ", ".join(dict.fromkeys(devices)),
        **(run.get("tags") or {}),
        "tbd.spool_id": run["spool_id"],
        "tbd.kind": run.get("kind", "run"),
        "tbd.parent_spool_id": run.get("parent_spool_id"),
        "tbd.version": run.get("tbd"),
        "tbd.host": run.get("host"),
        "tbd.status": end.get("status") if end else "running",
        "tbd.cause": end.get("cause") if end else None,
        "mlflow.user": run.get("user"),
        "mlflow.source.name": "tbd.train",
        "mlflow.source.type": "LOCAL",
        "mlflow.source.git.commit": git.get("commit"),
        "mlflow.source.git.dirty": str(git["dirty"]).lower() if "dirty" in git else None,
    }
    return {legal(key): cut(str(value), MAX_TAG) for key, value in found.items() if value not in (None, "")}


def terminal_status(status: str) -> str:
    """MLflow's status for one of the ends of a run (docs/statuses.md)."""
    return {"ok": "FINISHED", "interrupted": "KILLED"}.get(status, "FAILED")


def scalars(metrics: Mapping[str, float], wall_time: float) -> dict[str, list[Point]]:
    """The figures of a run under MLflow's names, at its end."""
    return {legal(name): [Point(0, wall_time, value)] for name, value in metrics.items()}


def series(all_series: Mapping[str, Sequence[Point]], goes_on: bool = False) -> dict[str, list[Point]]:
    """Series under MLflow's names, thinned: POINTS_A_STAGE values as they are, then as many means of 2, of 4, of 8, ...

    A mean stands at the last step and time of what it is the mean of. What a series begins with stays the same however
    it goes on, so a run that is followed while it trains gets the points that it has at its end, and no others.
    `goes_on`: more values are to come, so a last mean of too few is left out.
    """
    thinned: dict[str, list[Point]] = {}
    for name, values in all_series.items():
        points = thinned.setdefault(legal(name), [])
        begin, size = 0, 1
        while begin < len(values):
            group = values[begin : begin + size]
            if goes_on and len(group) < size:
                break
            mean = math.fsum(point.value for point in group) / len(group) if len(group) > 1 else group[0].value
            points.append(group[-1]._replace(value=mean))
            begin += size
            if len(points) % POINTS_A_STAGE == 0:
                size *= 2
    return thinned


def finite(metrics: Mapping[str, Sequence[Point]]) -> tuple[dict[str, list[Point]], dict[str, int]]:
    """(the points that MLflow can hold, {name: how many were NaN or infinite})."""
    kept = {name: [point for point in points if math.isfinite(point.value)] for name, points in metrics.items()}
    skipped = {name: len(points) - len(kept[name]) for name, points in metrics.items()}
    return kept, {name: count for name, count in skipped.items() if count}


def dataset(worker_events: Iterable[Event]) -> dict[str, str] | None:
    """The data set as mlflow.entities.Dataset takes it; None where the worker didn't get that far."""
    event = _last(worker_events, "dataset")
    if not event:
        return None
    described = {"counts": event.get("counts", {}), "skipped": event.get("skipped", {})}
    name, source = str(event.get("name", "data")), str(event.get("source", ""))
    digest = str(event.get("digest") or hashlib.sha256(json.dumps([name, source, described]).encode()).hexdigest()[:8])
    return {
        "name": name[:500],
        "digest": digest[:MAX_DIGEST],
        "source_type": "local",
        "source": json.dumps({"uri": source}),
        "profile": json.dumps(described),
    }


def _leaves(value: Any, name: str) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else str(key))
    else:
        yield name, value


def _last(events: Iterable[Event], kind: str) -> Event:
    found: Event = {}
    for event in events:
        if event.get("event") == kind:
            found = event
    return found
