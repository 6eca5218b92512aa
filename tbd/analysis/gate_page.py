"""The gate's verdicts at the terminal, as Markdown, and as a page with each configuration's history."""

from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape as plain
from rich.table import Table

from tbd.analysis.gating import OK, REGRESSION, UNKNOWN, Cell, Verdict
from tbd.analysis.history import History, version
from tbd.analysis.shown import changed, percent
from tbd.measure.metrics import find
from tbd.tracking.plots import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, ticks
from tbd.tracking.summary import document

OWN_STYLE = """body{max-width:1000px}.regression{color:var(--bad);font-weight:600}.ok{color:var(--good)}
.step{stroke:var(--bad);stroke-dasharray:4 3}.bar-line{stroke:var(--accent)}"""


COLUMNS = ("metric", "verdict", "baseline", "candidate", "change (95 % interval)", "why")


def name(cell: Cell) -> str:
    """The configuration in a few words."""
    run = cell.candidate.runs[0]
    chosen = ((key, run.params.get(key, "None")) for key in ("batch_size", "precision", "compile"))
    return " ".join([run.name, *(f"{key}={value}" for key, value in chosen if value != "None")])


def needed(verdict: Verdict) -> str:
    """What it takes to tell, in a sentence; "" where nothing is asked for."""
    if verdict.verdict != UNKNOWN or not verdict.what:
        return ""
    if verdict.more is None:
        return "more than a thousand repeats would be needed: find what makes it so noisy, or tolerate more"
    sides = [f"{count} more of the {side}" for side, count in zip(("baseline", "candidate"), verdict.more, strict=True)]
    asked = [text for text, count in zip(sides, verdict.more, strict=True) if count]
    return f"needs {' and '.join(asked)} ({verdict.what})" if asked else ""


def terminal(cells: Sequence[Cell], histories: Sequence[History]) -> None:
    """Print a table a configuration, and the changes of its history."""
    console = Console()
    for cell, history in zip(cells, histories, strict=True):
        counts = f"{len(cell.candidate.runs)} against {len(cell.baseline.runs)} of the baseline"
        table = Table(title=plain(f"{name(cell)}: {counts}"), title_justify="left", box=box.SIMPLE_HEAD)
        for column in COLUMNS[:-1]:
            table.add_column(column, overflow="fold")
        for one in cell.verdicts:
            colour = {OK: "green", REGRESSION: "red"}.get(one.verdict, "yellow")
            row = _row(one, cell)
            table.add_row(row[0], f"[{colour}]{one.verdict}[/]", *map(plain, row[2:-1]))
        console.print(table)
        for line in [*(f"{one.metric}: {_why(one)}" for one in cell.verdicts), *lines(cell, history)]:
            console.print(line, markup=False, highlight=False, soft_wrap=True)


def lines(cell: Cell, history: History) -> list[str]:
    """What stands below a configuration's table."""
    told = [
        f"changed at run {change.at + 1} of {len(history.runs)} ({change.name}): {changed(change.change)}"
        for change in history.changes
    ]
    baseline = {run.id for run in cell.baseline.runs}
    sides = [(history.runs[: change.at], history.runs[change.at :]) for change in history.changes]
    if any(all({run.id for run in side} & baseline for side in pair) for pair in sides):
        told.append("the baseline has runs of more than one level: narrow its filter, so that it is one")
    return told


def markdown(cells: Sequence[Cell], histories: Sequence[History]) -> str:
    """For a comment on a pull request."""
    text = []
    for cell, history in zip(cells, histories, strict=True):
        rows = [COLUMNS, ("---",) * len(COLUMNS), *(_row(one, cell) for one in cell.verdicts)]
        text += [f"**{name(cell)}**", "", *("| " + " | ".join(row) + " |" for row in rows)]
        text += ["", *(f"- {line}" for line in lines(cell, history)), ""]
    return "\n".join(text)


