"""The roofline of a run's operators (tbd/measure/roofline.py): a section of summary.html, and roofline.png.

In the section each point says under the pointer what it is.
"""

import io
import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from tbd.measure.figures import Figures
from tbd.measure.metrics import number
from tbd.tracking.plots import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH

POINTS = 30  # the longest
LONGEST = 5  # above and below the mean, as many as the TBD paper's tables have
Row = Mapping[str, Any]


def shown(figures: Figures) -> tuple[Sequence[Row], Row] | None:
    """(rows, the roof), where there is a roof and anything below it."""
    rows, roof = figures.tables.get("roofline", []), figures.tables.get("roof", [])
    return (rows[:POINTS], roof[0]) if rows and roof and roof[0]["peak_tflops"] else None


def section(figures: Figures) -> str:
    """The picture, and the longest operators above and below the mean use of the arithmetic units, as HTML."""
    found = shown(figures)
    if found is None:
        return ""
    rows, roof = found
    text = (
        f"<p>Of {roof['known_share']:.0%} of the device's time the operations are known: matrix products, convolutions "
        f"and recurrences. On average {roof['mean_of_peak']:.1%} of the measured peak is in use, counting these alone. "
        "The line is what the device can reach: the measured bandwidth up to "
        f"{number(roof['ridge'])} FLOP/byte, then the measured peak. A point is a group of equal calls, its area their "
        "share of the time; its intensity counts each input and output once, the least that has to be moved.</p>"
    )
    for above, title in ((False, "below"), (True, "above")):
        text += _table([row for row in figures.tables["roofline"] if row["above_mean"] is above][:LONGEST], title)
    return f"<section><h2>Roofline</h2>{_svg(rows, roof)}{text}</section>"


def _frame(rows: Sequence[Row], roof: Row) -> tuple[float, float, float, float]:
    """Powers of ten around all points and the ridge: lowest and highest intensity, lowest and highest TFLOP/s."""
    x = [row["intensity"] for row in rows] + [roof["ridge"]]
    y = [row["tflops"] for row in rows] + [roof["peak_tflops"]]
    ends = [math.floor(math.log10(min(x))), math.ceil(math.log10(max(x)) + 0.1)]
    ends += [math.floor(math.log10(min(y))), math.ceil(math.log10(max(y)) + 0.1)]
    low_x, high_x, low_y, high_y = (10.0**end for end in ends)
    return low_x, high_x, low_y, high_y


def _line(low_x: float, high_x: float, low_y: float, roof: Row) -> list[tuple[float, float]]:
    """Corners of the roof from the picture's left, or lower, edge to its right one."""
    begin = max(low_x, low_y * 1e3 / roof["bandwidth"])
    peak = roof["peak_tflops"]
    return [(begin, min(peak, begin * roof["bandwidth"] / 1e3)), (roof["ridge"], peak), (high_x, peak)]


def _words(row: Row) -> str:
    ms, calls, intensity, achieved = (
        number(row[name]) for name in ("ms_per_step", "count_per_step", "intensity", "tflops")
    )
    return (
        f"{row['operator']} {row['shapes']} {row['type']}, {row['phase'] or 'phase not known'}, "
        f"{row['layer'] or 'layer not known'}: {ms} ms a step in {calls} calls, {row['share']:.1%} of the time; "
        f"{intensity} FLOP/byte, {achieved} TFLOP/s, {row['of_roof']:.0%} of the roof, {row['of_peak']:.0%} of the peak"
    )


def _svg(rows: Sequence[Row], roof: Row) -> str:
    low_x, high_x, low_y, high_y = _frame(rows, roof)

    def at(x: float, y: float) -> tuple[float, float]:
        right = math.log10(x / low_x) / math.log10(high_x / low_x)
        up = math.log10(y / low_y) / math.log10(high_y / low_y)
        return LEFT + right * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg role="img" viewBox="0 0 {WIDTH} {HEIGHT}"><title>Operators below the roofline</title>']
    for power in range(round(math.log10(low_y)), round(math.log10(high_y)) + 1):
        _, y = at(low_x, 10.0**power)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    for power in range(round(math.log10(low_x)), round(math.log10(high_x)) + 1):
        x, _ = at(10.0**power, low_y)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{10.0**power:g}</text>')
    corners = " ".join("{:.1f},{:.1f}".format(*at(x, y)) for x, y in _line(low_x, high_x, low_y, roof))
    parts.append(f'<polyline class="line" points="{corners}"/>')
    for row in sorted(rows, key=lambda row: -float(row["share"])):  # small ones stay on top, in the pointer's reach
        x, y = at(row["intensity"], row["tflops"])
        radius = 3 + 20 * math.sqrt(row["share"])
        parts.append(
            f'<circle class="dot" fill-opacity="0.55" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}">'
            f"<title>{escape(_words(row))}</title></circle>"
        )
    middle = (HEIGHT - BOTTOM + TOP) / 2
    parts.append(f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle">FLOP/byte</text>')
    parts.append(f'<text transform="translate(14 {middle:.0f}) rotate(-90)" text-anchor="middle">TFLOP/s</text>')
    return "".join([*parts, "</svg>"])


def _table(rows: Sequence[Row], title: str) -> str:
    if not rows:
        return ""
    body = "".join(
        f'<tr><th scope="row">{escape(row["operator"])}<br><span class="note">{escape(row["shapes"])} '
        f"{escape(row['type'])}</span></th><td>{escape(row['phase'])}</td><td>{escape(row['layer'])}</td>"
        f'<td class="n">{number(row["ms_per_step"])}</td><td class="n">{row["share"]:.1%}</td>'
        f'<td class="n">{row["of_peak"]:.1%}</td><td class="n">{row["of_roof"]:.1%}</td></tr>'
        for row in rows
    )
    head = '<tr><th scope="col">Operator</th><th scope="col">Phase</th><th scope="col">Layer</th>'
    for name in ("ms a step", "Of the time", "Of the peak", "Of the roof"):
        head += f'<th scope="col" class="n">{name}</th>'
    caption = f"The longest {title} the mean use of the arithmetic units, of the operators with known operations."
    return f"<table><caption>{caption}</caption><thead>{head}</tr></thead><tbody>{body}</tbody></table>"


def picture(title: str, figures: Figures) -> bytes:
    """The same as a PNG; empty where there is nothing to show."""
    found = shown(figures)
    if found is None:
        return b""
    from matplotlib.figure import Figure

    rows, roof = found
    low_x, high_x, low_y, high_y = _frame(rows, roof)
    figure = Figure(figsize=(9, 5), dpi=110, layout="constrained")
    axes = figure.subplots()
    axes.loglog(*zip(*_line(low_x, high_x, low_y, roof), strict=True), color="#2166ac")
    names = list(dict.fromkeys(row["operator"] for row in rows))
    for name in names:
        of_it = [row for row in rows if row["operator"] == name]
        axes.scatter(
            [row["intensity"] for row in of_it], [row["tflops"] for row in of_it],
            s=[20 + 1500 * row["share"] for row in of_it], alpha=0.6, label=name,
        )  # fmt: skip
    axes.set(xlim=(low_x, high_x), ylim=(low_y, high_y), xlabel="FLOP/byte", ylabel="TFLOP/s")
    axes.set_title(f"Roofline of {title}: {roof['known_share']:.0%} of the time is in these")
    axes.legend(loc="lower right", fontsize=8)
    written = io.BytesIO()
    figure.savefig(written, format="png")
    return written.getvalue()
