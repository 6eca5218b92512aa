"""benchmarks/models.py: what it says of two sides whose times are known."""

import ast
import importlib.util
import pathlib

import pytest

from tbd import models

BENCHMARKS = pathlib.Path(__file__).parent.parent / "benchmarks"
PEERS = sorted((BENCHMARKS / "peers").glob("*/*.py"))
OF_MODELS = [path for path in PEERS if path.stem in models.names()]


@pytest.fixture
def bench():
    specification = importlib.util.spec_from_file_location("bench_models", BENCHMARKS / "models.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def taking(seconds):
    """A stand-in for a side's process: seconds[side][compile] for 100 items, and twice as much CPU time."""

    def run(python, job):
        taken = seconds[job["side"]][job["compile"]]
        if isinstance(taken, Exception):
            raise taken
        return {"seconds": taken, "cpu_s": 2 * taken, "items": 100, "unit": "images", "startup_s": 0.0}

    return run


def test_the_ratio_is_of_items_per_second_and_each_side_takes_its_fastest_way(bench, monkeypatch):
    monkeypatch.setattr(
        bench, "run", taking({"ours": {"eager": 4, "inductor": 2}, "peer": {"eager": 3, "inductor": 5}})
    )
    found = bench.compare("python", {}, ("eager", "inductor"), 3)
    assert found["compile"] == {"ours": "inductor", "peer": "eager"}
    assert (found["ours_per_s"], found["peer_per_s"]) == (50, pytest.approx(100 / 3))
    assert found["ratio"] == found["low"] == found["high"] == found["cpu_ratio"] == 1.5
    assert len(found["runs"]["ours"]) == len(found["runs"]["peer"]) == 3


def test_a_way_that_a_side_cannot_run_is_left_out(bench, monkeypatch):
    broken = bench.Failed("peer: no compiler")
    monkeypatch.setattr(bench, "run", taking({"ours": {"graph": 1, "xla": 2}, "peer": {"graph": 1, "xla": broken}}))
    assert bench.compare("python", {}, ("graph", "xla"), 2)["compile"] == {"ours": "graph", "peer": "graph"}


def test_a_side_that_cannot_run_at_all_is_a_row_with_its_cause(bench, monkeypatch):
    broken = bench.Failed("peer, compile=xla: ModuleNotFoundError: No module named 'flax'")
    monkeypatch.setattr(bench, "run", taking({"ours": {"xla": 1}, "peer": {"xla": broken}}))
    monkeypatch.setattr("sys.argv", ["models.py", "--python", "jax=python", "--batch-size", "8"])
    row = bench.row("resnet50", "jax", bench.parsed())
    assert row["failed"] == str(broken)
    assert bench.table([row]).splitlines()[-1].endswith(f"{broken} |")


def test_a_model_without_a_peer_is_told(bench, monkeypatch):
    monkeypatch.setattr("sys.argv", ["models.py", "--batch-size", "8"])
    assert bench.row("nothing", "jax", bench.parsed())["failed"] == "no peer is written"


@pytest.mark.parametrize("path", PEERS, ids=[f"{path.parent.name}-{path.stem}" for path in PEERS])
def test_peers_know_nothing_of_tbd(path):
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module)
    assert not [name for name in modules if name.split(".")[0] == "tbd"]


@pytest.mark.parametrize("path", OF_MODELS, ids=[f"{path.parent.name}-{path.stem}" for path in OF_MODELS])
def test_a_peer_says_what_it_is(path, bench):
    assert bench.source_of(path.parent.name, path.stem) != "?"
