"""python -m tbd.gate: its verdicts, how often it is wrong, and the repeats that it asks for."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from tbd import gate
from tbd.analysis.gating import OK, REGRESSION, UNKNOWN, decide
from tbd.tracking.spool import Spool
from tests import sleeping
from tests.analysis import recorded
from tests.browser import opened, violations

BASELINE = "tags.baseline = 'yes'"
TAGS = {"baseline": "yes"}
QUIET = {"of_process": 0.003, "of_step": 0.02}
NOISY = {"of_process": 0.02, "of_step": 0.02}
TOLERANCE = 0.02


def judged(*words: str, code: int) -> dict:
    """The verdicts of the one configuration."""
    assert gate.main(["--baseline", BASELINE, *words, "--json", "found.json"]) == code
    (cell,) = json.loads(Path("found.json").read_text())
    return {one["metric"]: one for one in cell["verdicts"]}


def record(slower: float, passes: int = 3, noise: dict = QUIET, seed: int = 1, **options: object) -> Spool:
    return recorded.run(sleeping.noisy(np.random.default_rng(seed), passes, 20, slower, **noise), **options)


def test_a_slower_run_is_a_regression() -> None:
    record(1.0, tags=TAGS)
    record(1.05, seed=2)
    one = judged(code=1)["throughput"]
    assert one["verdict"] == REGRESSION and one["change"]["high"] < -TOLERANCE


def test_one_that_is_as_fast_or_faster_is_none() -> None:
    record(1.0, tags=TAGS)
    for number, slower in enumerate((1.0, 0.9)):
        spool = record(slower, seed=2 + number)
        assert judged(str(spool.path), code=0)["throughput"]["verdict"] == OK


def test_a_loss_within_the_tolerance_is_none() -> None:
    record(1.0, tags=TAGS)
    record(1.05, seed=2)
    assert judged("--tolerance", "10%", code=0)["throughput"]["verdict"] == OK


def test_the_repeats_that_it_asks_for_find_a_loss_of_3_percent() -> None:
    new = {"candidate": "yes"}
    record(1.0, noise=NOISY, tags=TAGS)
    record(1 / 0.97, noise=NOISY, seed=2, tags=new)
    one = judged("tags.candidate = 'yes'", code=3)["throughput"]
    assert one["verdict"] == UNKNOWN and one["what"] == "timing passes"
    more = one["more"]
    asked = f"needs {more[0]} more of the baseline and {more[1]} more of the candidate (timing passes)"
    assert min(more) > 0 and one["needed"] == asked
    seed, code = 3, 3
    while code == 3:  # a spread that three values told may have been too small: then it asks again
        record(1.0, more[0], noise=NOISY, seed=seed, tags=TAGS)
        record(1 / 0.97, more[1], noise=NOISY, seed=seed + 1, tags=new)
        code = gate.main(["--baseline", BASELINE, "tags.candidate = 'yes'", "--json", "found.json"])
        (cell,) = json.loads(Path("found.json").read_text())
        seed, more = seed + 2, cell["verdicts"][0]["more"]
    assert code == 1


def decided(random: np.random.Generator, loss: float, spread: float) -> str:
    """What becomes of a candidate that loses so much, when it is given the repeats that are asked for."""
    sides: list[list[float]] = [[], []]
    more: tuple[int, int] | None = (3, 3)
    verdict = UNKNOWN
    while verdict == UNKNOWN and more is not None:
        for side, rate, count in zip(sides, (1.0, 1 - loss), more, strict=True):
            side += list(rate * np.exp(random.normal(0, spread, count)))
        verdict, _, more = decide(*sides, 1, TOLERANCE)
    return verdict


@pytest.mark.parametrize("spread", [0.003, 0.01, 0.02, 0.05])
def test_false_alarms_are_rarer_than_5_percent(spread: float) -> None:
    random = np.random.default_rng(11)
    assert np.mean([decided(random, 0.0, spread) == REGRESSION for _ in range(300)]) < 0.05


@pytest.mark.parametrize("spread", [0.003, 0.01, 0.02])
def test_a_loss_of_3_percent_is_found(spread: float) -> None:
    random = np.random.default_rng(12)
    assert np.mean([decided(random, 0.03, spread) == REGRESSION for _ in range(300)]) > 0.95


def test_a_loss_of_3_percent_is_found_where_starts_differ_by_5() -> None:
    """Then hundreds of repeats are asked for once, with the power of 90 %; a second time it would be too many."""
    random = np.random.default_rng(12)
    assert np.mean([decided(random, 0.03, 0.05) == REGRESSION for _ in range(300)]) > 0.9


def test_right_at_the_tolerance_one_look_is_wrong_in_2_5_percent() -> None:
    random = np.random.default_rng(13)
    values = np.exp(random.normal(0, 0.01, (2000, 2, 5)))
    values[:, 1] *= 1 - TOLERANCE
    alarms = np.mean([decide(list(a), list(b), 1, TOLERANCE)[0] == REGRESSION for a, b in values])
    assert 0.015 < alarms < 0.035


def test_one_timing_pass_can_not_tell() -> None:
    record(1.0, 1, tags=TAGS)
    record(1.5, 1, seed=2)
    one = judged(code=3)["throughput"]
    assert one["more"] == [2, 2] and one["reason"] == "a verdict needs 3 timing passes of each, there are 1 and 1"


def test_more_memory_is_a_regression_by_one_count() -> None:
    for megabytes, tags in ((200, TAGS), (210, None)):
        record(1.0, tags=tags, memory=recorded.buffers(weights=10, feature_maps=megabytes))
    verdicts = judged(code=1)
    assert verdicts["memory/peak_mb"]["verdict"] == REGRESSION and verdicts["throughput"]["verdict"] == OK
    assert verdicts["memory/peak_mb"]["change"]["change"] == pytest.approx(10 / 210)


def test_a_candidate_that_measured_nothing_can_not_be_told() -> None:
    record(1.0, tags=TAGS)
    spool = record(1.0, seed=2)
    (spool.path / "events.jsonl").write_text("")
    (spool.path / "figures.json").unlink()
    one = judged(code=3)["throughput"]
    assert one["verdict"] == UNKNOWN and one["reason"].startswith("the candidate has none: the timing pass did not run")


def test_each_configuration_is_judged_by_its_own_baseline(capsys: pytest.CaptureFixture[str]) -> None:
    sweep = Spool.create(Path("runs"), "sweep", experiment="tests", kind="sweep")
    for batch_size, slower in ((8, 1.0), (16, 1.05)):
        record(1.0, batch_size=batch_size, tags=TAGS)
        record(slower, seed=2, batch_size=batch_size, parent=sweep)
    record(1.0, batch_size=32, parent=sweep)
    assert gate.main(["--baseline", BASELINE, "--json", "found.json"]) == 1
    cells = json.loads(Path("found.json").read_text())
    assert [cell["verdicts"][0]["verdict"] for cell in cells] == [OK, REGRESSION]
    assert "1 of the candidates' configurations have no run in the baseline" in capsys.readouterr().err


def test_the_history_names_the_version_with_which_the_level_changed() -> None:
    for number in range(12):
        slower, version = (1.0, "1.9") if number < 6 else (1.06, "1.10")  # in the order of versions, not of text
        record(slower, seed=number, version=version, tags=TAGS, start=1e9 + 100 * (number % 6))
    record(1.06, seed=20, version="1.10")
    assert gate.main(
        ["--baseline", BASELINE, "--json", "found.json", "--html", "page.html", "--markdown", "page.md"]
    ) in (0, 3)
    (cell,) = json.loads(Path("found.json").read_text())
    (change,) = cell["changes"]
    assert change["at"] == 6 and change["name"] == "sleep 1.9 to 1.10"
    assert change["low"] < 1 / 1.06 - 1 < change["high"] < 0
    with opened(Path("page.html")) as (shown, wrong):
        assert wrong == [] and violations(shown) == []
        box = shown.get_by_role("img", name="Throughput of 13 runs").bounding_box()
        assert box and box["width"] > 200 and box["height"] > 50
    page = Path("page.html").read_text()
    assert "sleep 1.9 to 1.10" in page and page.count("<circle") == 13 and "<script" not in page
    assert "the baseline has runs of more than one level" in page and "sleep 1.9 to 1.10" in Path("page.md").read_text()


def test_what_a_user_gets_wrong_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    record(1.0, tags=TAGS)
    assert gate.main(["--baseline", "tags.baseline = 'no'"]) == 2
    assert gate.main(["--baseline", BASELINE]) == 2
    assert "every run is one of the baseline's" in capsys.readouterr().err
    for wrong in (["--metrics", "loss_first"], ["--tolerance", "200%"], ["--tolerance", "much"]):
        with pytest.raises(SystemExit, match="2"):
            gate.main(["--baseline", BASELINE, *wrong])


def test_a_tolerance_is_a_share_or_per_cent() -> None:
    assert gate.share("2%") == gate.share("0.02") == TOLERANCE and math.isclose(gate.share("0.5%"), 0.005)
