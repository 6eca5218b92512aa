"""Brings a run into MLflow while it goes on: between its passes, and never beside what is being measured."""

import contextlib
import threading
from pathlib import Path
from typing import Protocol

from tbd.measure import jsonl
from tbd.tracking import follower
from tbd.tracking.spool import Spool
from tbd.tracking.store import Settings

TAIL_BYTES = 65536
UP_TO_GO = (
    "finish",
    "rendezvous",
    "import",
    "data",
    "build",
    "ready",
)  # the phases between one pass's steps and the next one's


class Listener(Protocol):
    def phase(self, name: str, pass_name: str = "") -> None: ...
    def steps(self, ends: list[float], items: dict[str, list[float]]) -> None: ...
    def ended(self, pass_name: str) -> None: ...


class Stream:
    """Listens to a worker for `inner` too, and sends what the run has so far when a timing pass has ended.

    `go` is the file that each pass waits for before its first step (docs/request.md). It is taken away in the timed
    phase, which no rank enters before all have seen it, and put back when all is sent: while the next pass gets ready
    we send, and while it measures we don't. After the last pass nothing is sent, since the whole record follows; nor
    after a store that didn't take it once: the record at the end brings everything.
    """

    def __init__(self, inner: Listener, spool: Spool, settings: Settings, go: Path, passes: list[str]):
        self._inner = inner
        self._spool = spool
        self._settings = settings
        self._go = go
        self._before_others = {name for name in passes[:-1] if name.startswith("timing")}
        self._sending: threading.Thread | None = None
        self._off = settings.offline

    def phase(self, name: str, pass_name: str = "") -> None:
        if name == "timed" and pass_name in self._before_others and not self._off:
            with contextlib.suppress(OSError):
                self._go.unlink(missing_ok=True)
        self._inner.phase(name, pass_name)

    def steps(self, ends: list[float], items: dict[str, list[float]]) -> None:
        self._inner.steps(ends, items)

    def ended(self, pass_name: str) -> None:
        self._inner.ended(pass_name)
        if pass_name in self._before_others and not self._off and self._sending is None:
            self._sending = threading.Thread(target=self._send, name="stream")
            self._sending.start()

    def close(self) -> None:
        """Wait until nothing is being sent any more."""
        sending = self._sending
        if sending is not None:
            sending.join()

    def _send(self) -> None:
        try:
            if self._resting():
                self._off = follower.stream(self._spool, self._settings).state != "running"
        finally:
            self._sending = None
            with contextlib.suppress(OSError):  # no room for even an empty file: the worker waits for two minutes
                self._go.touch()

    def _resting(self) -> bool:
        """Whether no pass is at its steps: one so short that we saw it when it was over may have been followed by the
        next before we took `go` away."""
        events = jsonl.read_tail(self._spool.events_path, TAIL_BYTES)
        phases = [event.get("name") for event in events if event.get("event") == "phase"]
        return bool(phases) and phases[-1] in UP_TO_GO
