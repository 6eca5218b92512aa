"""python -m tbd.predict on a run whose step time is known: its numbers by hand, and what it refuses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import SLEEP, environment, only_spool, options, train

STEP_S, IMAGES = 0.1, 4
GRADIENTS = 4 * 130_962  # bytes: the small ResNet-50's numbers in fp32


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("predict")
    scripted = options(mode="scripted", step_s=STEP_S, warmup_s=[STEP_S], items={"images": IMAGES})
    done = train(folder, *SLEEP, "measure.passes=[timing]", "tracking=offline", *scripted)
    assert done.returncode == 0, done.stderr
    return folder


def predict(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tbd.predict", *(word.format(run=only_spool(folder)) for word in arguments)]
    return subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=120)


RUN = "{run}"


def test_a_ring_of_two_as_by_hand(folder: Path) -> None:
    done = predict(folder, RUN, "--nodes", "1,2", "--bandwidth", "0.01", "--latency-us", "100", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    alone, together = (row for row in told["predictions"] if row["algorithm"] == "ring")
    assert alone["step_ms"] == pytest.approx(1e3 * STEP_S) and alone["exchange_ms"] == 0
    assert alone["throughput"] == pytest.approx(IMAGES / STEP_S) and alone["efficiency"] == pytest.approx(1)
    exchange_s = 2 * (100e-6 + GRADIENTS / 2 / 1.25e6)  # 10 Mbit/s are 1.25 MB/s
    assert together["exchange_ms"] == pytest.approx(1e3 * exchange_s)
    assert together["throughput"] == pytest.approx(2 * IMAGES / (STEP_S + exchange_s))
    assert together["efficiency"] == pytest.approx(STEP_S / (STEP_S + exchange_s))
    assert any("Patarasuk" in line for line in told["assumptions"])
    assert any("the slowest case" in line for line in told["assumptions"])


def test_the_table_tells_its_assumptions(folder: Path) -> None:
    done = predict(folder, RUN, "--nodes", "8,64", "--latency-us", "5")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ring") >= 6 and "latency 5 us a message, one way (given)" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([RUN], 1, "--latency-us=N"),
        (["no-such-run", "--latency-us", "5"], 2, "no run is called"),
        ([RUN, "--nodes", "0"], 2, "each must be 1 or more"),
        ([RUN, "--bandwidth", "0"], 2, "each must be above 0"),
        ([RUN, "--latency-us", "-1"], 2, "not below 0"),
    ],
)
def test_what_it_refuses(folder: Path, arguments: list[str], code: int, words: str) -> None:
    done = predict(folder, *arguments)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)
    assert words in done.stderr
