"""The search for the largest batch: its order, and how trials end."""

import json
import signal
import sys
from pathlib import Path

import pytest

from tbd.worker import max_batch


@pytest.mark.parametrize("first", [1, 7, 16, 100, 4096])
@pytest.mark.parametrize("limit", [1, 2, 5, 31, 50, 333, 2000])
def test_it_ends_between_neighbours_within_the_resolution(first, limit):
    tried = []

    def fits(size):
        tried.append(size)
        return size <= limit

    low, high = max_batch.largest(fits, first)
    assert low <= limit < high
    assert high - low <= max(1, low // max_batch.RESOLUTION)
    assert len(set(tried)) == len(tried) <= 2 + 2 * 13, "each size once"


def test_where_nothing_or_everything_fits_it_ends():
    assert max_batch.largest(lambda size: False, 8) == (None, 1)
    assert max_batch.largest(lambda size: True, 8) == (max_batch.LARGEST, None)


# Stands in for tbd.worker.run_pass: what a trial's process may do, by its batch size.
TRIAL = """
import json, os, signal, sys
with open(sys.argv[1]) as file:
    request = json.load(file)
assert sys.argv[2] == "trial" and request["go"] is None
size = request["batch_size"]
def say(**event):
    with open(os.path.join(request["output"], "events.jsonl"), "a") as file:
        file.write(json.dumps(event) + "\\n")
say(event="resident", rss_peak_bytes=1000 * size)
print("noise on stdout")
if size > 40:
    os.kill(os.getpid(), signal.SIGKILL)
if size > 20:
    say(event="end", status="out_of_memory", cause="no memory for %d" % size)
    sys.exit(6)
if size == request.get("breaks"):
    say(event="end", status="crashed", cause="a mistake")
    sys.exit(9)
say(event="end", status="ok", cause="")
"""


@pytest.fixture
def search(tmp_path, monkeypatch):
    script = tmp_path / "trial.py"
    script.write_text(TRIAL)
    start = max_batch.subprocess.Popen

    def stand_in(command, **options):
        assert command[1:3] == ["-m", "tbd.worker.run_pass"]
        return start([sys.executable, str(script), *command[3:]], **options)

    monkeypatch.setattr(max_batch.subprocess, "Popen", stand_in)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def run(first, **more):
        request = {"output": str(tmp_path), "rank": 0, "batch_size": first, "measure": {"memory_limit_mb": 5}, **more}
        code = max_batch.run(request)
        return code, [json.loads(line) for line in Path(tmp_path / "events.jsonl").read_text().splitlines()]

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_every_way_of_running_out_of_memory_is_an_answer(search, tmp_path):
    code, events = search(12)
    assert code == 0
    trials = {e["batch_size"]: (e["status"], e["cause"], e["rss_peak_bytes"]) for e in events if e["event"] == "trial"}
    assert trials[12] == ("ok", "", 12000)
    assert trials[24] == ("out_of_memory", "no memory for 24", 24000)
    found = next(e for e in events if e["event"] == "max_batch")
    assert (found["fits"], found["too_large"], found["limit_bytes"]) == (20, 21, 5e6)
    assert events[-1]["event"] == "end" and events[-1]["status"] == "ok"
    assert not (tmp_path / ".trial").exists()
    code, events = search(48)
    assert ("out_of_memory", "killed by SIGKILL") in [(e.get("status"), e.get("cause")) for e in events]


def test_a_trial_that_breaks_is_a_reason_and_the_run_goes_on(search):
    code, events = search(6, breaks=12)
    assert code == 0
    (absent,) = [e for e in events if e["event"] == "absent"]
    assert absent["reason"] == "the trial at batch size 12 ended with exit code 9: a mistake"
    assert events[-1]["status"] == "ok"
