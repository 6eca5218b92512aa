"""A worker that does no training: its steps take the times it is told, so that every figure is known beforehand.

Knows nothing of tbd but docs/{request,events,memory}.md, and needs the standard library alone.
request["framework"]["options"] says what happens; a list is repeated for as many steps as there are:

    mode            "sleep": the times really pass. "scripted": the clock is moved by exactly these times, at once
    start           what a scripted clock begins at; default: now
    phase_s         {phase: seconds} of import, data, build, finish; default 0
    compile_s       list: a step of the phase compile each; default none
    warmup_s        list: a warm-up step each; default warmup_min_steps steps of 0.01
    steady          the warm-up's verdict; default true
    step_s          seconds of a timed step, a number or a list; default 0.01
    tail_s          seconds from the last step's end to the window's; default 0
    device_s        list: a device's own seconds of each timed step, from the window's begin on; default: left out
    skipped         updates left out in each reading of losses; default: left out
    items           {unit: a number or a list}; default {"samples": 1}
    flops           a number or a list; default 1e6
    data_wait_s     a number or a list, a part of the step's time; default 0
    loss            a number or a list over all steps; default 1
    cpu_s           of the window; default 0
    matrix_product  {"size": n, "seconds": [...]}
    memory_copy     {"bytes": n, "seconds": [...]}
    model           {"weights_bytes", "optimizer_state_bytes"}
    memory          what to write as memory.json; default: one buffer of weights
    rss_peak_bytes  default: left out
    trace_s         seconds of each traced step; default 0
    unprofiled_s    of the trace event; default: left out
    max_batch       {"trials": {batch size: MB, above 200 it doesn't fit}, "fits": n, "too_large": n}
    absent          {"peak" | "trace" | "memory": why it can't be had}; default none
    ranks           that write each pass, all in the same file, one after the other; default [0]
    trace_events    what to write as traceEvents; default: one operator a step
    by_rank         list: options that replace these in rank 0, 1, ... of a run of several; the last for all further
    clock           {"offset_s", "error_s"} of its clock against rank 0's; default: left out
    sent_bytes      that the rank sent in the window; default: left out
    exchange_wait_s, exchange_s   a number or a list, of each step; default: left out
    fault           {"kind": ..., "pass": "timing", "phase": "timed", "step": 0, "rank": 0}: what goes wrong, before
                    that step: "signal" (kills itself by "signal", default 9), "hang", "no_end" (leaves without a word),
                    "error" (one that nobody foresaw), "out_of_memory", "disk_full", "nan_loss" (of that step)

A real worker starts a process a pass; here nothing is left behind by a pass, so one process does them all.
"""

import gzip
import itertools
import json
import math
import os
import platform
import signal
import socket
import sys
import time

VERSION = "1.0"
EXIT_CODES = {"ok": 0, "out_of_memory": 6, "diverged": 7, "crashed": 9, "interrupted": 130}  # docs/statuses.md
REPORT_EVERY_S = 0.5
EXCHANGES = ("exchange_wait_s", "exchange_s")
FAULT_PLACE = {"pass": "timing", "phase": "timed", "step": 0, "rank": 0}  # where a fault happens that doesn't say


class Ended(Exception):
    def __init__(self, status, cause):
        super().__init__(cause)
        self.status = status
        self.cause = cause


class RealClock:
    now = staticmethod(time.monotonic)
    spend = staticmethod(time.sleep)


class ScriptedClock:
    def __init__(self, start):
        self.t = start

    def now(self):
        return self.t

    def spend(self, seconds):
        self.t += seconds


