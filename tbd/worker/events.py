"""The worker's events.jsonl: append-only, one JSON object a line, each by one write (docs/events.md)."""

import json
import os
import platform
import socket
import time

import tbd

SCHEMA = 1
REPORT_EVERY_S = 0.5  # how often finished steps are written: often enough for a progress line, too seldom to disturb


class Events(object):
    """Writes the events of one pass into `path`.

    A line is written by a single call to write(2) on a descriptor opened with O_APPEND, so that a crash tears at most
    the last one. OSError (a full disk, say) goes to the caller.
    """

    def __init__(self, path, pass_name):
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._pass = pass_name
        self.phase_name = None

    def write(self, event, **fields):
        """Append one event with the present time, unless `fields` brings its own `t`."""
        line = {"event": event, "pass": self._pass, "t": time.monotonic()}
        line.update(fields)
        data = (json.dumps(line, allow_nan=True) + "\n").encode("utf-8")
        written = os.write(self._file, data)
        if written != len(data):
            raise OSError("only %d of %d bytes of an event were written: the disk is full" % (written, len(data)))

    def header(self, rank=0):
        self.write(
            "header",
            schema=SCHEMA,
            rank=rank,
            wall_time=time.time(),
            host=socket.gethostname(),
            pid=os.getpid(),
            python=platform.python_version(),
            tbd=tbd.__version__,
        )

    def phase(self, name):
        self.phase_name = name
        self.write("phase", name=name)

    def close(self):
        os.close(self._file)


class StepRecorder(object):
    """Collects the facts of steps and writes them at most every REPORT_EVERY_S, so that a step costs microseconds."""

    def __init__(self, events):
        self._events = events
        self._first = 0
        self._rows = []
        self._next_report = time.monotonic() + REPORT_EVERY_S

    def step(self, end, data_wait_s, batch, exchanged=None):
        """Note a step that ended at `end` after waiting `data_wait_s` for its batch. `exchanged`: of Training."""
        self._rows.append((end, data_wait_s, batch.items, batch.flops, exchanged))
        if end >= self._next_report:
            self.flush()
            self._next_report = end + REPORT_EVERY_S

    def flush(self):
        if not self._rows:
            return
        units = list(self._rows[0][2])
        exchanged = {}
        if all(row[4] for row in self._rows):
            exchanged = {name: [row[4][name] for row in self._rows] for name in ("exchange_wait_s", "exchange_s")}
        self._events.write(
            "steps",
            phase=self._events.phase_name,
            first=self._first,
            end=[row[0] for row in self._rows],
            data_wait_s=[row[1] for row in self._rows],
            items={unit: [row[2][unit] for row in self._rows] for unit in units},
            flops=[row[3] for row in self._rows],
            **exchanged,
        )
        self._first += len(self._rows)
        self._rows = []
