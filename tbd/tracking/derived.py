"""The files of a spool that are computed from the others: figures.json, operators.csv, summary.html."""

import csv
import io

from tbd.measure import figures
from tbd.tracking import summary
from tbd.tracking.spool import Spool, write_atomically


def write(spool: Spool) -> figures.Figures:
    """Compute the run's figures and write what shows them; a file that would not change is left alone."""
    computed = figures.compute(spool.path)
    contents = {
        "figures.json": computed.to_json(),
        "operators.csv": _csv(computed.tables.get("operators", [])),
        "summary.html": summary.page(spool, computed),
    }
    for name, text in contents.items():
        path = spool.path / name
        if text and not (path.exists() and path.read_bytes() == text.encode()):
            write_atomically(path, text.encode())
    return computed


def _csv(rows: list[dict[str, object]]) -> str:
    if not rows:
        return ""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
