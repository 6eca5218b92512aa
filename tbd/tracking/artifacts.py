"""The files of a spool that go to MLflow: text without credentials, everything else as it is.

With them goes SHA256SUMS, of the files as they were sent: `sha256sum -c SHA256SUMS` checks what was downloaded.
"""

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tbd.measure.jsonl import read_object
from tbd.tracking import access
from tbd.tracking.redaction import redact_lines, redact_object, secrets_of
from tbd.tracking.spool import Spool, write_json
from tbd.tracking.store import Unreachable, too_large

if TYPE_CHECKING:
    from mlflow import MlflowClient

# our own notes on where the run is in MLflow
NOT_SENT = ("mlflow.json", "synced.json")
SUMS = "SHA256SUMS"
LARGE_BYTES = 64 * 2**20  # from here on in parts, each of which is tried again by itself
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


def send(client: "MlflowClient", run_id: str, spool: Spool, store: str) -> dict[str, Any]:
    """Send the files that changed since they were last sent to this run, and look that the store has all of them whole.

    Gives what synced.json is to hold when all else is sent too. Until then it notes how far we got, so that whoever
    goes on after a crash begins there.
    """
    note = read_object(spool.path / "synced.json")
    where = {"tracking_uri": store, "run_id": run_id}
    same = {key: note.get(key) for key in where} == where
    sums: dict[str, Any] = dict(note.get("sent", {})) if same else {}
    done = {name: state for name, state in note.get("files", {}).items() if same and name in sums}
    present = files(spool)
    for name, state in present.items():
        if done.get(name) == state:
            continue
        if done.pop(name, None) or done:
            write_json(spool.path / "synced.json", {**where, "files": done, "sent": sums})
        with without_credentials(spool.path / name) as file:
            sums[name] = [digest(file), file.stat().st_size]
            _upload(client, run_id, file, name)
        done[name] = state
    sums = {name: sums[name] for name in present}
    with tempfile.TemporaryDirectory(prefix="tbd-") as folder:
        listed = Path(folder) / SUMS
        listed.write_text("".join(f"{sha}  {name}\n" for name, (sha, _) in sums.items()))
        client.log_artifact(run_id, str(listed))
    there = sizes(client, run_id, "")
    for name, (_, size) in sums.items():
        if there.get(name, size) != size or name not in there:
            done.pop(name)
            write_json(spool.path / "synced.json", {**where, "files": done, "sent": sums})
            raise Unreachable(f"the store has {there.get(name, 0)} of the {size} bytes of {name}: it is sent again")
    return {**where, "files": present, "sent": sums}


def unsent_bytes(spool: Spool, store: str) -> int:
    """Bytes of the files that are still to be sent to the store."""
    note = read_object(spool.path / "synced.json")
    sent = note.get("files", {}) if note.get("tracking_uri") == store else {}
    return sum(state[0] for name, state in files(spool).items() if sent.get(name) != state)


def digest(file: Path) -> str:
    with open(file, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _upload(client: "MlflowClient", run_id: str, file: Path, name: str) -> None:
    folder = Path(name).parent.as_posix()
    where = None if folder == "." else folder
    if file.stat().st_size >= LARGE_BYTES:
        parts = {
            "MLFLOW_ENABLE_PROXY_MULTIPART_UPLOAD": "true",
            "MLFLOW_MULTIPART_UPLOAD_MINIMUM_FILE_SIZE": str(LARGE_BYTES),
        }
        # parts go straight to S3, which may be out of this machine's reach: then the server takes the file whole
        with access.environment(parts), contextlib.suppress(Exception):
            client.log_artifact(run_id, str(file), where)
            return
    try:
        client.log_artifact(run_id, str(file), where)
    except Exception as error:
        if too_large(error):
            raise Unreachable(
                f"the server, or a proxy before it, takes no file as large as {name} ({file.stat().st_size / 1e6:.1f} "
                "MB): raise its limit (nginx: client_max_body_size), or send files straight to S3 "
                "(tracking.s3_bucket)"
            ) from error
        raise


def sizes(client: "MlflowClient", run_id: str, folder: str) -> dict[str, int]:
    """{path: bytes} of every file of the run in the store."""
    found: dict[str, int] = {}
    for item in client.list_artifacts(run_id, folder or None):
        if item.is_dir:
            found |= sizes(client, run_id, item.path)
        else:
            found[item.path] = int(item.file_size or 0)
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
