"""Small SVG pictures for the summary page, drawn by hand: no script, no font, colours from the page's style sheet."""

import math
from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT = 720, 240
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 12, 40


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten apart) within [low, high], about `count` of them."""
    if not high > low:
        return [low]
    raw = (high - low) / count
    power = 10 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw)
    within = 1e-9 * (high - low) / step  # so that rounding drops no tick at an end
    return [number * step for number in range(math.ceil(low / step - within), math.floor(high / step + within) + 1)]


def line_plot(
    points: Sequence[tuple[float, float]],
    x_label: str,
    y_label: str,
    description: str,
    band: tuple[float, float] | None = None,
) -> str:
    """A line through `points` over the axes' labels; `band`: a range of y to shade. The y axis begins at 0."""
    x_low, x_high = points[0][0], max(points[-1][0], points[0][0] + 1e-9)
    values = [y for _, y in points] + list(band or ())
    y_low, y_high = min(0.0, *values), max(values) * 1.05 or 1.0

    def x_at(x: float) -> float:
        return LEFT + (x - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT)

    def y_at(y: float) -> float:
        return HEIGHT - BOTTOM - (y - y_low) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg role="img" viewBox="0 0 {WIDTH} {HEIGHT}"><title>{escape(description)}</title>']
    for y in ticks(y_low, y_high):
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y_at(y):.1f}" y2="{y_at(y):.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y_at(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    for x in ticks(x_low, x_high, 8):
        parts.append(f'<text x="{x_at(x):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{x:g}</text>')
    middle = (HEIGHT - BOTTOM + TOP) / 2
    parts.append(f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>')
    parts.append(
        f'<text transform="translate(14 {middle:.0f}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>'
    )
    if band:
        top, height = y_at(band[1]), max(1.0, y_at(band[0]) - y_at(band[1]))
        parts.append(
            f'<rect class="band" x="{LEFT}" y="{top:.1f}" width="{WIDTH - LEFT - RIGHT}" height="{height:.1f}"/>'
        )
    path = " ".join(f"{x_at(x):.1f},{y_at(y):.1f}" for x, y in points)
    parts.append(f'<polyline class="line" points="{path}"/>')
    if len(points) <= 100:
        parts += [f'<circle class="dot" cx="{x_at(x):.1f}" cy="{y_at(y):.1f}" r="2"/>' for x, y in points]
    return "".join([*parts, "</svg>"])


def stacked_bar(parts: Sequence[tuple[str, float]], description: str) -> str:
    """One bar of `parts` (style class, size), the whole width being their sum."""
    total = math.fsum(size for _, size in parts)
    drawn, left = [f'<svg role="img" viewBox="0 0 {WIDTH} 34"><title>{escape(description)}</title>'], 0.0
    for style, size in parts:
        width = size / total * WIDTH if total > 0 else 0.0
        drawn.append(f'<rect class="{escape(style)}" x="{left:.2f}" y="2" width="{width:.2f}" height="30"/>')
        left += width
    return "".join([*drawn, "</svg>"])


def share_bar(share: float) -> str:
    """A bar of `share` of its cell's width; beside a number, so without a description of its own."""
    width = 100 * min(1.0, max(0.0, share))
    return (
        '<svg class="share" aria-hidden="true" viewBox="0 0 100 8" preserveAspectRatio="none">'
        f'<rect class="bar" width="{width:.1f}" height="8"/></svg>'
    )