class Pass:
    """One pass: its events, and the facts of its steps. `step_s` goes on from one repeat of a pass to the next."""

    def __init__(self, name, request, clock, step_s, rank=0):
        self.name = name
        self.rank = rank
        self.request = request
        self.measure = request["measure"]
        self.options = request["framework"].get("options", {})
        self.clock = clock
        self.step_s = step_s
        self.phase_name = None
        self.losses = repeated(self.options.get("loss", 1.0))

    def write(self, event, **fields):
        line = {"event": event, "pass": self.name, "t": self.clock.now(), **fields}
        path = os.path.join(self.request["output"], "events.jsonl")
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, (json.dumps(line) + "\n").encode())
        finally:
            os.close(file)

    def phase(self, name):
        self.phase_name = name
        self.write("phase", name=name)
        self.clock.spend(self.options.get("phase_s", {}).get(name, 0))

    def steps(self, times):
        """Do steps that take `times`; returns the losses."""
        items = {unit: repeated(count) for unit, count in self.options.get("items", {"samples": 1}).items()}
        flops, waits = repeated(self.options.get("flops", 1e6)), repeated(self.options.get("data_wait_s", 0.0))
        exchanges = {key: repeated(self.options[key]) for key in EXCHANGES if key in self.options}
        losses, rows, first, reported = [], [], 0, self.clock.now()
        for step, seconds in enumerate(times):
            losses.append(next(self.losses))
            if self.fault(step) == "nan_loss":
                losses[-1] = math.nan
            self.clock.spend(seconds)
            done = {unit: next(n) for unit, n in items.items()}
            exchanged = {key: next(s) for key, s in exchanges.items()}
            rows.append([self.clock.now(), next(waits), next(flops), done, exchanged])
            if rows[-1][0] >= reported + REPORT_EVERY_S or step == len(times) - 1:
                self.write(
                    "steps",
                    phase=self.phase_name,
                    first=first,
                    end=[row[0] for row in rows],
                    data_wait_s=[row[1] for row in rows],
                    flops=[row[2] for row in rows],
                    items={unit: [row[3][unit] for row in rows] for unit in items},
                    **{key: [row[4][key] for row in rows] for key in exchanges},
                )
                first, rows, reported = step + 1, [], self.clock.now()
        return losses

    def read(self, losses):
        values = [value if math.isfinite(value) else None for value in losses]
        skipped = {key: self.options[key] for key in ("skipped",) if key in self.options}
        self.write("losses", phase=self.phase_name, first=0, values=values, **skipped)
        if None in values:
            raise Ended("diverged", f"the loss became nan at step {values.index(None)} of the phase {self.phase_name}")

    def fault(self, step):
        """Do what the script says goes wrong before this step; returns its kind."""
        fault = self.options.get("fault")
        here = {"pass": self.name, "phase": self.phase_name, "step": step, "rank": self.rank}
        if not fault or any(fault.get(key, default) != here[key] for key, default in FAULT_PLACE.items()):
            return None
        kind = fault["kind"]
        if kind == "signal":
            os.kill(os.getpid(), fault.get("signal", signal.SIGKILL))
        elif kind == "hang":
            while True:
                time.sleep(3600)
        elif kind == "no_end":
            os._exit(0)
        elif kind == "error":
            raise RuntimeError("a mistake that nobody foresaw")
        elif kind == "out_of_memory":
            raise Ended("out_of_memory", f"out of memory in the phase {self.phase_name}: try a smaller batch_size")
        elif kind == "disk_full":
            raise Ended("crashed", f"the disk is full: {self.request['output']}")
        elif kind != "nan_loss":
            raise ValueError(f"no such fault: {kind}")
        return kind

    def run(self):
        self.write(
            "header",
            schema=1,
            rank=self.rank,
            wall_time=time.time(),
            host=socket.gethostname(),
            pid=os.getpid(),
            python=platform.python_version(),
            tbd="",
        )
        if "clock" in self.options:
            self.write("clock", **self.options["clock"])
        self.phase("import")
        self.write("framework", name="sleep", version=VERSION, devices=[{"kind": "cpu", "name": "none"}], threads=1)
        self.phase("data")
        self.write("dataset", name="none", digest="", source="", counts={}, skipped={})
        self.phase("build")
        unit = next(iter(self.options.get("items", {"samples": 1})))
        self.write("model", name=self.request["model"]["name"], unit=unit, **self.options.get("model", {}))
        if self.request.get("go"):
            self.phase("ready")
            wait_for(os.path.join(self.request["output"], self.request["go"]))
        passes = {"timing": self.timing, "trace": self.trace, "memory": self.memory, "max_batch": self.max_batch}
        passes[self.name.split(".")[0]]()  # timing.2 is a repeat
        self.phase("finish")

    def timing(self):
        self.phase("compile")
        self.read(self.steps(self.options.get("compile_s", [])))
        self.phase("warmup")
        warmup = self.options.get("warmup_s", [0.01] * self.measure["warmup_min_steps"])
        losses = self.steps(warmup)
        steady = self.options.get("steady", True)
        self.write("steady", steady=steady, steps=len(warmup), drift=0.0, variation=0.0)
        self.read(losses)
        self.phase("timed")
        begin = self.clock.now()
        losses = self.steps([next(self.step_s) for _ in range(self.measure["steps"])])
        self.clock.spend(self.options.get("tail_s", 0))
        end = self.clock.now()
        cpu_s = self.options.get("cpu_s", 0.0)
        sent = {key: self.options[key] for key in ("sent_bytes",) if key in self.options}
        self.write("window", begin=begin, end=end, steps=self.measure["steps"], cpu_s=cpu_s, **sent)
        if "device_s" in self.options:
            self.write(
                "step_ends", phase="timed", end=[begin + t for t in itertools.accumulate(self.options["device_s"])]
            )
        self.read(losses)
        if self.missing("peak"):
            return
        if self.measure["peak"] and "matrix_product" in self.options:
            self.phase("peak")
            self.write("matrix_product", precision=self.request["precision"], **self.options["matrix_product"])
        if self.measure["peak"] and "memory_copy" in self.options:
            self.write("memory_copy", **self.options["memory_copy"])

    def trace(self):
        if self.missing("trace"):
            return
        self.phase("trace")
        steps = self.measure["trace_steps"]
        begin = self.clock.now()
        self.steps([self.options.get("trace_s", 0.0)] * steps)
        default = [
            {"ph": "X", "cat": "cpu_op", "name": "sleep", "pid": 1, "tid": 1, "ts": 1000 * step, "dur": 900}
            for step in range(steps)
        ]
        with gzip.open(os.path.join(self.request["output"], "trace.json.gz"), "wt") as file:
            json.dump({"traceEvents": self.options.get("trace_events", default)}, file)
        unprofiled = {key: self.options[key] for key in ("unprofiled_s",) if key in self.options}
        self.write("trace", path="trace.json.gz", steps=steps, begin=begin, end=self.clock.now(), **unprofiled)

    def max_batch(self):
        if self.missing("max_batch"):
            return
        self.phase("max_batch")
        script = self.options["max_batch"]
        for size, mb in script["trials"].items():
            status = "ok" if mb <= 200 else "out_of_memory"
            self.write("trial", batch_size=int(size), status=status, cause="", rss_peak_bytes=mb * 1e6)
        self.write("max_batch", fits=script["fits"], too_large=script["too_large"], limit_bytes=200e6)

    def missing(self, what):
        """Whether the script says that the part can't be had: then it is told."""
        reason = self.options.get("absent", {}).get(what)
        if reason:
            self.write("absent", what=what, reason=reason)
        return bool(reason)

    def memory(self):
        if self.missing("memory"):
            return
        self.phase("memory")
        self.steps([0.0])
        weights = {"bytes": 4000, "born": 0, "died": None, "category": "weights", "name": "weights"}
        default = {
            "schema": 1,
            "buffers": [weights],
            "steps": [1, 2],
            "allocator": {"name": "none", "peak_bytes": 4000, "slack_bytes": 0},
            "method": "as scripted",
        }
        with open(os.path.join(self.request["output"], "memory.json"), "w") as file:
            json.dump(self.options.get("memory", default), file)
        rss = {key: self.options[key] for key in ("rss_peak_bytes",) if key in self.options}
        self.write("memory", path="memory.json", **rss)


