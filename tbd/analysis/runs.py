"""Finds recorded runs, for whoever compares or reports: in the MLflow store and in spools that are not there, alike.

    runs = Library().matching("params.`model.name` = 'resnet50' and metrics.throughput > 100")
    runs = Library().named("9f2c...")     # a run id, a run's name, a spool's folder, or a filter as above

Params, tags and figures of all runs come at once (a thousand in a few seconds); what is heavy is read at its first use.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tbd.analysis.files import Files, Folder, of_mlflow
from tbd.measure import run as measured
from tbd.measure.events import Array
from tbd.measure.figures import Figures, Point, compute
from tbd.measure.jsonl import objects, read_object
from tbd.measure.memory import CATEGORIES
from tbd.tracking import record
from tbd.tracking.redaction import redact_object, secrets_of, without_credentials
from tbd.tracking.spool import NoSpool, Spool, spools
from tbd.tracking.store import Settings, sqlite_file, tracking_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient, entities

FACTS = ("request.json", "events.jsonl", "controller.jsonl")  # what figures are computed from, but for trace and memory
SERIES = re.compile(r"system/.*|loss|throughput_over_time")  # in MLflow these are metrics too, but no figures
HEAD_BYTES = 65536  # the worker's event `framework` is among its first lines
PAGE = 5000  # runs in one answer of the store
FILTER = re.compile(r"[=<>]|\b(?:i?like|in)\b", re.IGNORECASE)  # what a name or an id has not
YAML = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where it is built


class NoRun(ValueError):
    """There is no run of that description. The message says what was looked for, and where."""


@dataclass(frozen=True)
class Timing:
    """One timing pass, a process of its own: `items` and `seconds` of every timed step, and the window's wall time."""

    name: str
    items: Array
    seconds: Array
    window_s: float

    @property
    def rate(self) -> float:
        """Items per second."""
        return float(self.items.sum() / self.window_s)


@dataclass(frozen=True)
class Run:
    """One run as it was recorded.

    run_id: MLflow's, "" where it is not there. parent: the spool id of the sweep that it belongs to, "" for none.
    status: of docs/statuses.md, or "running". start: Unix seconds. params: the composed configuration, flattened.
    metrics: the figures of docs/metrics.md that it has.
    """

    name: str
    spool_id: str
    run_id: str
    kind: str
    parent: str
    status: str
    start: float
    params: Mapping[str, str] = field(repr=False)
    tags: Mapping[str, str] = field(repr=False)
    metrics: Mapping[str, float] = field(repr=False)
    files: Files = field(repr=False)

    @property
    def id(self) -> str:
        """What names it to a person: MLflow's id, else its spool's."""
        return self.run_id or self.spool_id

    @property
    def model(self) -> str:
        return self.tags.get("tbd.model") or self.params.get("model.name", "")

    @property
    def framework(self) -> str:
        return self.tags.get("tbd.framework") or self.params.get("framework.name", "")

    @property
    def unit(self) -> str:
        """What its throughput counts: images, tokens, ..."""
        return self.tags.get("tbd.throughput_unit", "items")

    @property
    def batch_size(self) -> int:
        return int(self.params.get("batch_size", 0))

    @property
    def memory_mb(self) -> dict[str, float]:
        """MB at the peak by category; {} where memory was not recorded."""
        found = {name: self.metrics.get(f"memory/{name}_mb") for name in CATEGORIES}
        return {name: value for name, value in found.items() if value is not None}

    @cached_property
    def figures(self) -> Figures:
        """All that was worked out at its end, with series, tables and what is absent."""
        return _figures(self.files)

    @property
    def operators(self) -> list[dict[str, Any]]:
        """Rows name, category, count_per_step, self_ms_per_step, share, longest first; [] without a trace."""
        return self.figures.tables.get("operators", [])

    @cached_property
    def measured(self) -> measured.Run:
        """The facts themselves, for what figures don't tell. Raises Absent where it lacks one."""
        return measured.Run(self.files.folder(*FACTS))

    @cached_property
    def timings(self) -> list[Timing]:
        """Every timing pass with its steps, in the model's own unit. Raises Absent where there is none."""
        found = self.measured
        return [
            Timing(one.name, items, one.times_s, one.window.seconds)
            for one, items in zip(found.timings, found.items(found.units[0]), strict=True)
        ]

    @cached_property
    def packages(self) -> dict[str, str]:
        """{package: version} of the environment that it trained in; {} where that is not known."""
        path = self.files.folder("environment.txt") / "environment.txt"
        lines = path.read_text().splitlines() if path.is_file() else []
        return {name: version for name, equal, version in (line.partition("==") for line in lines) if equal}


