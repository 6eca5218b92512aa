"""benchmarks/models.py: what it says of two sides whose times are known."""

import ast
import importlib.util
import pathlib
import sys

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


def taking(bench, seconds):
    """A stand-in for Side: seconds[side][compile] a round of 100 items, and twice as much CPU time."""

    class Known:
        def __init__(self, python, job):
            self.taken = seconds[job["side"]][job["compile"]]

        def answer(self):
            if isinstance(self.taken, Exception):
                raise self.taken
            return {"unit": "images", "items": 100}

        def block(self, rounds):
            return {"seconds": rounds * self.taken, "cpu_s": rounds * 2 * self.taken}

        def end(self):
            pass

    return Known


@pytest.fixture
def arguments(bench, monkeypatch):
    monkeypatch.setattr("sys.argv", ["models.py", "--python", "jax=python", "--batch-size", "8", "--pairs", "2"])
    monkeypatch.setattr(bench, "SETTLE_S", 0)
    return bench.parsed()


def test_the_ratio_is_of_items_per_second_and_each_side_takes_its_fastest_way(bench, arguments, monkeypatch):
    seconds = {"ours": {"eager": 4, "inductor": 2}, "peer": {"eager": 3, "inductor": 5}}
    monkeypatch.setattr(bench, "Side", taking(bench, seconds))
    found = bench.compare("python", {}, ("eager", "inductor"), arguments)
    assert found["compile"] == {"ours": "inductor", "peer": "eager"}
    assert (found["ours_per_s"], found["peer_per_s"]) == (50, pytest.approx(100 / 3))
    assert found["ratio"] == found["low"] == found["high"] == found["cpu_ratio"] == 1.5
    assert [len(one["ours"]) for one in found["launches"]] == [2, 2, 2]


def test_the_ratio_is_the_median_of_all_pairs_and_its_bounds_those_of_the_launches(bench):
    def launched(*ratios):
        return {"ours": [{"seconds": 1.0}] * len(ratios), "peer": [{"seconds": ratio} for ratio in ratios]}

    launches = [launched(1.0, 1.1, 1.2), launched(1.3, 1.4, 1.5)]
    assert bench.median_ratio(launches) == pytest.approx(1.25)
    assert [bench.median_ratio([one]) for one in launches] == [1.1, 1.4]


def test_a_way_that_a_side_cannot_run_is_left_out(bench, arguments, monkeypatch):
    broken = bench.Failed("peer: no compiler")
    monkeypatch.setattr(
        bench, "Side", taking(bench, {"ours": {"graph": 1, "xla": 2}, "peer": {"graph": 1, "xla": broken}})
    )
    assert bench.compare("python", {}, ("graph", "xla"), arguments)["compile"] == {"ours": "graph", "peer": "graph"}


def test_a_side_that_cannot_run_at_all_is_a_row_with_its_cause(bench, arguments, monkeypatch):
    broken = bench.Failed("peer, compile=xla: ModuleNotFoundError: No module named 'flax'")
    monkeypatch.setattr(bench, "Side", taking(bench, {"ours": {"xla": 1}, "peer": {"xla": broken}}))
    row = bench.row("resnet50", "jax", arguments)
    assert row["failed"] == str(broken)
    assert bench.table([row]).splitlines()[-1].endswith(f"{broken} |")


def test_a_process_that_dies_says_why(bench):
    side = bench.Side(sys.executable, {"side": "ours", "compile": "eager", "threads": 1})
    with pytest.raises(bench.Failed, match="ours, compile=eager: KeyError: 'model'"):
        side.answer()
    side.end()


def test_small_has_sizes_for_every_model_that_it_can_have_and_gives_way_to_what_is_asked(bench, monkeypatch):
    asked = {}
    monkeypatch.setattr(bench, "compare", lambda python, job, ways, arguments: asked.update(job, ways=ways) or {})
    monkeypatch.setattr(
        "sys.argv", ["models.py", "--small", "--python", "pytorch=python", "--pairs", "2", "--option", "image_size=32"]
    )
    arguments = bench.parsed()
    assert (arguments.launches, arguments.pairs) == (bench.SMALL_LAUNCHES, 2)
    bench.row("resnet50", "pytorch", arguments)
    assert (asked["batch_size"], asked["options"], asked["ways"]) == (16, {"image_size": 32}, ("eager",))
    assert set(bench.SMALL) == set(models.names())
    for model, (size, options) in bench.SMALL.items():
        models.create(model, options).check(size)


@pytest.mark.parametrize("model", models.names())
@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "jax"])
def test_every_cell_of_the_three_has_a_peer(model, framework):
    assert BENCHMARKS.joinpath("peers", framework, f"{model}.py") in PEERS


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
