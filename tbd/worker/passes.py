"""The three passes: timing with nothing attached, trace with the profiler, memory with every allocation recorded.

Knows no model and no framework. Each pass runs in a fresh process and writes facts alone; figures are computed
elsewhere.
"""

import contextlib
import itertools
import json
import math
import os
import resource
import time

import numpy

from tbd.frameworks.base import Unsupported
from tbd.worker import network, peaks, steady
from tbd.worker.events import StepRecorder
from tbd.worker.status import DIVERGED, OUT_OF_MEMORY, Ended

WARM_STEPS_BEFORE_MEMORY = 2  # the first allocates what stays, the second is as every later one


def run_steps(training, batches, count, recorder):
    """Train on `count` batches; give the end time and the work of each step."""
    ends, work = [], []
    for _ in range(count):
        asked = time.monotonic()
        batch = next(batches)
        waited = time.monotonic() - asked
        training.step(batch.arrays)
        end = time.monotonic()
        recorder.step(end, waited, batch, training.exchanged())
        ends.append(end)
        work.append(batch.work)
    return ends, work


def begun(batches):
    """The same stream, its first batch ready: what prefetches has started by then."""
    return itertools.chain([next(batches)], batches)


def compile_shapes(training, source, events, peers):
    """One step of every shape that the data can have, so that no compilation falls into a timed step.

    A rank that has fewer shapes than another repeats some: every rank takes part in every step.
    """
    events.phase("compile")
    recorder = StepRecorder(events)
    batches = source.one_of_each_shape()
    own = [[[name, list(numpy.shape(one.arrays[name]))] for name in sorted(one.arrays)] for one in batches]
    shapes = peers.gather(own)
    if training.alike and any(others != shapes[0] for others in shapes):
        raise Unsupported(
            "the ranks' batches differ in their shapes, and this framework wants as many rows in every rank: "
            "another batch_size, or another number of ranks"
        )
    run_steps(training, itertools.cycle(batches), max(map(len, shapes)), recorder)
    training.wait()
    finish_steps(training, recorder, events)


def finish_steps(training, recorder, events):
    """Write what is known of a phase's steps once they are waited for: the device's times of them, and their losses."""
    recorder.flush()
    ends = training.step_ends()
    if ends is not None:
        events.write("step_ends", phase=events.phase_name, end=ends)
    read_losses(training, events)


def read_losses(training, events):
    """Write the losses since the last reading; end the run where one is not finite."""
    values = training.losses()
    finite = [v if math.isfinite(v) else None for v in values]
    events.write("losses", phase=events.phase_name, first=0, values=finite, skipped=training.skipped())
    for index, value in enumerate(values):
        if not math.isfinite(value):
            raise Ended(
                DIVERGED,
                "the loss became %r at step %d of the phase %s: lower the learning rate or check the data"
                % (value, index, events.phase_name),
            )


def warm_up(training, batches, measure, events, peers):
    """Train until the step time is steady in every rank, for at least warmup_min_steps, at most warmup_max_steps."""
    events.phase("warmup")
    recorder = StepRecorder(events)
    times, work = [], []
    last = time.monotonic()
    found = steady.verdict(times, work)
    while len(times) < measure["warmup_max_steps"]:
        ends, works = run_steps(training, batches, 1, recorder)
        times.append(ends[0] - last)
        work.append(works[0])
        last = ends[0]
        found = steady.verdict(times, work)
        if len(times) >= measure["warmup_min_steps"] and peers.agree(found.steady):
            break
    training.wait()
    events.write("steady", steady=found.steady, steps=len(times), drift=found.drift, variation=found.variation)
    finish_steps(training, recorder, events)


def timing(framework, training, source, request, events):
    """The pass that throughput comes from."""
    measure, peers = request["measure"], request["peers"]
    compile_shapes(training, source, events, peers)
    warm_up(training, source.batches(), measure, events, peers)
    # the stream from its beginning, however long the warm-up was: every framework is timed on the same batches
    batches = begun(source.batches())

    events.phase("timed")
    recorder = StepRecorder(events)
    training.wait()
    sent_before = network.tcp_bytes() if request["world_size"] > 1 else None
    peers.agree(True)  # all begin together
    cpu_before, emulator_before = cpu_seconds(), source.emulator_s
    begin = time.monotonic()
    run_steps(training, batches, measure["steps"], recorder)
    training.wait()
    end = time.monotonic()
    cpu_after = cpu_seconds()
    more = {} if source.emulator_s is None else {"emulator_s": source.emulator_s - emulator_before}
    if sent_before is not None:
        peers.agree(True)  # what was sent has arrived
        sent, received = network.tcp_bytes()
        more.update(sent_bytes=sent - sent_before[0], received_bytes=received - sent_before[1])
    events.write("window", begin=begin, end=end, steps=measure["steps"], cpu_s=cpu_after - cpu_before, **more)
    finish_steps(training, recorder, events)

    if measure["peak"]:
        events.phase("peak")
        with optional("peak", framework, events):
            measure_peak(framework, request, events)