class Library:
    """The runs of one MLflow store, and of the spools under `runs` that are not in it, or not wholly.

    uri: the store; None: what MLflow itself would take (MLFLOW_TRACKING_URI, else sqlite:///mlflow.db here).
    """

    def __init__(self, runs: Path = Path("runs"), uri: str | None = None):
        self.runs = runs
        self.uri = uri

    def named(self, word: str) -> list[Run]:
        """The runs that `word` means: a spool's folder, an id of MLflow's or a spool's, a run's name, or a filter.

        A sweep means its jobs. MLflow is asked only where no spool here has that folder or id. Raises NoRun.
        """
        if FILTER.search(word):
            found = self.matching(word)
        else:
            found = (
                self._spooled(word) or self._with_id(word) or self.matching(f"attributes.run_name = {_quoted(word)}")
            )
        if not found:
            raise NoRun(f"no run is called or matches {word!r}, neither under {self.runs} nor {self._where()}")
        return found

    def matching(self, condition: str = "", experiment: str | None = None) -> list[Run]:
        """Every run for which the condition holds, in MLflow's own language of filters; oldest first. "": all.

        experiment: its name; None: of all experiments. Raises NoRun where the condition is no filter.
        """
        return self._search(condition, experiment, "run")

    def sweeps(self, experiment: str | None = None) -> list[Run]:
        """Every sweep, oldest first."""
        return self._search("tags.`tbd.kind` = 'sweep'", experiment, "sweep")

    def jobs_of(self, sweep: Run) -> list[Run]:
        """The sweep's runs, in the order in which they began."""
        return self.matching(f"tags.`tbd.parent_spool_id` = {_quoted(sweep.spool_id)}")

    def _search(self, condition: str, experiment: str | None, kind: str) -> list[Run]:
        stored = self._stored(condition, experiment)
        waiting = [spool for spool in self._waiting if experiment in (None, spool.run.get("experiment"))]
        ids = {spool.id for spool in waiting}  # the spool is the truth where the store has it in part
        found = [run for run in stored if run.spool_id not in ids] + _filtered(
            [of_spool(s) for s in waiting], condition
        )
        return sorted((run for run in found if run.kind == kind), key=lambda run: run.start)

    # ---- spools

    @cached_property
    def _spools(self) -> list[Spool]:
        return spools(self.runs)

    @cached_property
    def _waiting(self) -> list[Spool]:
        """The spools that the store doesn't have, or not as they ended."""
        if self._client is None:
            return self._spools
        store = without_credentials(self._uri)
        sent = (read_object(spool.path / "synced.json").get("tracking_uri") for spool in self._spools)
        return [spool for spool, uri in zip(self._spools, sent, strict=True) if uri != store]

    def _spooled(self, word: str) -> list[Run]:
        """What a folder, a spool's id or an MLflow run's id means, as far as spools here tell."""
        folder = Path(word)
        spool = None
        if (folder / "run.json").is_file():
            try:
                spool = Spool.open(folder)
            except NoSpool as error:
                raise NoRun(str(error)) from error
        elif re.fullmatch("[0-9a-f]{32}", word):
            ids = ((one, {one.id, one.mlflow().get("run_id")}) for one in self._spools)
            spool = next((one for one, names in ids if word in names), None)
        elif (self.runs / word / "run.json").is_file():
            spool = Spool.open(self.runs / word)
        if spool is None:
            return []
        if spool.run.get("kind") == "sweep":
            beside = spools(spool.path.parent)
            return [of_spool(one) for one in beside if one.run.get("parent_spool_id") == spool.id]
        return [of_spool(spool)]

    # ---- the store

    @cached_property
    def _uri(self) -> str:
        return tracking_uri(Settings(uri=self.uri))

    def _where(self) -> str:
        return f"in MLflow ({without_credentials(self._uri)})"

    @cached_property
    def _client(self) -> "MlflowClient | None":
        """None where the store is a database file that isn't there: asking would make it."""
        database = sqlite_file(self._uri)
        if database is not None and not database.exists():
            return None
        from mlflow import MlflowClient

        return MlflowClient(tracking_uri=self._uri)

    def _with_id(self, word: str) -> list[Run]:
        """The run that MLflow has under this id; [] where it has none."""
        from mlflow.exceptions import MlflowException

        if self._client is None or not re.fullmatch("[0-9a-f]{32}", word):
            return []
        try:
            run = self._of_mlflow(self._client.get_run(word))
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return self.matching(f"tags.`tbd.spool_id` = {_quoted(word)}")
        return self.jobs_of(run) if run.kind == "sweep" else [run]

    def _stored(self, condition: str, experiment: str | None) -> list[Run]:
        """The store's runs of ours that fulfil the condition."""
        from mlflow.exceptions import MlflowException

        if self._client is None:
            return []
        experiments = self._client.search_experiments()
        ids = [one.experiment_id for one in experiments if experiment in (None, one.name)]
        found: list[Run] = []
        token = None
        while ids:
            try:
                page = self._client.search_runs(ids, condition, max_results=PAGE, page_token=token)
            except MlflowException as error:
                if error.error_code != "INVALID_PARAMETER_VALUE":
                    raise
                raise NoRun(_no_filter(condition, error)) from error
            found += [self._of_mlflow(run) for run in page if "tbd.spool_id" in run.data.tags]
            token = page.token
            if not token:
                break
        return found

    def _of_mlflow(self, run: "entities.Run") -> Run:
        tags = dict(run.data.tags)
        return Run(
            name=str(run.info.run_name),
            spool_id=tags.get("tbd.spool_id", ""),
            run_id=str(run.info.run_id),
            kind=tags.get("tbd.kind", "run"),
            parent=tags.get("tbd.parent_spool_id", ""),
            status=tags.get("tbd.status", "running"),
            start=run.info.start_time / 1000,
            params=dict(run.data.params),
            tags=tags,
            metrics={name: value for name, value in run.data.metrics.items() if not SERIES.fullmatch(name)},
            files=self._files.get(tags.get("tbd.spool_id", ""))
            or of_mlflow(self._uri, str(run.info.run_id), str(run.info.artifact_uri)),
        )

    @cached_property
    def _files(self) -> dict[str, Files]:
        """The spools that are here, by id: nearer than any artifact."""
        return {spool.id: Folder(spool.path) for spool in self._spools}


