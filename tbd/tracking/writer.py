"""Writes controller.jsonl (docs/events.md): append-only, whole lines, and a full disk doesn't end the run."""

import errno
import json
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tbd.measure import jsonl

# a full file system, a full quota, the process's own file size limit
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

TAIL_BYTES = 65536  # the last event's cause is one line; some samples may be around it


class SpoolFull(OSError):
    """The disk of the spool is full. Raised once; what is written later is kept if there is room again."""


class EventWriter:
    """Appends events to `path`, from any thread. One writer a file: what a killed one left torn is cut off.

    `lost`: events that found no room.
    """

    def __init__(self, path: Path):
        self.path = path
        self.lost = 0
        self._lock = threading.Lock()
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        _cut_torn_line(self._file)

    def write(self, event: str, **fields: Any) -> None:
        """Append one event with the present time, unless `fields` brings its own `t`. Raises SpoolFull, once."""
        self.append([line(event, **fields)])

    def append(self, lines: Sequence[dict[str, Any]]) -> None:
        """Append events made by `line`, by one write. Raises SpoolFull, once."""
        data = "".join(json.dumps(one) + "\n" for one in lines).encode()
        with self._lock:
            size = os.fstat(self._file).st_size
            try:
                if os.write(self._file, data) == len(data):
                    return
            except OSError as error:
                if error.errno not in FULL:
                    raise
            os.ftruncate(self._file, size)  # nothing half written stays, so that the next line begins a line
            first = self.lost == 0
            self.lost += len(lines)
        if first:
            raise SpoolFull(
                errno.ENOSPC,
                "the disk is full: events of this run are being lost. Free some space, or put the runs elsewhere",
                str(self.path),
            )

    def close(self) -> None:
        os.close(self._file)


def line(event: str, **fields: Any) -> dict[str, Any]:
    """An event of the controller at the present time, unless `fields` brings its own `t`."""
    return {"event": event, "pass": "", "t": time.monotonic(), **fields}


def last_end(path: Path) -> dict[str, Any] | None:
    """The `end` event of a controller.jsonl, which is its last; None where it has none. Reads the tail alone.

    A header after it is of a process that goes on with the sweep.
    """
    ends = [event for event in jsonl.read_tail(path, TAIL_BYTES) if event.get("event") in ("end", "header")]
    return ends[-1] if ends and ends[-1]["event"] == "end" else None


def _cut_torn_line(file: int) -> None:
    """Truncate to the end of the last whole line."""
    size = os.fstat(file).st_size
    end = size
    while end:
        begin = max(0, end - 65536)
        newline = os.pread(file, end - begin, begin).rfind(b"\n")
        if newline >= 0:
            end = begin + newline + 1
            break
        end = begin
    if end != size:
        os.ftruncate(file, end)
