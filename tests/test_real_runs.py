"""Every model in every framework, from the command line to the record, in small; what is measured must be whole."""

import csv
import gzip
import json
import re
from pathlib import Path
from typing import Any

import django
import pandas
import pytest

from tbd import models
from tests.commands import end, events, only_spool, train
from tests.parity.cells import CELLS, model_of, options_of

CATEGORIES = ("weights", "weight_gradients", "optimizer_state", "feature_maps", "workspace", "input", "other")


# the tests run side by side, and a second thread of each would wait for the other's
ALONE = ["hardware.threads=1", "tracking=offline"]
FEWER = {"a3c": ["batch_size=4"]}  # an emulator takes 0.2 s to start
# Of each model in each framework the first network that it can train; the others are in tests/parity.
FIRST = {(model_of(network), framework): network for network, framework in reversed(CELLS)}


@pytest.fixture(scope="module", params=sorted(FIRST), ids="-".join)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """(network, spool) of a whole run in small."""
    model, framework = request.param
    network = FIRST[request.param]
    folder = tmp_path_factory.mktemp(f"{model}-{framework}")
    options = [f"model.{key}={value}" for key, value in options_of(network).items()]
    done = train(folder, f"model={model}", f"framework={framework}", *options, *ALONE, *FEWER.get(model, []))
    assert done.returncode == 0, done.stdout + done.stderr
    return network, only_spool(folder)


