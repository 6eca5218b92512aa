"""The largest batch that fits into memory: a search by trials, each a fresh process that takes a few steps.

A trial that runs out of memory is an answer, however it ends: the framework says so, the process takes more than the
limit that the request states, or the kernel kills it. Standard library only.
"""

import json
import os
import shutil
import signal
import subprocess
import sys

from tbd.worker import status
from tbd.worker.events import Events

PASS, TRIAL = "max_batch", "trial"  # the pass of the run, and that of each trial's own process
RESOLUTION = 32  # the search ends where the next smaller answer would be within a 32nd
LARGEST = 2**31 - 1  # what frameworks count a dimension with
ASKED_TO_END = status.EXIT_CODES[status.INTERRUPTED]


class Failed(Exception):
    """A trial ended otherwise than by fitting or not; the message says how. `code`: its exit code."""

    def __init__(self, message, code):
        super(Failed, self).__init__(message)
        self.code = code


def run(request):
    """Search, and write what was found into the run's events; gives the exit code of the pass."""
    events = Events(os.path.join(request["output"], "events.jsonl"), PASS)
    events.header(request["rank"])
    events.phase(PASS)
    limit_mb = request["measure"].get("memory_limit_mb")
    code, ending, cause = 0, status.OK, ""
    try:
        low, high = largest(lambda size: fits(request, size, events), request["batch_size"])
        limit = None if limit_mb is None else limit_mb * 1e6
        events.write(PASS, fits=low, too_large=high, limit_bytes=limit)
    except Failed as failed:
        if failed.code == ASKED_TO_END:
            code, ending, cause = failed.code, status.INTERRUPTED, "interrupted in the phase %s" % PASS
        else:
            events.write("absent", what=PASS, reason=str(failed))
    events.write("end", status=ending, cause=cause)
    events.close()
    return code


def largest(fits, first):
    """(the largest number for which fits(number) is true, the smallest for which it is not), within RESOLUTION.

    By doubling and halving from `first` on, then between the two; None where even 1, or LARGEST, is not on that side.
    """
    low, high, number = None, None, first
    while low is None or high is None:
        if fits(number):
            low, number = number, min(2 * number, LARGEST)
            if low == LARGEST:
                return low, high
        else:
            high, number = number, number // 2
            if number == 0:
                return low, high
    while high - low > max(1, low // RESOLUTION):
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low, high


def fits(request, batch_size, events):
    """Whether a training at this batch size fits, as a trial finds; raises Failed where it ends in another way."""
    folder = os.path.join(request["output"], ".trial")
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    path = os.path.join(folder, "request.json")
    with open(path, "w") as file:
        json.dump(dict(request, batch_size=batch_size, output=folder, go=None), file)
    code = trial(path, os.path.join(folder, "log"))
    said = {event["event"]: event for event in written(os.path.join(folder, "events.jsonl"))}
    shutil.rmtree(folder)
    killed = code == -signal.SIGKILL  # by the kernel, for want of memory: nobody else does so
    found = status.OUT_OF_MEMORY if killed or code == status.EXIT_CODES[status.OUT_OF_MEMORY] else status.OK
    cause = "killed by SIGKILL" if killed else said.get("end", {}).get("cause", "without a word")
    if code != 0 and found == status.OK:
        raise Failed("the trial at batch size %d ended with exit code %d: %s" % (batch_size, code, cause), code)
    resident = said.get("resident", {}).get("rss_peak_bytes")
    events.write(TRIAL, batch_size=batch_size, status=found, cause=cause, rss_peak_bytes=resident)
    return found == status.OK


def trial(path, log):
    """The exit code of a trial's process; below 0 where a signal killed it."""
    with open(log, "wb") as file:
        command = [sys.executable, "-m", "tbd.worker.run_pass", path, TRIAL]
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda signum, frame: process.send_signal(signal.SIGTERM))
        return process.wait()


def written(path):
    """The whole lines of a trial's events; [] where it wrote none."""
    try:
        with open(path) as file:
            return [json.loads(line) for line in file if line.endswith("\n")]
    except (OSError, ValueError):
        return []