def as_json(cells: Sequence[Cell], histories: Sequence[History]) -> list[dict[str, Any]]:
    """All of it, in plain objects."""
    return [
        {
            "configuration": name(cell),
            "baseline": [run.id for run in cell.baseline.runs],
            "candidate": [run.id for run in cell.candidate.runs],
            "verdicts": [
                {**asdict(one), "change": one.change._asdict() if one.change else None, "needed": needed(one)}
                for one in cell.verdicts
            ],
            "history": [
                {"run": run.id, "version": version(run), "start": run.start, "throughput": run.metrics["throughput"]}
                for run in history.runs
            ],
            "changes": [{"at": one.at, "name": one.name, **one.change._asdict()} for one in history.changes],
        }
        for cell, history in zip(cells, histories, strict=True)
    ]


def page(cells: Sequence[Cell], histories: Sequence[History], tolerance: float) -> str:
    """One HTML page without script and without any other file."""
    sections = []
    head = "".join(f'<th scope="col">{column}</th>' for column in COLUMNS)
    for cell, history in zip(cells, histories, strict=True):
        rows = "".join(_page_row(one, cell) for one in cell.verdicts)
        told = "".join(f"<li>{escape(line)}</li>" for line in lines(cell, history))
        sections.append(
            f"<section><h2>{escape(name(cell))}</h2><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
            f"{plot(history, cell.candidate.runs[0].unit)}{f'<ul>{told}</ul>' if told else ''}</section>"
        )
    title = f"Gate: a loss of more than {tolerance:.1%}"
    return document(title, [f"<h1>{title}</h1>", *sections], OWN_STYLE)


def plot(history: History, unit: str) -> str:
    """Throughput with its interval run by run, the versions below it, dashed lines where its level changed."""
    if len(history.runs) < 2:
        return '<p class="note">One run has no history.</p>'
    rates = [run.metrics["throughput"] for run in history.runs]
    spans = [
        (run.metrics.get("throughput_ci_low", rate), run.metrics.get("throughput_ci_high", rate))
        for run, rate in zip(history.runs, rates, strict=True)
    ]
    top = max(high for _, high in spans) * 1.05

    def x_at(index: float) -> float:
        return LEFT + (index + 0.5) / len(rates) * (WIDTH - LEFT - RIGHT)

    def y_at(rate: float) -> float:
        return HEIGHT - BOTTOM - rate / top * (HEIGHT - TOP - BOTTOM)

    title = f"Throughput of {len(rates)} runs by framework version and time, in {unit}/s"
    parts = [f'<svg role="img" viewBox="0 0 {WIDTH} {HEIGHT}"><title>{escape(title)}</title>']
    for y in ticks(0, top):
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y_at(y):.1f}" y2="{y_at(y):.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y_at(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    for change in history.changes:
        x = x_at(change.at - 0.5)
        parts.append(f'<line class="step" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text x="{x + 4:.1f}" y="{TOP + 10}">{escape(percent(change.change.change))}</text>')
    before = None
    for index, (run, rate, (low, high)) in enumerate(zip(history.runs, rates, spans, strict=True)):
        x = x_at(index)
        parts.append(f'<line class="bar-line" x1="{x:.1f}" x2="{x:.1f}" y1="{y_at(low):.1f}" y2="{y_at(high):.1f}"/>')
        parts.append(f'<circle class="dot" cx="{x:.1f}" cy="{y_at(rate):.1f}" r="3"/>')
        if version(run) != before:
            parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}">{escape(version(run) or "?")}</text>')
            before = version(run)
    below = escape(f"{history.runs[0].framework} version; {unit}/s")
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 6}">{below}</text>')
    return "".join([*parts, "</svg>"])


def _page_row(verdict: Verdict, cell: Cell) -> str:
    metric, decided, *rest = _row(verdict, cell)
    style = f' class="{decided}"' if decided in (OK, REGRESSION) else ""
    cells = "".join(f"<td>{escape(part)}</td>" for part in rest)
    return f'<tr><th scope="row">{escape(metric)}</th><td{style}>{escape(decided)}</td>{cells}</tr>'


def _row(verdict: Verdict, cell: Cell) -> list[str]:
    metric, unit = find(verdict.metric), cell.candidate.runs[0].unit
    values = [
        f"{metric.number(value)} {metric.unit_shown(unit)}" if value is not None else ""
        for value in (verdict.baseline, verdict.candidate)
    ]
    return [verdict.metric, verdict.verdict, *values, changed(verdict.change), _why(verdict)]


def _why(verdict: Verdict) -> str:
    return "; ".join(filter(None, [verdict.reason, needed(verdict)]))
