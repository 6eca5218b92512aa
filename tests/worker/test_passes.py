"""The passes over a training that costs nothing: what they write, in which order, and how they end."""

import contextlib
import itertools
import json
from pathlib import Path

import numpy
import pytest

from tbd.data import source as data
from tbd.data.source import Batch
from tbd.frameworks import base
from tbd.frameworks.base import Unsupported
from tbd.worker import passes
from tbd.worker.events import Events
from tbd.worker.peers import Peers
from tbd.worker.status import DIVERGED, Ended

MEASURE = {"steps": 5, "warmup_min_steps": 8, "warmup_max_steps": 9, "trace_steps": 2, "peak": True}


class Framework:
    def out_of_memory(self, error):
        return isinstance(error, MemoryError)

    def matrix_product(self, size):
        return self.works

    def memory_copy(self, size):
        return self.works

    def works(self, times):
        """Costs nothing."""


class Training(base.Training):
    """Counts what is asked of it; its losses come from `loss_of(step)`."""

    def __init__(self, loss_of=lambda step: 1.0):
        self.log, self.steps, self.read, self.loss_of = [], 0, 0, loss_of

    def step(self, arrays):
        self.log.append(("step", arrays["size"]))
        self.steps += 1

    def wait(self):
        self.log.append(("wait",))

    def losses(self):
        self.log.append(("losses",))
        new = range(self.read, self.steps)
        self.read = self.steps
        return [self.loss_of(step) for step in new]

    @contextlib.contextmanager
    def tracing(self, path):
        self.log.append(("trace begins",))
        yield
        self.log.append(("trace ends",))

    def record_memory(self, arrays):
        self.log.append(("memory", arrays["size"]))
        self.steps += 1
        return {"buffers": []}


class Source(data.Source):
    def __init__(self, sizes=(1, 3, 2)):
        self.made = [Batch({"size": size}, {"items": size}, 10 * size, 10 * size) for size in sizes]

    def one_of_each_shape(self):
        return self.made

    def largest(self):
        return self.made[1]

    def batches(self):
        self.streams = [*getattr(self, "streams", []), []]
        for batch in itertools.cycle(self.made):
            self.streams[-1].append(batch.arrays["size"])
            yield batch


class Played(Source):
    """Waits half a second for its emulators for each batch."""

    emulator_s = 0.0

    def batches(self):
        for batch in super().batches():
            self.emulator_s += 0.5
            yield batch


def run(tmp_path: Path, name: str, training: Training, source: type = Source, **measure: int) -> list:
    request = {
        "measure": {**MEASURE, **measure},
        "output": str(tmp_path),
        "hardware": {"device": "cpu"},
        "precision": "fp32",
        "world_size": 1,
        "peers": Peers(0, 1, {}),
    }
    events = Events(str(tmp_path / "events.jsonl"), name)
    passes.PASSES[name](Framework(), training, source(), request, events)
    return [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]


def test_timing_compiles_every_shape_then_warms_up_then_times(tmp_path: Path) -> None:
    events = run(tmp_path, "timing", Training())
    assert [e["name"] for e in events if e["event"] == "phase"] == ["compile", "warmup", "timed", "peak"]
    steps = {phase: sum(len(e["end"]) for e in events if e.get("phase") == phase and e["event"] == "steps")
             for phase in ("compile", "warmup", "timed")}  # fmt: skip
    assert steps["compile"] == 3
    assert 8 <= steps["warmup"] <= 9
    assert steps["timed"] == 5


def test_the_window_lies_between_two_synchronisations_and_holds_nothing_but_steps(tmp_path: Path) -> None:
    training = Training()
    events = run(tmp_path, "timing", training)
    window = next(e for e in events if e["event"] == "window")
    timed = [e for e in events if e["event"] == "steps" and e["phase"] == "timed"]
    assert all(window["begin"] <= end <= window["end"] for e in timed for end in e["end"])
    # the last steps that were taken, and what stands right before and after them
    last = max(i for i, entry in enumerate(training.log) if entry[0] == "step")
    assert [entry[0] for entry in training.log[last - 5 : last + 2]] == ["wait"] + ["step"] * 5 + ["wait"]


def test_the_window_tells_how_long_it_waited_for_emulators(tmp_path: Path) -> None:
    (tmp_path / "played").mkdir()
    played = run(tmp_path / "played", "timing", Training(), Played)
    # of its 5 batches the first is ready before it begins
    assert next(e for e in played if e["event"] == "window")["emulator_s"] == 4 * 0.5
    assert "emulator_s" not in next(e for e in run(tmp_path, "timing", Training()) if e["event"] == "window")


