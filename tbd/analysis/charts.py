"""Pictures: what is to be shown as plain data, and their drawing as SVG for a page.

The page's style sheet gives the colours, so a picture follows it from light to dark and onto paper. It is drawn by
hand: a report has dozens of panels, and matplotlib takes longer for them than all else of a report together.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from tbd.tracking.plots import ticks

SERIES = tuple(f"var(--c{number})" for number in range(8))
# As SVG paths about a point: circle, square, diamond, up, down, plus, cross, bar
MARKERS = (
    "m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0", "m-2-2h4v4h-4z", "m0-2.8l2.8 2.8l-2.8 2.8l-2.8-2.8z", "m0-2.4l2.4 4.4h-4.8z",
    "m0 2.4l-2.4-4.4h4.8z", "m-.9-2.6h1.8v1.7h1.7v1.8h-1.7v1.7h-1.8v-1.7h-1.7v-1.8h1.7z",
    "m-2.6-1.4l1.2-1.2l1.4 1.4l1.4-1.4l1.2 1.2l-1.4 1.4l1.4 1.4l-1.2 1.2l-1.4-1.4l-1.4 1.4l-1.2-1.2l1.4-1.4z",
    "m-1-2.8h2v5.6h-2z",
)  # fmt: skip
DASHES = ("", "5 2", "1.5 1.5", "5 1.5 1.5 1.5")
COLUMNS = 3  # of panels
MOST_LINES = len(SERIES)  # of a panel: more can't be told apart
MOST_BARS = 40
WIDTH = 540.0  # of every picture; the page scales it. Text is 9 high, words of a key 8
LETTER = 0.56  # the width of a letter by its height, on the wide side for the page's fonts
KEY_ROW = 13.0


@dataclass(frozen=True)
class Line:
    """Points joined by a line; `low` and `high`: their intervals' ends, where they have any."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class Lines:
    """Lines over a batch or a number of devices, both in doublings, in a panel each. `mark`: a level to draw."""

    title: str
    x_label: str
    y_label: str
    panels: Mapping[str, Sequence[Line]]
    mark: float | None = None


@dataclass(frozen=True)
class Bars:
    """Horizontal bars; of several parts, one beside the other, they are stacked."""

    title: str
    unit: str
    names: Sequence[str]
    parts: Mapping[str, Sequence[float]]
    mark: float | None = None


Chart = Lines | Bars


def draw(chart: Chart) -> str:
    """The picture as SVG, described for those who can't see it by its title."""
    height, parts = _lines(chart) if isinstance(chart, Lines) else _bars(chart)
    opening = f'<svg role="img" aria-label="{escape(chart.title)}" viewBox="0 0 {WIDTH:g} {height:.1f}">'
    return "\n".join([opening, *parts, "</svg>"])


# ---- lines


