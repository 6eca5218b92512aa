"""Our worker, but in the timed phase blocks of the harness's loop alternate with blocks of a bare one, in this process.

While the bare loop runs the controller is stopped (SIGSTOP). Both train the same network in the same memory, so that
nothing but the loops and the controller can make a difference. What was found goes into the run's folder:

    overhead.json   {"pairs": [[seconds of the harness's block, of the bare one's], ...],
                     "controller_s": the controller's CPU seconds in the harness's blocks}

Python 3.6 syntax.
"""

import importlib
import json
import os
import signal
import sys
import time

from tbd.worker import passes, run_pass

BLOCK_STEPS = 8
run_steps = passes.run_steps


def main(request_path):
    with open(request_path) as file:
        request = json.load(file)
    path = os.path.join(request["output"], "overhead.json")

    def run(training, batches, count, recorder):
        """passes.run_steps, but for the timed phase, the only one that runs as many steps."""
        if count != request["measure"]["steps"]:
            return run_steps(training, batches, count, recorder)
        step = importlib.import_module("bare_" + request["framework"]["name"]).step_of(training)
        with open(path, "w") as file:
            json.dump(alternate(training, step, batches, count, recorder), file)

    passes.run_steps = run
    return run_pass.main([request_path, "timing"])


def alternate(training, step, batches, count, recorder):
    """Train `count` steps in each of the loops, in blocks, in the order AB BA; gives what overhead.json holds."""
    controller = ancestor("tbd.train")
    before = cpu_seconds(controller)
    pairs = []
    for number in range(count // BLOCK_STEPS):
        seconds = {}
        for side in ("harness", "bare") if number % 2 == 0 else ("bare", "harness"):
            if side == "bare":
                os.kill(controller, signal.SIGSTOP)
            begin = time.monotonic()
            if side == "harness":
                run_steps(training, batches, BLOCK_STEPS, recorder)
            else:
                for _ in range(BLOCK_STEPS):
                    step(next(batches).arrays)
            training.wait()
            seconds[side] = time.monotonic() - begin
            os.kill(controller, signal.SIGCONT)
        pairs.append([seconds["harness"], seconds["bare"]])
    return {"pairs": pairs, "controller_s": cpu_seconds(controller) - before}


def ancestor(module):
    """The process id of the nearest process above this one that was started as `python -m module`."""
    pid = os.getppid()
    while pid > 1:
        with open("/proc/%d/cmdline" % pid) as file:
            if module in file.read().split("\0"):
                return pid
        pid = int(stat(pid)[1])
    raise LookupError(module)


def cpu_seconds(pid):
    """CPU seconds, user and system, of a process so far (proc(5), fields 14 and 15 of stat)."""
    return sum(int(ticks) for ticks in stat(pid)[11:13]) / os.sysconf("SC_CLK_TCK")


def stat(pid):
    """/proc/<pid>/stat from its third field on: what comes before may have spaces."""
    with open("/proc/%d/stat" % pid) as file:
        return file.read().rpartition(")")[2].split()


if __name__ == "__main__":
    if sys.argv[1] == "--version":
        print("1")
    else:
        sys.exit(main(sys.argv[1]))
