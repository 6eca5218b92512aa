"""Follows a worker by its events until it ends, sleeping in between: what it measures must not notice."""

import time
from pathlib import Path
from typing import Any, Protocol

from tbd.launch.ends import end_of, oom_kills_so_far
from tbd.launch.process import Process
from tbd.measure.jsonl import objects
from tbd.worker import status

BEYOND_GO = ("timed", "peak", "finish")  # the phases in which no worker waits for the file `go` any more
LOOK_EVERY_S = 0.25  # a look costs about 0.1 ms; four a second make a progress line live


class Listener(Protocol):
    """Who is told of what a worker does: tbd/tracking/stream.py, and through it the terminal (tbd/display.py)."""

    def phase(self, name: str, pass_name: str = "") -> None: ...
    def steps(self, ends: list[float], items: dict[str, list[float]]) -> None: ...
    def ended(self, pass_name: str) -> None: ...


def tell(listener: Listener, event: dict[str, Any], ranks: int = 1) -> None:
    """Tell the listener of a worker's event. Of several ranks, each does as much as the one that wrote it."""
    pass_name = str(event.get("pass", ""))
    match event.get("event"):
        case "phase":
            listener.phase(str(event.get("name")), pass_name)
        case "steps" if event.get("end"):
            listener.steps(event["end"], {unit: [n * ranks for n in counts] for unit, counts in event["items"].items()})
        case "end":
            listener.ended(pass_name)


class NewLines:
    """The complete lines that a growing file has got since the last look, as JSON objects."""

    def __init__(self, path: Path):
        self._path = path
        self._offset = 0

    def read(self) -> list[dict[str, Any]]:
        try:
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return objects(whole)[0]


def watch(
    process: Process, events_path: Path, go: Path, passes: int, timeout_s: float, listener: Listener
) -> tuple[str, str]:
    """(status, cause) of the worker, once it has ended. `passes`: how many `end` events a whole run has.

    A worker that writes no event for `timeout_s` seconds is ended, as timed_out; the time until the file `go` is there
    doesn't count, since the worker waits for us. Ctrl-C goes through, the worker ended.
    """
    lines = NewLines(events_path)
    oom_kills = oom_kills_so_far()
    heard = time.monotonic()
    phase = "launch"
    ends: list[tuple[str, str]] = []
    try:
        while True:
            over = process.wait(LOOK_EVERY_S) is not None
            for event in lines.read():
                heard = time.monotonic()
                if event.get("event") == "phase":
                    phase = str(event.get("name"))
                elif event.get("event") == "end":
                    ends.append((str(event.get("status")), str(event.get("cause", ""))))
                tell(listener, event)
            if over:
                break
            if phase not in BEYOND_GO and not go.exists():
                heard = time.monotonic()
            if time.monotonic() - heard > timeout_s:
                process.terminate()
                return status.TIMED_OUT, (
                    f"no event from the worker for {timeout_s:g} s in the phase {phase}: "
                    "it hangs, or needs a longer measure.timeout_s"
                )
    except BaseException:
        process.terminate()
        raise
    return judge(process, ends, passes, oom_kills_so_far() - oom_kills)


def judge(process: Process, ends: list[tuple[str, str]], passes: int, oom_kills: int) -> tuple[str, str]:
    """(status, cause) from what the worker wrote, its return code and what it printed."""
    for name, cause in ends:
        if name not in status.EXIT_CODES:
            return status.CRASHED, f"the worker ended with an unknown status {name!r}: {cause}"
        if name == status.CRASHED and process.poll() != 0 and oom_kills > 0 and "SIGKILL" in cause:
            return status.OUT_OF_MEMORY, "the host's memory ran out: the kernel killed the worker"
        if name != status.OK:
            return name, cause
    assert process.returncode is not None
    if process.returncode == 0:
        if len(ends) == passes:
            return status.OK, ""
        return status.CRASHED, f"the worker wrote {len(ends)} ends for {passes} passes: its record is not whole"
    name, cause = end_of(process.returncode, process.tail, oom_kills)
    return name, cause.removeprefix(f"tbd: {name}: ")


def phase_of(events_path: Path) -> str:
    """The last phase that a worker began, "launch" before its first."""
    names = [e.get("name") for e in NewLines(events_path).read() if e.get("event") == "phase"]
    return str(names[-1]) if names else "launch"
