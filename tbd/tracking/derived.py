"""The files of a spool that are computed from the others: figures.json, operators.csv, summary.html, of the
trace trace.parquet and roofline.png, and of the memory memory_breakdown.json, memory.html and memory.png."""

import contextlib
import csv
import io
import json
from pathlib import Path

from tbd.measure import figures, memory_report
from tbd.measure.events import Absent
from tbd.measure.garbage import without_collecting
from tbd.measure.run import Run
from tbd.tracking import events_table, memory_page, roofline_page, summary
from tbd.tracking.spool import Spool, write_atomically


@without_collecting()
def write(spool: Spool) -> figures.Figures:
    """Compute the run's figures and write what shows them; a file that would not change is left alone."""
    run = Run(spool.path)
    computed = figures.of_run(run)
    contents = {
        "figures.json": computed.to_json(),
        "operators.csv": _csv(computed.tables.get("operators", [])),
        "summary.html": summary.page(spool, computed),
    }
    _write(spool.path, {name: text.encode() for name, text in contents.items()})
    _write(spool.path, {"roofline.png": roofline_page.picture(str(spool.run["name"]), computed)})
    write_memory(run, str(spool.run["name"]), spool.path)
    with contextlib.suppress(Absent):
        _write(spool.path, {"trace.parquet": events_table.parquet(run.trace_recording)})
    return computed


def write_memory(run: Run, title: str, folder: Path) -> list[Path]:
    """Write what shows the run's memory into the folder; gives the files, none where it was not recorded."""
    try:
        report = memory_report.report(run)
    except Absent:
        return []
    contents = {
        "memory_breakdown.json": json.dumps(report, allow_nan=False).encode(),
        "memory.html": memory_page.page(title, report).encode(),
        "memory.png": memory_page.picture(title, report),
    }
    _write(folder, contents)
    return [folder / name for name in contents]


def _write(folder: Path, contents: dict[str, bytes]) -> None:
    for name, content in contents.items():
        path = folder / name
        if content and not (path.exists() and path.read_bytes() == content):
            write_atomically(path, content)


def _csv(rows: list[dict[str, object]]) -> str:
    if not rows:
        return ""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
