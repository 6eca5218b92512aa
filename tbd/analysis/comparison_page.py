"""A comparison as one HTML page that stands alone: no script, no other file."""

from collections.abc import Sequence
from html import escape

from tbd.analysis import differing
from tbd.analysis.comparison import Comparison
from tbd.analysis.moved import Moved, Part
from tbd.analysis.shown import changed, throughputs, values, verdict
from tbd.measure.difference import Difference
from tbd.measure.metrics import number
from tbd.tracking.summary import document

OWN_STYLE = """body{max-width:1000px}.worse{color:var(--bad)}.better{color:var(--good)}.zero{stroke:var(--soft)}
svg.interval{width:140px;height:14px}.span{stroke:var(--accent);stroke-width:3}"""


def page(comparison: Comparison) -> str:
    """One HTML page without script and without any other file."""
    labels = [side.label for side in comparison.sides]
    title = escape(" against ".join(reversed(labels)))
    sections = [
        f"<header><h1>{title}</h1>{_sides(comparison)}</header>",
        _list("Warnings", comparison.warnings, "warnings"),
        _figures(comparison, labels),
        *(_moved(one, labels[0], label) for one, label in zip(comparison.moved, labels[1:], strict=True)),
        _differing(comparison.differing, labels),
    ]
    return document(title, sections, OWN_STYLE)


def _sides(comparison: Comparison) -> str:
    rows = (
        f"<dt>{escape(side.label)}</dt><dd>{escape(', '.join(run.id for run in side.runs))}</dd>"
        for side in comparison.sides
    )
    return f"<dl>{''.join(rows)}</dl>"


def _list(title: str, texts: Sequence[str], style: str) -> str:
    rows = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f'<section class="{style}"><strong>{escape(title)}</strong><ul>{rows}</ul></section>' if texts else ""


def _figures(comparison: Comparison, labels: Sequence[str]) -> str:
    heads = [labels[0], *(head for label in labels[1:] for head in (label, "change", ""))]
    widest = max(
        (abs(end) for row in comparison.rows for d in row.changes if d for end in d[:3] if end is not None), default=1
    )
    scale = min(1.0, widest) or 1.0
    body = []
    for row in comparison.rows:
        one, *rest = values(row, comparison.unit)
        cells = f'<th scope="row">{escape(row.metric)}</th><td class="n">{escape(one)}</td>'
        for value, change in zip(rest, row.changes, strict=True):
            text = f"{changed(change)} {verdict(row, change)}".strip()
            source = f' title="{escape(change.source)}"' if change else ""
            cells += f'<td class="n">{escape(value)}</td><td class="n {verdict(row, change)}"{source}>{text}</td>'
            cells += f"<td>{_interval(change, scale)}</td>"
        body.append(f"<tr>{cells}</tr>")
    sources = dict.fromkeys(change.source for change in throughputs(comparison) if change)
    note = f'<p class="note">Throughput\'s interval: {escape("; ".join(sources))}. Bars reach to {scale:.0%}.</p>'
    return f"<section><h2>Figures</h2>{_table(['metric', *heads], body)}{note}</section>"


def _interval(change: Difference | None, scale: float) -> str:
    """The interval on an axis from -scale to +scale; beside the numbers, so without a description of its own."""
    if change is None or change.low is None or change.high is None:
        return ""
    low, high = (50 + 50 * max(-1.0, min(1.0, end / scale)) for end in (change.low, change.high))
    return (
        '<svg class="interval" aria-hidden="true" viewBox="0 0 100 10" preserveAspectRatio="none">'
        f'<line class="zero" x1="50" x2="50" y1="0" y2="10"/>'
        f'<line class="span" x1="{low:.1f}" x2="{max(high, low + 1):.1f}" y1="5" y2="5"/></svg>'
    )


def _moved(moved: Moved, first: str, label: str) -> str:
    tables = [
        ("A step, ms", moved.step),
        ("Operators and kernels, own ms a step", moved.operators),
        ("Memory at the peak, MB", moved.memory),
        ("Before the timed steps, s", moved.startup),
    ]
    scaled = ""
    if moved.scale != 1:
        scaled = f"Times of {escape(label)} are multiplied by {moved.scale:.3g}: to as many items a step."
        scaled = f'<p class="note">{scaled}</p>'
    parts = "".join(_parts(title, parts, first, label) for title, parts in tables)
    return (
        f"<section><h2>What moved: {escape(label)}</h2>{_list('In short', moved.told, 'note')}{scaled}{parts}</section>"
    )


def _parts(title: str, parts: Sequence[Part], first: str, label: str) -> str:
    if not parts:
        return ""
    body = [
        f'<tr><th scope="row">{escape(part.name.replace("_", " "))}</th><td class="unit">{escape(part.kind)}</td>'
        f'<td class="n">{"" if part.a is None else number(part.a)}</td>'
        f'<td class="n">{"" if part.b is None else number(part.b)}</td><td class="n">{part.change:+.4g}</td></tr>'
        for part in parts
    ]
    return _table([title, "", first, label, "change"], body)


def _differing(found: dict[str, list[differing.Row]], labels: Sequence[str]) -> str:
    parts = []
    for kind, rows in found.items():
        body = [
            f'<tr><th scope="row">{escape(row.key)}</th>'
            f"{''.join(f'<td>{escape(value)}</td>' for value in row.values)}</tr>"
            for row in rows
        ]
        parts.append(_table([kind, *labels], body))
    return f"<section><h2>What differs</h2>{''.join(parts)}</section>" if parts else ""


def _table(heads: Sequence[str], body: Sequence[str]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' if name else "<td></td>" for name in heads)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