@pytest.mark.parametrize("warmup_steps", [8, 9])
def test_the_same_batches_are_timed_however_long_the_warm_up_was(tmp_path: Path, warmup_steps: int) -> None:
    training = Training()
    run(tmp_path, "timing", training, warmup_min_steps=warmup_steps, warmup_max_steps=warmup_steps)
    sizes = [entry[1] for entry in training.log if entry[0] == "step"]
    assert len(sizes) == 3 + warmup_steps + 5
    assert sizes[-5:] == [1, 3, 2, 1, 3]


def test_the_first_product_only_warms_up(tmp_path: Path) -> None:
    event = next(e for e in run(tmp_path, "timing", Training()) if e["event"] == "matrix_product")
    assert len(event["seconds"]) == passes.PEAK_REPEATS
    assert event["size"] == passes.PEAK_SIZE["cpu"]


def test_copies_within_the_memory_are_timed_beside_the_products(tmp_path: Path) -> None:
    event = next(e for e in run(tmp_path, "timing", Training()) if e["event"] == "memory_copy")
    assert len(event["seconds"]) == passes.PEAK_REPEATS
    assert event["bytes"] == passes.COPY_BYTES["cpu"]


@pytest.mark.parametrize("once_s", [1.3e-3, 20e-3, 0.2])
def test_what_waiting_costs_is_not_in_the_peak(monkeypatch: pytest.MonkeyPatch, once_s: float) -> None:
    """A quarter of a millisecond a wait, whose share of a short product would be a fifth."""
    now = [0.0]
    monkeypatch.setattr(passes.time, "monotonic", lambda: now[0])

    def work(times: int) -> None:
        now[0] += times * once_s + 0.25e-3

    found = passes.times_of(work)
    assert len(found) == passes.PEAK_REPEATS
    assert found == pytest.approx([once_s] * len(found), rel=0.01)


class Named(Framework):
    """One GPU, whose framework has a version."""

    name = "named"

    def __init__(self, version="1", name="A device"):
        self.released, self.device = version, name

    def version(self):
        return self.released

    def devices(self):
        return [{"kind": "gpu", "name": self.device}]


