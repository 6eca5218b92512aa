"""A comparison as a person reads it at the terminal and, as Markdown, in a pull request."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.markup import escape as plain
from rich.table import Table

from tbd.analysis.comparison import Comparison, Row, better
from tbd.measure.difference import Difference

LONGEST = 60  # of a value at the terminal and in Markdown
KEYS = 12  # of one kind there: a page and JSON have all


def percent(share: float) -> str:
    """A change in per cent, with its sign."""
    value = 100 * share
    return f"{value:+.1f} %" if abs(value) >= 10 else f"{value:+.2f} %"


def changed(change: Difference | None) -> str:
    """Such as "+3.10 % (+2.02 to +4.20)"; "" where there is nothing to compare."""
    if change is None:
        return ""
    if change.low is None or change.high is None:
        return percent(change.change)
    low, high = (percent(end).removesuffix(" %") for end in (change.low, change.high))
    return f"{percent(change.change)} ({low} to {high})"


def verdict(row: Row, change: Difference | None) -> str:
    """better, worse, other (where neither is known to be better); "" where the interval tells no difference."""
    if change is None or not change.significant:
        return ""
    direction = better(row.metric) * (1 if change.change > 0 else -1)
    return {1: "better", -1: "worse", 0: "other"}[direction]


def values(row: Row, unit: str) -> list[str]:
    """Each side's value with its unit; "" where it has none."""
    shown = row.about.unit_shown(unit)
    return [f"{row.about.number(value)} {shown}".strip() if value is not None else "" for value in row.values]


def important(comparison: Comparison) -> list[Row]:
    """The rows that are shown at a run's end too, with those whose change the data tell."""
    return [row for row in comparison.rows if row.about.terminal or any(verdict(row, change) for change in row.changes)]


def terminal(comparison: Comparison) -> None:
    """Print it."""
    console = Console()
    first, *others = (side.label for side in comparison.sides)
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("", max_width=34)
    table.add_column(plain(first), justify="right", overflow="fold")
    for label in others:
        table.add_column(plain(label), justify="right", overflow="fold")
        table.add_column("change (95 % interval)", justify="right", overflow="fold")
    for row in important(comparison):
        one, *rest = values(row, comparison.unit)
        cells = [plain(row.about.meaning if row.metric != "throughput" else "throughput"), one]
        for value, change in zip(rest, row.changes, strict=True):
            colour = {"better": "green", "worse": "red"}.get(verdict(row, change), "")
            text = f"{changed(change)} {verdict(row, change)}".strip()
            cells += [value, f"[{colour}]{text}[/]" if colour else text]
        table.add_row(*cells)
    console.print(table)
    for line in _lines(comparison):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _lines(comparison: Comparison) -> Iterable[str]:
    """What stands below the table."""
    labels = [side.label for side in comparison.sides[1:]]
    for label, one, change in zip(labels, comparison.moved, throughputs(comparison), strict=True):
        if change:
            yield f"interval of {label}: {change.source}"
        yield from (f"{label}: {text}" for text in one.told)
    for kind, rows in comparison.differing.items():
        yield f"{kind}:"
        yield from (f"  {row.key}: {' | '.join(_cut(value) or '-' for value in row.values)}" for row in rows[:KEYS])
        if len(rows) > KEYS:
            yield f"  and {len(rows) - KEYS} more (--json, --html)"
    yield from (f"warning: {text}" for text in comparison.warnings)


def throughputs(comparison: Comparison) -> Sequence[Difference | None]:
    found = next((row.changes for row in comparison.rows if row.metric == "throughput"), None)
    return found or [None] * (len(comparison.sides) - 1)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


# ---- Markdown


def markdown(comparison: Comparison) -> str:
    """For a comment on a pull request."""
    heads = [_cell(side.label) for side in comparison.sides]
    columns = ["", heads[0], *(cell for head in heads[1:] for cell in (head, "change (95 % interval)"))]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in important(comparison):
        one, *rest = values(row, comparison.unit)
        cells = [_cell(row.metric), one]
        for value, change in zip(rest, row.changes, strict=True):
            cells += [value, f"{changed(change)} **{verdict(row, change)}**".removesuffix(" ****")]
        lines.append("| " + " | ".join(cells) + " |")
    lines.append("")
    lines += [f"- {_cell(text)}" for text in _lines(comparison) if not text.startswith("  ") and not text.endswith(":")]
    for kind, rows in comparison.differing.items():
        lines += ["", f"<details><summary>{kind}: {len(rows)} differ</summary>", ""]
        lines += ["| | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
        lines += [f"| {_cell(row.key)} | {' | '.join(_cell(_cut(value)) for value in row.values)} |" for row in rows]
        lines += ["", "</details>"]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Text within a Markdown table."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
