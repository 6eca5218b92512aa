"""A child process is never lost, whatever it, its children, the disk or the controller do."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tbd.launch.process import TAIL_LINES, Process
from tests.launch.conftest import eventually, own_variables

IGNORES_SIGTERM = "trap '' TERM; echo ready; while :; do sleep 1; done"


def bash(script: str, log: Path) -> Process:
    return Process(["bash", "-c", script], log.parent, {"PATH": os.environ["PATH"]}, log)


def gone(pid: int) -> bool:
    """Whether no such process runs; one that nobody has reaped yet doesn't."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def log(tmp_path) -> Path:
    return tmp_path / "worker.log"


def test_gives_the_return_code_and_keeps_what_was_printed(log):
    process = bash("echo out; echo err >&2; exit 3", log)
    assert process.wait() == process.poll() == 3
    assert sorted(process.tail) == ["err", "out"]
    assert sorted(log.read_text().split()) == ["err", "out"]
    assert process.log_error is None


def test_waits_no_longer_than_asked(log):
    process = bash("sleep 1000", log)
    assert process.wait(0.01) is None
    assert process.poll() is None
    process.terminate()
    assert process.returncode == -signal.SIGTERM


def test_the_tail_is_the_last_lines_and_the_log_has_all(log):
    process = bash("seq 1 1000; printf 'half a line'", log)
    process.wait()
    assert process.tail == [str(n) for n in range(1000 - TAIL_LINES + 2, 1001)] + ["half a line"]
    assert log.read_text().split("\n") == [*(str(n) for n in range(1, 1001)), "half a line"]


def test_a_log_is_appended_to(log):
    log.write_text("before\n")
    bash("echo after", log).wait()
    assert log.read_text() == "before\nafter\n"


def test_a_line_without_end_is_not_kept_whole(log):
    process = bash("head -c 3000000 /dev/zero | tr '\\0' x", log)
    process.wait()
    assert len(process.tail) == 1 and len(process.tail[0]) < 10000
    assert log.stat().st_size == 3000000


@pytest.mark.parametrize("path, code", [("/dev/full", errno.ENOSPC), ("/", errno.EISDIR)])
def test_a_log_that_cannot_be_written_stops_nothing(tmp_path, path, code):
    # far more than a pipe holds: the child would block if nobody read on
    process = Process(["seq", "1", "200000"], tmp_path, {"PATH": os.environ["PATH"]}, Path(path))
    assert process.wait(60) == 0
    assert process.tail[-1] == "200000"
    assert process.log_error is not None and process.log_error.errno == code


def test_a_command_that_is_not_there_raises_and_leaves_nothing(log):
    before = psutil.Process().children()
    with pytest.raises(FileNotFoundError):
        Process(["no-such-command"], log.parent, {"PATH": os.environ["PATH"]}, log)
    assert psutil.Process().children() == before


def test_a_child_that_ends_in_order_on_sigterm_may_do_so(log):
    process = bash("trap 'echo saved; exit 7' TERM; echo ready; while :; do sleep 0.1; done", log)
    eventually(lambda: process.tail, "ready")
    process.terminate()
    assert (process.returncode, process.tail[-1]) == (7, "saved")


def test_a_child_that_ignores_sigterm_is_killed(log):
    process = bash(IGNORES_SIGTERM, log)
    eventually(lambda: process.tail, "ready")
    process.terminate(grace=0.2)
    assert process.returncode == -signal.SIGKILL


def test_a_stopped_child_ends_in_order_too(log):
    process = bash("trap 'echo saved; exit 7' TERM; echo ready; while :; do sleep 0.1; done", log)
    eventually(lambda: process.tail, "ready")
    os.kill(process.pid, signal.SIGSTOP)
    eventually(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED, "stopped")
    process.terminate()
    assert (process.returncode, process.tail[-1]) == (7, "saved")


def test_grandchildren_end_with_it_also_those_in_a_session_of_their_own(log):
    process = bash(f'setsid bash -c "echo $$; {IGNORES_SIGTERM}" & ({IGNORES_SIGTERM}) & {IGNORES_SIGTERM}', log)
    eventually(lambda: process.tail.count("ready") == 3, "all three run")
    below = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    assert len(below) >= 2
    process.terminate(grace=0.2)
    for pid in below:
        eventually(lambda pid=pid: gone(pid), f"grandchild {pid} gone")


def test_what_a_child_leaves_behind_is_ended(log):
    process = bash("sleep 1000 & echo $!; exit 0", log)
    assert process.wait(60) == 0
    left = int(process.tail[0])
    eventually(lambda: gone(left), "the sleep gone")


def test_terminating_what_has_ended_does_nothing(log):
    process = bash("exit 4", log)
    process.wait()
    process.terminate()
    assert process.returncode == 4


def test_nothing_of_ours_is_left_after_the_end(log):
    before = psutil.Process().children()
    bash("true", log).wait()
    assert psutil.Process().children() == before


def test_the_child_sees_only_the_given_variables_and_no_terminal(log):
    process = Process(["bash", "-c", "env; cat"], log.parent, {"PATH": os.environ["PATH"], "ONE": "1"}, log)
    assert process.wait(60) == 0
    names = {line.split("=")[0] for line in process.tail}
    assert names - {"PWD", "SHLVL", "_"} == {"PATH", "ONE"}  # bash makes the other three itself


CONTROLLER = """
import os, sys
from pathlib import Path
from tbd.launch.process import Process
process = Process(["bash", "-c", sys.argv[1]], Path.cwd(), {"PATH": os.environ["PATH"]}, Path("worker.log"))
print(process.pid, flush=True)
process.wait()
"""


def test_a_killed_controller_leaves_no_worker(tmp_path):
    script = "sleep 1000 & echo $!; sleep 1001"
    controller = subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, script], cwd=tmp_path, env=own_variables(), stdout=subprocess.PIPE, text=True
    )
    worker = int(controller.stdout.readline())
    log = tmp_path / "worker.log"
    eventually(lambda: log.exists() and log.read_text().strip(), "the worker runs")
    child = int(log.read_text())
    assert not gone(worker) and not gone(child)
    controller.kill()
    controller.wait()
    controller.stdout.close()
    eventually(lambda: gone(worker) and gone(child), "worker and its child gone")
