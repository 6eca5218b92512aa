"""Pictures: what is to be shown as plain data, and their drawing by matplotlib as SVG for a page.

The page's style sheet gives the colours, so a picture follows it from light to dark and onto paper.
"""

import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

# Colours that stand for the page's, until the text of the picture is there.
INK, SOFT, RULE = "#fe0001", "#fe0002", "#fe0003"
SERIES = tuple(f"#fe001{number}" for number in range(8))
PAGE = {INK: "var(--ink)", SOFT: "var(--soft)", RULE: "var(--rule)"}
PAGE |= {colour: f"var(--c{number})" for number, colour in enumerate(SERIES)}
MARKERS = "osD^vPX*"
DASHES = ("-", "--", ":", "-.")
COLUMNS = 3  # of panels
MOST_LINES = len(SERIES)  # of a panel: more can't be told apart
MOST_BARS = 40


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
    import matplotlib

    style: Any = {
        "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9, "text.color": INK, "axes.edgecolor": SOFT,
        "axes.labelcolor": SOFT, "xtick.color": SOFT, "ytick.color": SOFT, "axes.spines.top": False,
        "axes.spines.right": False, "grid.color": RULE, "svg.hashsalt": chart.title, "axes.titlesize": 9,
        "legend.frameon": False, "legend.fontsize": 8, "savefig.transparent": True,
    }  # fmt: skip
    with matplotlib.rc_context(style):
        figure = _lines(chart) if isinstance(chart, Lines) else _bars(chart)
        text = io.StringIO()
        nothing = {"Creator": None, "Date": None, "Format": None, "Type": None}
        figure.savefig(text, format="svg", metadata=nothing)
    return _for_page(text.getvalue(), chart.title)


def _lines(chart: Lines) -> Any:
    from matplotlib.figure import Figure

    columns = min(COLUMNS, len(chart.panels))
    rows = math.ceil(len(chart.panels) / columns)
    width, height = (7.5, 2.4 * rows + 0.5) if columns > 1 else (7.5, 3.2)
    figure = Figure(figsize=(width, height))
    labels = list(dict.fromkeys(line.label for lines in chart.panels.values() for line in lines))
    for number, (name, lines) in enumerate(chart.panels.items()):
        axes = figure.add_subplot(rows, columns, number + 1)
        for line in lines[:MOST_LINES]:
            order = labels.index(line.label)
            _line(axes, line, order)
        x = sorted({point for line in lines for point in line.x})
        shown = x if len(x) <= 6 else x[:: math.ceil(len(x) / 6)]
        axes.set_xticks([math.log2(point) for point in shown], [f"{point:g}" for point in shown])
        axes.set_ylim(bottom=0)
        if chart.mark is not None:
            axes.axhline(chart.mark, color=SOFT, linewidth=0.8, linestyle="--")
        axes.grid(axis="y", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.set_title(name, loc="left")
        if number >= len(chart.panels) - columns:
            axes.set_xlabel(chart.x_label)
        if number % columns == 0:
            axes.set_ylabel(chart.y_label)
        if len(lines) > 1 or len(labels) > 1:
            axes.legend()
    figure.subplots_adjust(0.09, 0.5 / height + 0.02, 0.985, 1 - 0.3 / height, wspace=0.28, hspace=0.42)
    return figure


def _line(axes: Any, line: Line, order: int) -> None:
    colour, marker = SERIES[order % len(SERIES)], MARKERS[order % len(MARKERS)]
    x = [math.log2(point) for point in line.x]
    style = DASHES[order // len(SERIES) % len(DASHES)]
    axes.plot(x, line.y, color=colour, marker=marker, markersize=4, linewidth=1.4, linestyle=style, label=line.label)
    if line.low and line.high:
        axes.vlines(x, line.low, line.high, color=colour, linewidth=1.4)


def _bars(chart: Bars) -> Any:
    from matplotlib.figure import Figure

    names = list(chart.names)[:MOST_BARS]
    several = len(chart.parts) > 1
    height = 0.27 * len(names) + (1.0 if several else 0.65)
    figure = Figure(figsize=(7.5, height))
    axes = figure.add_subplot()
    places, left = range(len(names)), [0.0] * len(names)
    for number, (part, sizes) in enumerate(chart.parts.items()):
        shown = [max(0.0, size) for size in sizes[: len(names)]]
        axes.barh(places, shown, left=left, height=0.68, color=SERIES[number % len(SERIES)], label=part)
        left = [begin + size for begin, size in zip(left, shown, strict=True)]
    axes.set_yticks(places, names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlabel(chart.unit)
    axes.grid(axis="x", linewidth=0.6)
    axes.set_axisbelow(True)
    if chart.mark is not None:
        axes.axvline(chart.mark, color=SOFT, linewidth=0.8, linestyle="--")
    longest = max((len(name) for name in names), default=1)
    if several:
        place = (0, 1 - 0.05 / height)
        figure.legend(loc="upper left", bbox_to_anchor=place, ncols=4, columnspacing=1.2, handlelength=1.2)
    figure.subplots_adjust(
        min(0.5, 0.012 * longest + 0.03), 0.45 / height, 0.98, 1 - (0.5 if several else 0.1) / height
    )
    return figure


def _for_page(text: str, title: str) -> str:
    """matplotlib's file as a part of a page: no prolog, no size of its own, no ids that others have, page colours."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", text, flags=re.DOTALL)  # it would hold page-wide
    text = re.sub(r"font-family: [^;]*;", "font-family: system-ui, sans-serif;", text)
    text = re.sub(r'<g id="[^"]*">', "<g>", text)
    text = re.sub(r' (?:width|height)="[\d.]+pt"', "", text, count=2)
    text = re.sub(r' xmlns(?::xlink)?="[^"]*"', "", text).replace("xlink:href", "href")
    text = re.sub("#fe00[0-9a-f]{2}", lambda match: PAGE.get(match[0], match[0]), text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(title)}"', 1)
