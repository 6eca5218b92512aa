"""python -m tbd.compare: what it says of runs whose difference is known."""

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from tbd import compare
from tbd.tracking.spool import Spool
from tests import sleeping
from tests.analysis import recorded
from tests.browser import opened, violations
from tests.commands import environment

SLOWER = 1.1
QUIET = {"of_process": 0.003, "of_step": 0.02}


def two(repeats: int = 3, slower: float = SLOWER) -> tuple[Spool, Spool]:
    """A run, and one of a later version that is slower by one operator and has larger feature maps."""
    random = np.random.default_rng(1)
    a = recorded.run(
        sleeping.noisy(random, repeats, 20, **QUIET),
        memory=recorded.buffers(weights=10, feature_maps=200),
        trace=[("conv", 60.0), ("relu", 10.0)],
    )
    b = recorded.run(
        sleeping.noisy(random, repeats, 20, slower, **QUIET),
        version="1.1",
        memory=recorded.buffers(weights=10, feature_maps=260),
        trace=[("conv", 69.0), ("relu", 10.0), ("add", 0.5)],
    )
    return a, b


def compared(*words: object, code: int = 0) -> dict:
    assert compare.main([*map(str, words), "--json", "found.json"]) == code
    return json.loads(Path("found.json").read_text())


def figure(found: dict, metric: str) -> dict:
    (row,) = [row for row in found["figures"] if row["metric"] == metric]
    return row


def test_a_known_difference_is_found_with_its_interval() -> None:
    a, b = two()
    found = compared(a.path, b.id)
    (change,) = figure(found, "throughput")["changes"]
    assert change["low"] <= 1 / SLOWER - 1 <= change["high"] < 0
    assert change["source"] == "Welch's t over 3 timing passes each"
    values = figure(found, "throughput")["values"]
    assert change["change"] == pytest.approx(values[1] / values[0] - 1)
    (memory,) = figure(found, "memory/peak_mb")["changes"]
    assert memory["change"] == pytest.approx(60 / 210) and memory["low"] is None


def test_it_says_what_moved() -> None:
    (moved,) = compared(*(spool.path for spool in two()))["moved"]
    assert [(part["name"], part["a"], part["b"]) for part in moved["operators"]] == [
        ("conv", pytest.approx(60), pytest.approx(69)), ("add", None, pytest.approx(0.5))
    ]  # fmt: skip
    grown = {part["name"]: part["b"] - part["a"] for part in moved["memory"] if part["b"] != part["a"]}
    assert grown == {"peak": 60, "feature_maps": 60}
    assert any(text.startswith("of a step: conv +9 ms (60 to 69)") for text in moved["told"])
    assert any(text.endswith("feature maps +60.0 MB") for text in moved["told"])


def test_it_says_what_differs() -> None:
    a = recorded.run([[0.1] * 20] * 3)
    b = recorded.run([[0.1] * 20] * 3, version="1.1", batch_size=16)
    (b.path / "environment.txt").write_text("# sleep 1.1, Python 3.11\nnumpy==2.0\n")
    found = compared(a.path, b.path)["differing"]
    assert found["configuration"] == [{"key": "batch_size", "values": ["8", "16"]}]
    assert {row["key"]: row["values"] for row in found["environment"]} == {
        "sleep": ["1.0", "1.1"], "numpy": ["", "2.0"]
    }  # fmt: skip


def test_steps_of_another_size_are_scaled() -> None:
    a = recorded.run([[0.1] * 20] * 3, trace=[("conv", 80.0)])
    b = recorded.run([[0.2] * 20] * 3, trace=[("conv", 160.0)], batch_size=16, items=16)
    found = compared(a.path, b.path)
    (moved,) = found["moved"]
    assert moved["scale"] == 0.5 and moved["operators"] == []
    (change,) = figure(found, "throughput")["changes"]
    assert change["change"] == pytest.approx(0)


