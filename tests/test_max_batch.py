"""measure.find_max_batch=true from the command line, in PyTorch: what a line predicts is what trials find."""

import json
from pathlib import Path

import pytest

from tbd.measure import largest_batch
from tests.commands import SLEEP, end, only_spool, train

LIMIT_MB = 700


def test_the_search_finds_what_two_batch_sizes_predict(tmp_path: Path) -> None:
    done = train(
        tmp_path, "model=resnet50", "model.size=small", "framework=pytorch", "batch_size=256", "tracking=offline",
        "measure.passes=[timing]", "measure.steps=1", "measure.warmup_max_steps=8", "measure.peak=false",
        "measure.find_max_batch=true", f"measure.memory_limit_mb={LIMIT_MB}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert end(only_spool(tmp_path))["status"] == "ok"
    figures = json.loads((only_spool(tmp_path) / "figures.json").read_text())
    trials = figures["tables"]["max_batch"]
    assert {trial["fits"] for trial in trials} == {True, False}
    assert all((trial["rss_peak_mb"] <= LIMIT_MB) == trial["fits"] for trial in trials)
    fitting = [trial for trial in trials if trial["fits"]][:-1]
    sizes, peaks = ([trial[key] for trial in fitting] for key in ("batch_size", "rss_peak_mb"))
    # the search ends within a 32nd of the largest; in one of a thousand searches the interval is to miss it
    low, high = largest_batch.interval(sizes, peaks, LIMIT_MB, confidence=0.999)
    assert low <= figures["metrics"]["max_batch"] * (1 + 1 / 32) and figures["metrics"]["max_batch"] <= high + 1
    assert figures["metrics"]["max_batch_predicted_low"] <= figures["metrics"]["max_batch_predicted"]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["measure.find_max_batch=true"], "needs measure.memory_limit_mb=N"),
        (["measure.find_max_batch=true", "measure.memory_limit_mb=0"], "measure.memory_limit_mb=0 must be above 0 MB"),
    ],
)
def test_a_search_without_a_limit_is_a_users_mistake(tmp_path: Path, overrides: list[str], said: str) -> None:
    done = train(tmp_path, *SLEEP, *overrides)
    assert done.returncode == 2
    assert said in done.stderr
