"""What runs don't share: configuration, code, environment and hardware."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tbd.analysis.runs import Run

# where a run was kept, and what follows from other keys
NOT_CONFIGURATION = re.compile(r"tracking\..*|model\.default_batch_size.*")


@dataclass(frozen=True)
class Row:
    """A key and each side's value: "" where it has none, several with commas where its runs differ."""

    key: str
    values: list[str]


def between(sides: Sequence[Sequence[Run]]) -> dict[str, list[Row]]:
    """By kind, the keys that not all sides have the same value of; kinds without any are left out."""
    found = {kind: _rows([[facts(run) for run in side] for side in sides]) for kind, facts in KINDS.items()}
    return {kind: rows for kind, rows in found.items() if rows}


def _rows(sides: Sequence[Sequence[Mapping[str, str]]]) -> list[Row]:
    keys = dict.fromkeys(key for side in sides for facts in side for key in facts)
    rows = [
        Row(key, [", ".join(dict.fromkeys(facts.get(key, "") for facts in side)) for side in sides]) for key in keys
    ]
    return [row for row in rows if len(set(row.values)) > 1]


def configuration(run: Run) -> dict[str, str]:
    return {key: value for key, value in run.params.items() if not NOT_CONFIGURATION.fullmatch(key)}


def code(run: Run) -> dict[str, str]:
    names = {
        "tbd.version": "tbd",
        "mlflow.source.git.commit": "commit",
        "mlflow.source.git.dirty": "uncommitted changes",
    }
    return _tags(run, names)


def environment(run: Run) -> dict[str, str]:
    return {**_tags(run, {"framework_version": run.framework}), **run.packages}


def hardware(run: Run) -> dict[str, str]:
    cores = run.measured.cores
    found = _tags(run, {"device_names": "devices", "tbd.host": "host"})
    return {**found, "usable cores": f"{cores:g}"} if cores else found


KINDS: dict[str, Callable[[Run], Mapping[str, str]]] = {
    "configuration": configuration,
    "code": code,
    "environment": environment,
    "hardware": hardware,
}


def _tags(run: Run, names: Mapping[str, str]) -> dict[str, str]:
    return {name: run.tags[tag] for tag, name in names.items() if tag in run.tags}