def of_spool(spool: Spool) -> Run:
    """The run in the folder, as MLflow would have it."""
    secrets = secrets_of(os.environ)
    end = spool.ended()
    ended = end is not None and spool.run.get("kind", "run") == "run"
    figures = _figures(Folder(spool.path)) if ended else Figures()
    tags = record.tags(spool.run, read_object(spool.path / "request.json"), _head(spool.events_path), end)
    config = spool.path / "config.yaml"
    composed = yaml.load(config.read_bytes(), Loader=YAML) if config.is_file() else {}
    return Run(
        name=str(spool.run.get("name", "")),
        spool_id=spool.id,
        run_id=str(spool.mlflow().get("run_id", "")),
        kind=str(spool.run.get("kind", "run")),
        parent=str(spool.run.get("parent_spool_id") or ""),
        status=tags["tbd.status"],
        start=float(spool.run["wall_time"]),
        params=record.params(redact_object(composed, secrets)),
        tags=redact_object({**tags, **figures.tags}, secrets),
        metrics={record.legal(name): value for name, value in figures.metrics.items()},
        files=Folder(spool.path),
    )


def _figures(files: Files) -> Figures:
    """What figures.json holds; worked out again where it isn't there, as after a full disk."""
    try:
        found = json.loads((files.folder("figures.json") / "figures.json").read_bytes())
        figures = Figures(**{**found, "series": {}})
        for name, points in found["series"].items():
            figures.series[name] = [Point(*point) for point in points]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return compute(files.folder(*FACTS, "trace.json.gz", "memory.json"))
    return figures


def _head(path: Path) -> list[dict[str, Any]]:
    """The first events of a file."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return objects(file.read(HEAD_BYTES))[0]
    return []


def _filtered(runs: list[Run], condition: str) -> list[Run]:
    """Those for which the condition holds, by MLflow's own code. Raises NoRun where it is no filter."""
    if not condition or not runs:
        return runs
    from mlflow.exceptions import MlflowException
    from mlflow.utils.search_utils import SearchUtils

    try:
        return [run for run in runs if SearchUtils.filter([_as_mlflow(run)], condition)]
    except MlflowException as error:
        raise NoRun(_no_filter(condition, error)) from error


def _as_mlflow(run: Run) -> "entities.Run":
    from mlflow import entities

    start, ended = round(run.start * 1000), run.status != "running"
    status = record.terminal_status(run.status) if ended else "RUNNING"
    info = entities.RunInfo(run.id, "0", run.tags.get("mlflow.user", ""), status, start, None, "active", "", run.name)
    metrics: Iterable[entities.Metric] = (entities.Metric(k, v, start, 0) for k, v in run.metrics.items())
    data = entities.RunData(
        list(metrics),
        [entities.Param(*pair) for pair in run.params.items()],
        [entities.RunTag(*pair) for pair in {"mlflow.runName": run.name, **run.tags}.items()],
    )
    return entities.Run(info, data)


def _no_filter(condition: str, error: Exception) -> str:
    return f"{condition!r} is no filter that MLflow can read: {' '.join(str(error).split())}"


def _quoted(text: str) -> str:
    """As a value in a filter. One with both kinds of quotes can't be written there, and no run is called so."""
    quote = '"' if "'" in text else "'"
    return f"{quote}{text.replace(quote, '')}{quote}"