def test_runs_of_one_pass_are_compared_by_blocks_and_it_is_said() -> None:
    a, b = two(repeats=1)
    found = compared(a.path, b.path)
    (change,) = figure(found, "throughput")["changes"]
    assert change["low"] <= 1 / SLOWER - 1 <= change["high"]
    assert change["source"].endswith("it knows nothing of what differs between processes") and change["one_start"]
    assert [text for text in found["warnings"] if "measure.repeats=3 and more tell" in text]


def test_two_starts_of_one_program_are_neither_better_nor_worse_by_one_pass_each() -> None:
    random = np.random.default_rng(3)
    fast, slow = (
        recorded.run(sleeping.noisy(random, 1, 20, **QUIET)),
        recorded.run(
            sleeping.noisy(random, 1, 20, 1.05, **QUIET)  # as two starts of the same program may differ
        ),
    )
    assert compare.main([str(fast.path), str(slow.path), "--markdown", "page.md"]) == 0
    (row,) = [line for line in Path("page.md").read_text().splitlines() if line.startswith("| throughput |")]
    assert "**" not in row


def test_several_runs_of_a_side_are_repeats() -> None:
    random = np.random.default_rng(2)
    for seed in range(3):
        recorded.run(sleeping.noisy(random, 1, 20, **QUIET), seed=seed)
        recorded.run(sleeping.noisy(random, 1, 20, SLOWER, **QUIET), seed=seed, version="1.1")
    found = compared("tags.framework_version = '1.0'", "tags.framework_version = '1.1'")
    (change,) = figure(found, "throughput")["changes"]
    assert change["source"] == "Welch's t over 3 runs each" and change["high"] < 0
    assert found["warnings"] == []
    assert [len(side["runs"]) for side in found["sides"]] == [3, 3]


def test_runs_that_are_no_repeats_are_told_of() -> None:
    for batch_size in (8, 16):
        recorded.run([[0.1] * 20], batch_size=batch_size, name="one")
    recorded.run([[0.1] * 20], name="other")
    warning, _of_one_pass = compared("one", "other")["warnings"]
    assert warning == "the 2 runs of one (2 runs) are no repeats of each other: batch_size differ"


def test_the_page_and_the_markdown_stand_alone() -> None:
    a, b = two()
    Path("x<y").mkdir()
    assert compare.main([str(a.path), str(b.path), "--html", "page.html", "--markdown", "page.md"]) == 0
    page = Path("page.html").read_text()
    assert "<script" not in page and "http" not in page

    class Balanced(HTMLParser):
        open: list[str] = []

        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in ("meta", "line", "br", "input"):
                self.open.append(tag)

        def handle_endtag(self, tag: str) -> None:
            if tag not in ("meta", "line"):
                assert self.open.pop() == tag

    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    rows = [line for line in Path("page.md").read_text().splitlines() if line.startswith("| ")]
    assert any(row.startswith("| throughput | 80") and "**worse**" in row for row in rows)


def test_the_page_in_a_browser() -> None:
    a, b = two()
    assert compare.main([str(a.path), str(b.path), "--html", "page.html"]) == 0
    with opened(Path("page.html")) as (shown, wrong):
        for scheme in ("light", "dark"):
            shown.emulate_media(color_scheme=scheme)
            assert violations(shown) == []
        assert wrong == []
        box = shown.locator("svg.interval .span").first.bounding_box()
        assert box and 0 < box["width"] < 140


def test_a_word_that_means_no_run_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    a, _ = two()
    assert compare.main([str(a.path), "nothing"]) == 2
    assert "no run is called or matches 'nothing'" in capsys.readouterr().err


def test_the_command_prints_a_table_and_waits_for_no_mlflow_where_the_runs_are_here() -> None:
    """Importing MLflow takes longer than all else of a comparison."""
    a, b = two()
    watched = "import sys; from tbd.compare import main; main(sys.argv[1:]); sys.exit('mlflow' in sys.modules)"
    command = [sys.executable, "-c", watched, str(a.path), str(b.path)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "images/s" in done.stdout and "worse" in done.stdout and "sleep: 1.0 | 1.1" in done.stdout