def figures(spool: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((spool / "figures.json").read_text())
    return found


def test_it_ends_ok_with_every_pass(run: tuple[str, Path]) -> None:
    _, spool = run
    assert end(spool)["status"] == "ok"
    ends = {event["pass"]: event["status"] for event in events(spool) if event["event"] == "end"}
    assert ends == {"timing": "ok", "trace": "ok", "memory": "ok"}


def test_every_figure_of_a_cpu_run_is_there(run: tuple[str, Path]) -> None:
    metrics = figures(run[1])["metrics"]
    for name in ("throughput", "step_time_p50_ms", "step_time_p99_ms", "step_time_jitter_ms", "warmup_steps", "steady",
                 "startup_import_s", "startup_build_s", "startup_compile_s", "startup_first_step_s", "mfu",
                 "achieved_tflops", "peak_tflops_measured", "data_wait_share", "loss_first", "loss_last",
                 "memory/peak_mb", "memory/feature_maps_share"):  # fmt: skip
        assert name in metrics, (name, figures(run[1])["absent"])
    assert metrics["throughput"] > 0 and 0 < metrics["mfu"] <= 1


@pytest.fixture(scope="module")
def first() -> dict[str, tuple[str, set[str]]]:
    """Of each model the framework of the first run that was looked at, and the names of its figures."""
    return {}


# by the host's samples, of which a quick step has too few, whatever the framework
SAMPLED = {"cpu_utilization", "controller_cpu_share", "other_cpu_cores"}


def test_the_figures_of_a_model_have_the_same_names_in_every_framework(
    run: tuple[str, Path], first: dict[str, tuple[str, set[str]]]
) -> None:
    """So that MLflow shows runs of several frameworks side by side, none with a row of its own."""
    network, spool = run
    framework = next(e["name"] for e in events(spool) if e["event"] == "framework")
    names = set(figures(spool)["metrics"]) - SAMPLED
    other, expected = first.setdefault(model_of(network), (framework, names))
    assert names == expected, f"{framework} against {other}: {figures(spool)['absent']}"


def test_memory_by_data_structure_sums_to_the_allocators_peak(run: tuple[str, Path]) -> None:
    metrics = figures(run[1])["metrics"]
    total = sum(metrics[f"memory/{category}_mb"] for category in CATEGORIES)
    assert total == pytest.approx(metrics["memory/peak_mb"], rel=0.01)
    assert abs(metrics["memory/untracked_mb"]) <= 0.01 * metrics["memory/peak_mb"]


def test_weights_and_optimizer_state_are_the_specifications_bytes(run: tuple[str, Path]) -> None:
    network, spool = run
    specification = models.create(model_of(network), options_of(network))
    metrics = figures(spool)["metrics"]
    assert metrics["memory/weights_mb"] * 1e6 == pytest.approx(specification.weights_bytes(), abs=0.5)
    assert metrics["memory/optimizer_state_mb"] * 1e6 == pytest.approx(specification.optimizer_state_bytes(), abs=0.5)


def test_the_trace_opens_as_chrome_trace_and_gives_operators(run: tuple[str, Path]) -> None:
    _, spool = run
    with gzip.open(spool / "trace.json.gz", "rt") as file:
        trace = json.load(file)
    complete = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
    assert {"name", "ts", "dur", "pid", "tid"} <= set(complete[0])
    with open(spool / "operators.csv") as file:
        rows = list(csv.DictReader(file))
    assert sum(float(row["share"]) for row in rows) == pytest.approx(1.0, abs=1e-6)
    product = re.compile("mul|conv|mm|times", re.IGNORECASE)
    assert any(product.search(row["name"]) for row in rows)


def test_the_trace_is_a_table_that_tells_the_passes_apart(run: tuple[str, Path]) -> None:
    table = pandas.read_parquet(run[1] / "trace.parquet")
    assert (table["duration_us"] >= 0).all() and table["start_us"].min() == 0
    assert {"forward", "backward"} <= set(table["phase"])
    metrics = figures(run[1])["metrics"]
    assert 0 < metrics["forward_share"] < 1 and 0 < metrics["backward_share"] < 1


def test_the_operators_with_known_work_have_the_models_operations(run: tuple[str, Path]) -> None:
    """ResNet-50's operations are convolutions and one product, so that all of a step's are in the trace."""
    network, spool = run
    tables = figures(spool)["tables"]
    if next(e["name"] for e in events(spool) if e["event"] == "framework") != "pytorch":
        assert "roofline" not in tables
        return
    assert 0 < tables["roof"][0]["known_share"] <= 1 and (spool / "roofline.png").exists()
    if network == "resnet50":
        step = next(e for e in events(spool) if e["event"] == "steps" and e["pass"] == "trace")["flops"][0]
        assert sum(row["gflop"] * row["count_per_step"] for row in tables["roofline"]) == pytest.approx(step / 1e9)


def test_memory_is_shown_along_the_step_and_by_layer(run: tuple[str, Path]) -> None:
    report = json.loads((run[1] / "memory_breakdown.json").read_text())
    assert report["peak"]["categories_mb"]["weights"] == pytest.approx(report["timeline"][0]["weights"])
    assert sum(row["weights_mb"] for row in report["layers"] if row["layer"]) == pytest.approx(
        report["peak"]["categories_mb"]["weights"]
    )
    assert any(row["feature_maps_mb"] for row in report["layers"] if row["layer"])
    assert (run[1] / "memory.html").exists() and (run[1] / "memory.png").exists()


def test_nothing_of_the_controller_is_in_the_worker(run: tuple[str, Path]) -> None:
    names = {line.split("==")[0].lower() for line in (run[1] / "environment.txt").read_text().splitlines()}
    assert not names & {"mlflow", "hydra-core", "omegaconf"}


# docs/data.md names this number. Django's sentences alone: the same on every machine, and seen often enough by then.
LEARNING_STEPS = 100


# In PyTorch alone: the others train these sentences in their cells above, and are the same network (tests/parity)
def test_seq2seq_learns_real_sentences(tmp_path: Path) -> None:
    steps = [f"measure.steps={LEARNING_STEPS}", "measure.passes=[timing]", "measure.peak=false"]
    catalogues = f"data.catalogues=[{Path(django.__file__).parent}]"
    done = train(tmp_path, "model=seq2seq", "framework=pytorch", catalogues, *steps, *ALONE)
    assert done.returncode == 0, done.stderr
    metrics = figures(only_spool(tmp_path))["metrics"]
    assert metrics["loss_last"] < 0.6 * metrics["loss_first"]