def measured(
    tmp_path: Path, framework: Framework, precision: str = "fp32", days: float = 1.0, device: str = "gpu"
) -> list:
    """The events of a phase peak that keeps what it measures in tmp_path/peaks."""
    request = {
        "peaks": str(tmp_path / "peaks"), "precision": precision, "world_size": 1,
        "measure": {"peak_max_age_days": days},
        "hardware": {"device": device, "threads": 2},
    }  # fmt: skip
    path = tmp_path / "events.jsonl"
    if path.exists():
        path.unlink()
    passes.measure_peak(framework, request, Events(str(path), "timing"))
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which the same work always takes the same time."""
    monkeypatch.setattr(passes, "times_of", lambda work: [1.0, 1.05, 1.02])


@pytest.mark.usefixtures("quiet")
def test_a_devices_peak_is_measured_once_and_its_age_told(tmp_path: Path) -> None:
    first, second = measured(tmp_path, Named()), measured(tmp_path, Named())
    assert [event["seconds"] for event in first] == [event["seconds"] for event in second]
    assert [event["age_s"] for event in first] == [0, 0] and all(event["age_s"] > 0 for event in second)
    (kept,) = (tmp_path / "peaks").iterdir()
    old = json.loads(kept.read_text())
    kept.write_text(json.dumps(dict(old, wall_time=old["wall_time"] - 90_000)))  # a day and an hour
    assert measured(tmp_path, Named())[0]["age_s"] == 0
    assert measured(tmp_path, Named(), days=0)[0]["age_s"] == 0
    kept.write_text("cut")
    assert measured(tmp_path, Named())[0]["age_s"] == 0, "what can't be read is measured anew"


def test_a_peak_that_was_disturbed_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "times_of", lambda work: [1.0, 1.2, 1.3])
    assert [measured(tmp_path, Named())[0]["age_s"] for _ in range(2)] == [0, 0]


@pytest.mark.usefixtures("quiet")
def test_another_device_version_precision_or_driver_has_a_peak_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(tmp_path, Named())
    for other in (Named(version="2"), Named(name="Another")):
        assert measured(tmp_path, other)[0]["age_s"] == 0
    assert measured(tmp_path, Named(), precision="fp64")[0]["age_s"] == 0
    assert measured(tmp_path, Named())[0]["age_s"] > 0
    monkeypatch.setattr(passes.peaks, "driver", lambda: "NVRM version: 2")
    assert measured(tmp_path, Named())[0]["age_s"] == 0


@pytest.mark.usefixtures("quiet")
def test_a_cpus_peak_is_measured_in_every_run(tmp_path: Path) -> None:
    """Others may have had the CPU when an earlier run measured it: too low a peak would flatter all later ones."""
    assert [measured(tmp_path, Named(), device="cpu")[0]["age_s"] for _ in range(2)] == [0, 0]


@pytest.mark.usefixtures("quiet")
def test_where_nothing_can_be_kept_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "peaks").write_text("no folder")
    assert [measured(tmp_path, Named())[0]["age_s"] for _ in range(2)] == [0, 0]


class Asynchronous(Training):
    """A device that is done with a step only when it is waited for."""

    def wait(self):
        super().wait()
        self.ends = [float(step) for step in range(self.read, self.steps)]

    def step_ends(self):
        return self.ends


def test_a_device_tells_its_own_times_of_every_phases_steps(tmp_path: Path) -> None:
    events = run(tmp_path, "timing", Asynchronous())
    told = {e["phase"]: len(e["end"]) for e in events if e["event"] == "step_ends"}
    steps = {phase: sum(len(e["end"]) for e in events if e["event"] == "steps" and e["phase"] == phase)
             for phase in ("compile", "warmup", "timed")}  # fmt: skip
    assert told == steps


def test_what_the_loss_scaling_left_out_is_told(tmp_path: Path) -> None:
    training = Training()
    training.skipped = lambda: 2
    assert {e["skipped"] for e in run(tmp_path, "timing", training) if e["event"] == "losses"} == {2}


def test_trace_records_steps_that_ran_before_without_it(tmp_path: Path) -> None:
    training = Training()
    run(tmp_path, "trace", training)
    begin, end = training.log.index(("trace begins",)), training.log.index(("trace ends",))
    traced = [entry for entry in training.log[begin:end] if entry[0] == "step"]
    warm = [entry for entry in training.log[:begin] if entry[0] == "step"]
    assert traced == [("step", 1), ("step", 3)]
    assert warm == traced * 2, "once to warm up, once timed"


def test_memory_is_recorded_on_the_largest_batch(tmp_path: Path) -> None:
    training = Training()
    event = next(e for e in run(tmp_path, "memory", training) if e["event"] == "memory")
    assert ("memory", 3) in training.log
    assert event["rss_peak_bytes"] > 0


def test_the_highest_resident_memory_is_of_the_time_since_it_was_forgotten() -> None:
    before = passes.peak_rss_bytes()
    big = numpy.ones(200_000_000, numpy.uint8)
    assert passes.peak_rss_bytes() >= before + 190_000_000
    del big
    assert passes.forget_peak_rss()
    assert passes.peak_rss_bytes() < before + 100_000_000


@pytest.mark.parametrize("error", [Unsupported("no profiler here"), MemoryError()])
def test_what_a_good_run_can_do_without_is_absent_with_its_reason(tmp_path: Path, error: Exception) -> None:
    events = Events(str(tmp_path / "events.jsonl"), "trace")
    with passes.optional("trace", Framework(), events):
        raise error
    (line,) = (json.loads(text) for text in (tmp_path / "events.jsonl").read_text().splitlines())
    assert (line["event"], line["what"]) == ("absent", "trace")
    assert line["reason"] in ("no profiler here", "out of memory beside the training itself")


def test_an_unforeseen_error_is_not_taken_for_absent(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), passes.optional("trace", Framework(), Events("/dev/null", "trace")):
        raise ZeroDivisionError


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_ends_the_run_as_diverged(tmp_path: Path, value: float) -> None:
    with pytest.raises(Ended) as caught:
        run(tmp_path, "timing", Training(loss_of=lambda step: value if step == 4 else 1.0))
    assert caught.value.status == DIVERGED
    assert "step 1 of the phase warmup" in caught.value.cause
    # the file stays JSON that every reader takes
    for line in (tmp_path / "events.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} in the events"))


def test_work_is_compared_in_the_same_unit(tmp_path: Path) -> None:
    ends, work = passes.run_steps(Training(), Source().batches(), 3, passes.StepRecorder(Events("/dev/null", "t")))
    assert work == [10, 30, 20]
    assert numpy.all(numpy.diff(ends) >= 0)
