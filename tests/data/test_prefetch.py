"""Order, bounds, errors and ends of what works ahead of the loop."""

import itertools
import math
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tbd.data.prefetch import InProcesses, InThread


def test_a_thread_gives_the_iterators_elements_in_order_then_ends():
    thread = InThread(iter(range(100)), depth=2)
    assert list(thread) == list(range(100))
    assert list(thread) == []


def test_a_thread_is_no_further_ahead_than_its_depth():
    made, reached = [], threading.Event()

    def elements():
        for n in itertools.count():
            made.append(n)
            if n == 5:
                reached.set()
            yield n

    thread = InThread(elements(), depth=3)
    assert [next(thread), next(thread)] == [0, 1]
    assert reached.wait(60)  # two taken, three waiting, one in hand
    assert made == [0, 1, 2, 3, 4, 5]
    thread.close()
    assert made == [0, 1, 2, 3, 4, 5]


def test_an_error_in_the_thread_is_raised_in_the_consumer_each_time_it_asks():
    def elements():
        yield 1
        raise OSError("train.en is gone")

    thread = InThread(elements(), depth=2)
    assert next(thread) == 1
    for _ in range(2):
        with pytest.raises(OSError, match="train.en is gone"):
            next(thread)


def test_a_closed_thread_has_ended_and_gives_nothing():
    before = threading.active_count()
    thread = InThread(itertools.count(), depth=2)
    assert threading.active_count() == before + 1
    thread.close()
    assert threading.active_count() == before
    with pytest.raises(StopIteration):
        next(thread)


@pytest.mark.parametrize("workers", [1, 3])
def test_processes_give_answers_in_the_arguments_order_then_end(workers):
    processes = InProcesses(math.sqrt, [n * n for n in range(10)], workers)
    assert list(processes) == list(range(10))
    processes.close()


def test_processes_take_endless_arguments_a_few_at_a_time():
    taken = []

    def arguments():
        for n in itertools.count():
            taken.append(n)
            yield n

    processes = InProcesses(math.sqrt, arguments(), 2)
    assert next(processes) == 0
    assert taken == [0, 1, 2, 3, 4]  # two a process, and the next of the one that answered
    processes.close()


def test_an_error_in_a_process_is_raised_in_the_consumer_with_what_it_said():
    processes = InProcesses(math.sqrt, [4, -1], 1)
    assert next(processes) == 2
    with pytest.raises(RuntimeError, match="ValueError: (math domain error|expected a nonnegative input)"):
        next(processes)
    processes.close()


def test_a_process_that_dies_is_noticed():
    processes = InProcesses(os._exit, [3], 1)
    with pytest.raises(RuntimeError, match=r"a process that reads data died \(exit code 3\)"):
        next(processes)
    processes.close()


def test_a_process_that_is_killed_is_noticed():
    processes = InProcesses(math.sqrt, itertools.count(), 2)
    os.kill(processes._processes[1].pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match=r"died \(signal 9\)"):
        for _ in range(10):  # answers that it gave before come first
            next(processes)
    processes.close()


def test_closed_processes_end_at_once_and_so_does_the_thread_that_waits_for_them():
    processes = InProcesses(time.sleep, [3600], 1)
    thread = InThread(processes, depth=1)
    processes.close()
    thread.close()
    assert [process.is_alive() for process in processes._processes] == [False]
    assert list(processes) == []


SCRIPT = """
import itertools, os, time
from tbd.data.prefetch import InProcesses

if __name__ == "__main__":
    processes = InProcesses(time.sleep, itertools.repeat(0), 2)
    next(processes), next(processes)
    print("ready", flush=True)
    os.kill(os.getpid(), 9)
"""


def test_processes_end_when_their_parent_is_killed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    root = os.path.join(os.path.dirname(__file__), "..", "..")
    environment = dict(os.environ, PYTHONPATH=os.path.abspath(root))
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, env=environment)
    # its processes hold the same standard output: it ends when the last of them has ended
    output, _ = parent.communicate(timeout=60)
    assert (output, parent.returncode) == (b"ready\n", -signal.SIGKILL)