def wait_for(path, limit_s=120.0):
    """Until the file is there: the controller has come to rest."""
    deadline = time.monotonic() + limit_s
    while not os.path.exists(path) and time.monotonic() < deadline:
        time.sleep(0.02)


def repeated(value):
    return itertools.cycle(value if isinstance(value, list) else [value])


def interrupt(signum, frame):
    raise KeyboardInterrupt


def main(request_path):
    signal.signal(signal.SIGTERM, interrupt)
    with open(request_path) as file:
        request = json.load(file)
    options = request["framework"].get("options", {})
    if options.get("by_rank") and request["world_size"] > 1:
        options.update(options["by_rank"][min(request["rank"], len(options["by_rank"]) - 1)])
    scripted = options.get("mode", "sleep") == "scripted"
    clock = ScriptedClock(options.get("start", time.monotonic())) if scripted else RealClock()
    step_s = repeated(options.get("step_s", 0.01))
    for name, rank in itertools.product(request["measure"]["passes"], options.get("ranks", [request["rank"]])):
        one = Pass(name, request, clock, step_s, rank)
        ending = Ended("ok", "")
        try:
            one.run()
        except Ended as error:
            ending = error
        except KeyboardInterrupt:
            ending = Ended("interrupted", f"interrupted in the phase {one.phase_name}")
        one.write("end", status=ending.status, cause=ending.cause)
        if ending.status != "ok":
            print(f"tbd: {ending.status}: {ending.cause}", file=sys.stderr)
            return EXIT_CODES[ending.status]
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "--version":
        print(VERSION)
    else:
        sys.exit(main(sys.argv[1]))