def _lines(chart: Lines) -> tuple[float, list[str]]:
    columns = min(COLUMNS, len(chart.panels))
    shown = {name: lines[:MOST_LINES] for name, lines in chart.panels.items()}
    labels = list(dict.fromkeys(line.label for lines in shown.values() for line in lines))
    styles = {
        label: (SERIES[n % len(SERIES)], DASHES[n // len(SERIES) % len(DASHES)]) for n, label in enumerate(labels)
    }
    marks = {label: MARKERS[number % len(MARKERS)] for number, label in enumerate(labels)}
    top, parts = 0.0, list[str]()
    if len(labels) > 1:
        symbols = [_stroke([(0, 0), (18, 0)], *styles[label]) + _mark(marks[label], 9, 0, styles[label][0])
                   for label in labels]  # fmt: skip
        top, parts = _key(labels, symbols, 18)
    row_height = 168.0 if columns > 1 else 215.0
    step = (WIDTH + 8) / columns
    for number, (name, lines) in enumerate(shown.items()):
        row, column = divmod(number, columns)
        last, first = number >= len(shown) - columns, column == 0
        box = _Box(column * step + 48, top + row * row_height + 20, step - 60, row_height - 56)
        parts += _panel(box, name, lines, chart.mark, chart.x_label if last else "", chart.y_label if first else "")
        for line in lines:
            parts += _line(box, _x_ends(lines), _y_top(lines, chart.mark), line, styles[line.label], marks[line.label])
    return top + math.ceil(len(shown) / columns) * row_height, parts


@dataclass(frozen=True)
class _Box:
    """The place of a panel's axes within the picture."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height


def _x_ends(lines: Sequence[Line]) -> tuple[float, float]:
    """The ends of the axis, in doublings, with a twentieth of room at each."""
    x = [math.log2(point) for line in lines for point in line.x]
    low, high = min(x), max(x)
    room = 0.05 * (high - low) or 0.5
    return low - room, high + room


def _y_top(lines: Sequence[Line], mark: float | None) -> float:
    """Where the axis ends that begins at 0."""
    values = [value for line in lines for value in (*line.y, *line.high)] + ([] if mark is None else [mark])
    return 1.05 * max((value for value in values if math.isfinite(value)), default=0.0) or 1.0


def _panel(
    box: _Box, name: str, lines: Sequence[Line], mark: float | None, x_label: str, y_label: str
) -> Iterable[str]:
    """The axes, with the panel's name and their labels."""
    (x_low, x_high), y_top = _x_ends(lines), _y_top(lines, mark)
    yield _text(box.left, box.top - 7, name, "var(--ink)")
    for y in ticks(0.0, y_top, 6):
        at = box.bottom - y / y_top * box.height
        yield _stroke([(box.left, at), (box.right, at)], "var(--rule)", width=0.6)
        yield _text(box.left - 5, at + 3, number(y), anchor="end")
    x = sorted({point for line in lines for point in line.x})
    for point in x if len(x) <= 6 else x[:: math.ceil(len(x) / 6)]:
        at = box.left + (math.log2(point) - x_low) / (x_high - x_low) * box.width
        yield _stroke([(at, box.bottom), (at, box.bottom + 3)], "var(--soft)", width=0.8)
        yield _text(at, box.bottom + 12, f"{point:g}", anchor="middle")
    corner = [(box.left, box.top), (box.left, box.bottom), (box.right, box.bottom)]
    yield _stroke(corner, "var(--soft)", width=0.8)
    if mark is not None:
        at = box.bottom - mark / y_top * box.height
        yield _stroke([(box.left, at), (box.right, at)], "var(--soft)", "4 2", 0.8)
    if x_label:
        yield _text(box.left + box.width / 2, box.bottom + 25, x_label, anchor="middle")
    if y_label:
        place = f"translate({box.left - 38:.1f} {box.top + box.height / 2:.1f}) rotate(-90)"
        yield f'<g transform="{place}">{_text(0, 0, y_label, anchor="middle")}</g>'


def _line(
    box: _Box, x_ends: tuple[float, float], y_top: float, line: Line, style: tuple[str, str], mark: str
) -> Iterable[str]:
    def x_at(x: float) -> float:
        return box.left + (math.log2(x) - x_ends[0]) / (x_ends[1] - x_ends[0]) * box.width

    def y_at(y: float) -> float:
        return box.bottom - min(y, y_top) / y_top * box.height

    points = [(x_at(x), y_at(y)) for x, y in zip(line.x, line.y, strict=True) if math.isfinite(y)]
    yield _stroke(points, *style)
    for x, low, high in zip(line.x, line.low, line.high, strict=False):
        if not math.isnan(low + high):
            yield _stroke([(x_at(x), y_at(max(0.0, low))), (x_at(x), y_at(high))], style[0])
    for x, y in points:
        yield _mark(mark, x, y, style[0])


# ---- bars


def _bars(chart: Bars) -> tuple[float, list[str]]:
    names = list(chart.names)[:MOST_BARS]
    colours = {part: SERIES[number % len(SERIES)] for number, part in enumerate(chart.parts)}
    shown = {part: [max(0.0, size) for size in sizes[: len(names)]] for part, sizes in chart.parts.items()}
    top, parts = 4.0, list[str]()
    if len(shown) > 1:
        symbols = [f'<rect y="-3" width="10" height="6" style="fill:{colour}"/>' for colour in colours.values()]
        top, parts = _key(list(shown), symbols, 10)
    left = min(WIDTH / 2, LETTER * 9 * max((len(name) for name in names), default=1) + 10)
    box = _Box(left, top, WIDTH - left - 12, 19.5 * len(names) + 2)
    sums = [math.fsum(sizes) for sizes in zip(*shown.values(), strict=True)]
    whole = 1.05 * max([*sums, chart.mark or 0.0], default=0.0) or 1.0
    scale = box.width / whole
    for x in ticks(0.0, whole, 7):
        at = box.left + x * scale
        parts.append(_stroke([(at, box.top), (at, box.bottom)], "var(--rule)", width=0.6))
        parts.append(_text(at, box.bottom + 12, number(x), anchor="middle"))
    begins = [box.left] * len(names)
    for part, sizes in shown.items():
        for place, size in enumerate(sizes):
            y, width = box.top + 19.5 * place + 4, size * scale
            where = f'x="{begins[place]:.2f}" y="{y:.1f}" width="{width:.2f}" height="13.5"'
            parts.append(f'<rect {where} style="fill:{colours[part]}"/>')
            begins[place] += width
    for place, name in enumerate(names):
        parts.append(_text(box.left - 6, box.top + 19.5 * place + 14, name, anchor="end"))
    corner = [(box.left, box.top), (box.left, box.bottom), (box.right, box.bottom)]
    parts.append(_stroke(corner, "var(--soft)", width=0.8))
    if chart.mark is not None:
        at = box.left + chart.mark * scale
        parts.append(_stroke([(at, box.top), (at, box.bottom)], "var(--soft)", "4 2", 0.8))
    parts.append(_text(box.left + box.width / 2, box.bottom + 25, chart.unit, anchor="middle"))
    return box.bottom + 31, parts


# ---- what both have


def _key(labels: Sequence[str], symbols: Sequence[str], symbol_width: float) -> tuple[float, list[str]]:
    """(its height, the parts): what each colour stands for, in as many columns as there is room for."""
    width = symbol_width + 16 + LETTER * 8 * max(map(len, labels))
    columns = max(1, min(len(labels), int(WIDTH // width)))
    parts = []
    for place, (label, symbol) in enumerate(zip(labels, symbols, strict=True)):
        row, column = divmod(place, columns)
        words = _text(symbol_width + 5, 3, label, "var(--ink)", size=8)
        parts.append(f'<g transform="translate({column * width + 4:.1f} {KEY_ROW * row + 9:g})">{symbol}{words}</g>')
    return KEY_ROW * math.ceil(len(labels) / columns) + 10, parts


def number(value: float) -> str:
    """As short as an axis has room for: 0.5, 120, 5k, 1.5M."""
    for unit, word in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= unit:
            return f"{value / (1e3 if word == 'k' else unit):g}{word}"
    return f"{value:g}"


def _text(x: float, y: float, words: str, colour: str = "var(--soft)", anchor: str = "start", size: int = 9) -> str:
    style = f"font:{size}px system-ui,sans-serif;fill:{colour}"
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" style="{style}">{escape(words)}</text>'


def _stroke(points: Sequence[tuple[float, float]], colour: str, dashes: str = "", width: float = 1.4) -> str:
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    style = f"fill:none;stroke:{colour};stroke-width:{width:g}" + (f";stroke-dasharray:{dashes}" if dashes else "")
    return f'<path d="M{path}" style="{style}"/>' if points else ""


def _mark(shape: str, x: float, y: float, colour: str) -> str:
    return f'<path d="M{x:.1f} {y:.1f}{shape}" style="fill:{colour}"/>'
