"""What a person at the terminal sees: one progress line while a run goes on, a table at its end."""

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tbd.measure.figures import Figures
from tbd.measure.metrics import METRICS
from tbd.tracking.sweeps import Job

PHASES = {
    "environment": "environment",
    "launch": "starting the worker",
    "rendezvous": "waiting for the other ranks",
    "import": "importing the framework",
    "data": "opening the data",
    "build": "building the network",
    "ready": "waiting for the record to be opened",
    "compile": "compiling",
    "warmup": "warming up",
    "timed": "timing",
    "peak": "measuring the device's peak",
    "trace": "tracing",
    "memory": "recording memory",
    "finish": "finishing",
    "measure": "working out the figures",
    "record": "recording in MLflow",
}


class Progress:
    """One line on stderr, rewritten in place on a terminal; a line for each phase elsewhere (logs, CI)."""

    def __init__(self, total_steps: dict[str, int]) -> None:
        """`total_steps`: how many steps each phase is expected to have, {"timed": 30, ...}."""
        self._console = Console(stderr=True)
        self._status = self._console.status("") if self._console.is_terminal else None
        self._total = total_steps
        self._phase = ""
        self._pass = ""
        self._begin = time.monotonic()
        self._reset()

    def _reset(self) -> None:
        self._steps, self._items, self._first_end, self._last_end = 0, 0.0, 0.0, 0.0

    def __enter__(self) -> "Progress":
        if self._status:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status:
            self._status.stop()

    def phase(self, name: str, pass_name: str = "") -> None:
        self._phase, self._pass = name, pass_name
        self._reset()
        if self._status:
            self._show("")
        else:
            print(f"tbd: {self._label()}", file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        """What a phase is doing, such as a package that is being installed."""
        if self._status:
            self._show(text)

    def steps(self, ends: list[float], items: dict[str, list[float]]) -> None:
        """Steps that are done: their end times and items."""
        unit, counts = next(iter(items.items()))
        if not self._first_end:
            self._first_end = ends[0]
            self._items -= counts[0]  # the rate begins at the first end
        self._steps += len(ends)
        self._items += sum(counts)
        self._last_end = ends[-1]
        seconds = self._last_end - self._first_end
        total = self._total.get(self._phase)
        parts = [f"step {self._steps}" + (f" of {total}" if total else "")]
        if seconds > 0 and self._steps > 1:
            parts.append(f"{self._items / seconds:,.1f} {unit}/s so far")
            if total and self._phase == "timed":
                left = (total - self._steps) * seconds / (self._steps - 1)
                parts.append(f"{left:.0f} s left")
        self.note(", ".join(parts))

    def ended(self, pass_name: str) -> None:
        """A pass is over; the next one tells its own phases."""

    def _label(self) -> str:
        label = PHASES.get(self._phase, self._phase)
        return f"{self._pass}: {label}" if self._pass else label

    def _show(self, text: str) -> None:
        assert self._status
        seconds = time.monotonic() - self._begin
        self._status.update(escape(f"{self._label()}  {text}  [{seconds:.0f} s]"))


def summary(title: str, status: str, cause: str, figures: Figures, notes: Iterable[str]) -> None:
    """Print the run's table, what whoever reads it must know, and what to do next."""
    metrics, unit = figures.metrics, figures.tags.get("tbd.throughput_unit", "")
    console = Console()
    colour = "green" if status == "ok" else "red"
    table = Table(title=escape(title), show_header=False, title_justify="left")
    # in 80 columns: a throughput with its interval stays on one line, labels fold
    table.add_column(max_width=28)
    table.add_column(min_width=44)
    table.add_row("status", f"[{colour}]{status}[/]" + (escape(f": {cause}") if cause else ""))
    if "throughput" in metrics:
        table.add_row("throughput", throughput(metrics, unit))
    for name, metric in METRICS.items():
        if metric.terminal and name in metrics and name != "throughput":
            table.add_row(metric.meaning, f"{metric.number(metrics[name])} {metric.unit_shown(unit)}".strip())
    console.print(table)
    for warning in figures.warnings:
        console.print(f"warning  {warning}", markup=False, highlight=False, soft_wrap=True, style="yellow")
    for note in notes:
        console.print(note, markup=False, highlight=False, soft_wrap=True)


def throughput(metrics: dict[str, float], unit: str) -> str:
    metric = METRICS["throughput"]
    text = f"{metric.number(metrics['throughput'])} {metric.unit_shown(unit)}"
    if all(end in metrics for end in metric.interval):
        low, high = (metric.number(metrics[end]) for end in metric.interval)
        text += f" (95 %: {low} to {high})"
    return text


def sweep_plan(
    jobs: Sequence[Any], kept: Mapping[str, Job], to_run: Sequence[Any], expected: Mapping[str, Any]
) -> None:
    """Print what a sweep will do before it does it: its jobs (tbd.config.grids.Job), and how long that may take.

    `kept`: those that have a result, by signature; `expected`: seconds of each, None where nothing is known of it.
    """
    if not jobs:
        print("sweep: the optimising sweeper chooses its jobs one after the other")
        return
    common = set.intersection(*(set(job.overrides.split()) for job in jobs)) if len(jobs) > 1 else set()
    running = {job.signature for job in to_run}
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("", "job", "expected", ""):
        table.add_column(column, overflow="fold")
    for number, job in enumerate(jobs, 1):
        own = " ".join(word for word in job.overrides.split() if word not in common)
        seconds = expected[job.signature] if job.signature in running else None
        note = f"done: {kept[job.signature].status}" if job.signature in kept else job.planned.unsupported or ""
        table.add_row(str(number), escape(own), duration(seconds) if seconds else "", escape(note))
    Console().print(table)
    known = [expected[job.signature] for job in to_run if expected[job.signature]]
    parts = [f"{len(jobs)} jobs, {len(to_run)} to run"]
    if known:
        parts.append(f"{len(known)} of them in about {duration(sum(known))}, by earlier runs like them")
    if len(known) < len(to_run):
        parts.append(f"{len(to_run) - len(known)} of a kind that never ran here")
    if kept:
        parts.append(f"{len(kept)} done before (sweep.force=true runs them again)")
    print("sweep: " + "; ".join(parts), flush=True)


def duration(seconds: float) -> str:
    """Such as 40 s, 12 min, 3.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def sweep_summary(title: str, jobs: list[Job]) -> None:
    """Print a line a job: the overrides that not all have, status, throughput, why it failed or what to know of it."""
    table = Table(title=escape(title), title_justify="left")
    for column in ("job", "status", "throughput", "notes"):
        table.add_column(column, overflow="fold")
    common = set.intersection(*(set(job.overrides.split()) for job in jobs)) if len(jobs) > 1 else set()
    for job in jobs:
        own = " ".join(word for word in job.overrides.split() if word not in common)
        rate = f"{job.throughput:,.2f} {job.unit}/s" if job.throughput is not None else ""
        notes = [job.cause] if job.cause else job.warnings
        table.add_row(escape(own), job.status, rate, escape("; ".join(notes)))
    Console().print(table)
