"""What measuring costs: our timing pass against a bare hand-written loop of the same network, a ratio a framework.

    ratio = time of the bare loop's block / time of the harness's block beside it

A ratio of 1 means that the harness, worker and controller together, takes nothing away. Both loops take turns in one
process (worker.py): the same program started twice differs by up to 5 % in its speed, for its whole life, by where its
memory happens to lie. Runs are added until the 95 % interval of the ratio (Student's t over the pairs' logarithms) is
within 1 % on either side, or there are MAX_RUNS.

    python benchmarks/overhead/compare.py [framework ...]
"""

import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from scipy import stats
from worker import BLOCK_STEPS

from tbd.launch import environments, project

FRAMEWORKS = ("pytorch", "tensorflow", "jax", "mxnet", "cntk")
MODEL = ["model=resnet50", "model.image_size=64", "batch_size=16"]
PAIRS = 30  # of blocks in a run
MAX_RUNS = 4
WITHIN = 0.01


def run(framework: str) -> tuple[list[tuple[float, float]], float]:
    """(pairs of blocks: seconds in the harness and bare; the controller's CPU seconds in the harness's blocks)."""
    python = environments.ensure(project.load(framework)).python
    ours = ["framework=custom", f"framework.name={framework}", f"framework.project={Path(__file__).parent}"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "tbd.train", *ours, f"framework.python={python}", *MODEL, "tracking=offline",
             "measure.passes=[timing]", "measure.peak=false", f"measure.steps={PAIRS * BLOCK_STEPS}"],
            cwd=folder, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            sys.exit(f"{framework}: the run failed: {done.stdout}{done.stderr}")
        (file,) = Path(folder).glob("runs/*/overhead.json")
        found = json.loads(file.read_text())
    return found["pairs"], found["controller_s"]


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """(geometric mean, low, high) of the ratios, 95 %, by Student's t over their logarithms."""
    logs = [math.log(ratio) for ratio in ratios]
    low, high = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
    return math.exp(statistics.fmean(logs)), math.exp(low), math.exp(high)


def compare(framework: str) -> str:
    """The framework's line."""
    pairs: list[tuple[float, float]] = []
    controller_s = 0.0
    for _ in range(MAX_RUNS):
        more, cpu_s = run(framework)
        pairs += more
        controller_s += cpu_s
        middle, low, high = interval([bare / harness for harness, bare in pairs])
        if high / middle - 1 <= WITHIN and 1 - low / middle <= WITHIN:
            break
    share = controller_s / sum(harness for harness, _ in pairs)
    return (
        f"{framework} ratio {middle:.3f} (95 %: {low:.3f} to {high:.3f}, {len(pairs)} pairs of blocks of "
        f"{BLOCK_STEPS} steps); controller {share:.2%} of a core"
    )


def main() -> None:
    for framework in sys.argv[1:] or FRAMEWORKS:
        print(compare(framework), flush=True)


if __name__ == "__main__":
    main()