PEAK_SIZE = {"cpu": 2048, "gpu": 8192}
PEAK_REPEATS = 5
# A wait for a GPU costs up to 0.25 ms (JAX on an H200, where a product of 8192 in bf16 takes 1.3 ms): so many times are
# enqueued before it that it is a two-hundredth.
PEAK_S = 0.05
COPY_BYTES = {"cpu": 2**27, "gpu": 2**30}  # beyond what caches hold


def measure_peak(framework, request, events):
    """Time matrix products and copies: what the measured peaks of arithmetic and of memory bandwidth come from. Where
    an earlier run did so on this device, its times are taken, and how long ago that was."""
    size, copied = (sizes[request["hardware"]["device"]] for sizes in (PEAK_SIZE, COPY_BYTES))
    kept = peaks.Kept(framework, request, [size, copied])
    found = kept.read()
    if found is None:
        seconds = {
            "matrix_product": times_of(framework.matrix_product(size)),
            "memory_copy": times_of(framework.memory_copy(copied)),
        }
        kept.write(seconds)
        found = seconds, 0.0
    seconds, age_s = found
    precision = request["precision"]
    events.write("matrix_product", size=size, precision=precision, seconds=seconds["matrix_product"], age_s=age_s)
    events.write("memory_copy", bytes=copied, seconds=seconds["memory_copy"], age_s=age_s)


def times_of(work):
    """Seconds that the work takes once, PEAK_REPEATS of them, each the mean over about PEAK_S."""
    work(1)  # warms up
    times = max(1, math.ceil(PEAK_S / max(seconds_of(work, 1), 1e-6)))
    return [seconds_of(work, times) / times for _ in range(PEAK_REPEATS)]


def seconds_of(work, times):
    begin = time.monotonic()
    work(times)
    return time.monotonic() - begin


def trace(framework, training, source, request, events):
    """A few steps under the framework's profiler, after the same ones twice without it: once to warm up, once timed."""
    stream = source.batches()
    batches = [next(stream) for _ in range(request["measure"]["trace_steps"])]
    warm_beside_timing(training, batches, events)
    begin = time.monotonic()
    run_steps(training, iter(batches), len(batches), StepRecorder(events))
    training.wait()
    unprofiled_s = time.monotonic() - begin

    events.phase("trace")
    recorder = StepRecorder(events)
    path = "trace.json.gz"
    with training.tracing(os.path.join(request["output"], path)):
        begin = time.monotonic()
        run_steps(training, iter(batches), len(batches), recorder)
        training.wait()
        end = time.monotonic()
    events.write("trace", path=path, steps=len(batches), begin=begin, end=end, unprofiled_s=unprofiled_s)
    finish_steps(training, recorder, events)


def memory(framework, training, source, request, events):
    """One step on the largest batch with every allocation recorded; the optimizer's state is there by then."""
    batch = source.largest()
    forgotten = forget_peak_rss()
    warm_beside_timing(training, [batch] * WARM_STEPS_BEFORE_MEMORY, events)
    resident = {"rss_peak_bytes": peak_rss_bytes()} if forgotten else {}

    events.phase("memory")
    record = training.record_memory(batch.arrays)
    path = "memory.json"
    with open(os.path.join(request["output"], path), "w") as file:
        json.dump(record, file)
    events.write("memory", path=path, **resident)
    read_losses(training, events)


def trial(framework, training, source, request, events):
    """A few steps on the largest batch, to see whether they fit into memory (tbd/worker/max_batch.py)."""
    forget_peak_rss()
    warm_beside_timing(training, [source.largest()] * WARM_STEPS_BEFORE_MEMORY, events)
    resident = peak_rss_bytes()
    events.write("resident", rss_peak_bytes=resident)
    limit_mb = request["measure"].get("memory_limit_mb")
    if request["hardware"]["device"] == "cpu" and limit_mb is not None and resident > limit_mb * 1e6:
        raise Ended(
            OUT_OF_MEMORY,
            "%.1f MB of resident memory, the limit is %g (measure.memory_limit_mb)" % (resident / 1e6, limit_mb),
        )


def warm_beside_timing(training, batches, events):
    """Untimed steps: what is recorded next finds its shapes compiled and its caches filled."""
    events.phase("warmup")
    recorder = StepRecorder(events)
    run_steps(training, iter(batches), len(batches), recorder)
    training.wait()
    recorder.flush()


def forget_peak_rss():
    """Have the kernel forget this process's highest resident memory (proc(5), clear_refs); gives whether it does."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        return False
    return True


def peak_rss_bytes():
    """The highest resident memory of this process since it was last forgotten (VmHWM of proc(5))."""
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    raise KeyError("VmHWM")


@contextlib.contextmanager
def optional(what, framework, events):
    """A part of the record that a good run can do without: where the framework can't, or its memory runs out, the
    reason is written and the run goes on."""
    try:
        yield
    except Exception as error:
        if isinstance(error, Unsupported):
            reason = str(error)
        elif framework.out_of_memory(error):
            reason = "out of memory beside the training itself"
        else:
            raise
        events.write("absent", what=what, reason=reason)


PASSES = {"timing": timing, "trace": trace, "memory": memory}
RUNS = dict(PASSES, trial=trial)


def cpu_seconds():
    """CPU seconds, user and system, that this process has used so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
