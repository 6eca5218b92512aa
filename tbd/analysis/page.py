"""The report as one HTML page that stands by itself: no script, no other file, light or dark, screen or paper."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tbd.analysis.charts import MOST_BARS, Bars, Chart, draw
from tbd.analysis.finding import FAILS, HOLDS
from tbd.analysis.reporting import Report
from tbd.tracking.summary import STYLE

NUMBERS = ("batch", "throughput", "share", "devices", "machines", "ms a step", "efficiency")  # columns set to the right


def page(report: Report) -> str:
    from jinja2 import Environment, FileSystemLoader
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals.update(
        columns=columns,
        numbers=NUMBERS,
        picture=lambda chart: Markup(draw(chart)),
        left_out=left_out,
        style=Markup(STYLE),
        kind=lambda verdict: {HOLDS: "ok", FAILS: "failed"}.get(verdict, "open"),
    )
    return environment.get_template("report.html").render(report=report)


def write(report: Report, path: Path) -> list[Path]:
    """The page at `path`, and what it is made of beside it as JSON and CSV; gives the three. Raises OSError."""
    texts = {".html": page(report), ".json": report.to_json(), ".csv": report.to_csv()}
    files = {path if suffix == ".html" else path.with_suffix(suffix): text for suffix, text in texts.items()}
    for file, text in files.items():
        file.write_text(text, encoding="utf-8")
    return list(files)


def columns(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The columns in which any row has something, in the order of their first row."""
    return [name for name in dict.fromkeys(key for row in rows for key in row) if any(row.get(name) for row in rows)]


def left_out(chart: Chart) -> str:
    """What the picture can't show for want of room."""
    more = len(chart.names) - MOST_BARS if isinstance(chart, Bars) else 0
    return f"{more} more are in the JSON beside this page." if more > 0 else ""
