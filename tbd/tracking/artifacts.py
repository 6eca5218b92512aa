"""The files of a spool that go to MLflow: text without credentials, everything else as it is."""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tbd.tracking.redaction import redact_lines, redact_object, secrets_of
from tbd.tracking.spool import Spool

# our own notes on where the run is in MLflow
NOT_SENT = ("mlflow.json", "synced.json")
BINARY = (".gz", ".zip", ".png", ".pb", ".npz", ".parquet", ".bin")


def files(spool: Spool) -> dict[str, list[int]]:
    """{path within the spool: [bytes, modification time in ns]} of every file that goes up. No links, no .files."""
    found = {}
    for path in sorted(spool.path.rglob("*")):
        inner = path.relative_to(spool.path)
        hidden = any(part.startswith(".") for part in inner.parts)
        if hidden or str(inner) in NOT_SENT or path.is_symlink() or not path.is_file():
            continue
        status = path.stat()
        found[str(inner)] = [status.st_size, status.st_mtime_ns]
    return found


@contextlib.contextmanager
def without_credentials(path: Path, environment: Mapping[str, str] = os.environ) -> Iterator[Path]:
    """The file to send in place of `path`, under the same name: itself, or a copy without credentials."""
    if path.suffix in BINARY:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="tbd-") as folder:
        copy = Path(folder) / path.name
        secrets = secrets_of(environment)
        with open(path, encoding="utf-8", errors="replace", newline="") as source:
            if path.suffix in (".json", ".jsonl"):
                lines = _json_lines(source, secrets) if path.suffix == ".jsonl" else [_json(source.read(), secrets)]
            else:
                lines = redact_lines(source, secrets)
            with open(copy, "w", encoding="utf-8", newline="") as target:
                target.writelines(lines)
        yield copy


def _json(text: str, secrets: list[str]) -> str:
    """JSON stays JSON: names and values are looked at, not the text; what is no JSON is taken as text."""
    try:
        value = json.loads(text)
        redacted = redact_object(value, secrets)
    except (ValueError, RecursionError):
        return "".join(redact_lines(text.splitlines(keepends=True), secrets))
    return text if redacted == value else json.dumps(redacted, indent=1) + "\n"


def _json_lines(lines: Iterator[str], secrets: list[str]) -> Iterator[str]:
    for line in lines:
        try:
            value = json.loads(line)
            redacted = redact_object(value, secrets)
        except (ValueError, RecursionError):
            yield from redact_lines([line], secrets)
            continue
        yield line if redacted == value else json.dumps(redacted) + "\n"
