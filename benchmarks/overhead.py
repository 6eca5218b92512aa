"""What measuring costs: our timing pass against a bare hand-written loop of the same network, a ratio a framework.

    ratio = step time of the bare loop / step time of our timing pass, of whole processes run in alternation

A ratio of 1 means that the harness, worker and controller together, takes nothing away. Pairs are added until the 95 %
interval of the ratio (Student's t over the pairs' logarithms) is within 1 % on either side; where the machine is too
noisy for that within MAX_PAIRS, the ratio is of CPU time a step, and the line says so.

    python benchmarks/overhead.py [framework ...]
"""

import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from scipy.stats import t as student

from tbd.launch import environments, project
from tbd.launch.variables import import_folder, worker_variables
from tbd.measure.figures import compute

FRAMEWORKS = ("pytorch", "tensorflow", "jax", "mxnet", "cntk")
MODEL = ["model=resnet50", "model.image_size=64", "batch_size=16"]
WARMUP, STEPS = 10, 30
MIN_PAIRS, MAX_PAIRS = 6, 20
WITHIN = 0.01


def ours(framework: str, folder: Path) -> tuple[Path, dict[str, float]]:
    """One run of the timing pass: its spool, and seconds, CPU seconds (of the window) and the controller's share."""
    overrides = [f"framework={framework}", *MODEL, "measure.passes=[timing]", "measure.peak=false", "tracking=offline"]
    steps = [f"measure.steps={STEPS}", f"measure.warmup_min_steps={WARMUP}", f"measure.warmup_max_steps={WARMUP}"]
    before = set((folder / "runs").glob("*"))
    subprocess.run(
        [sys.executable, "-m", "tbd.train", *overrides, *steps], cwd=folder, check=True, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    (spool,) = set((folder / "runs").glob("*")) - before
    lines = [json.loads(line) for line in (spool / "events.jsonl").read_text().splitlines()]
    (window,) = [line for line in lines if line["event"] == "window"]
    share = compute(spool).metrics.get("controller_cpu_share", math.nan)
    return spool, {"seconds": window["end"] - window["begin"], "cpu_s": window["cpu_s"], "controller": share}


def bare(framework: str, spool: Path) -> dict[str, float]:
    """One run of the bare loop in the same environment, on the same request."""
    environment = environments.ensure(project.load(framework))
    threads = json.loads((spool / "request.json").read_text())["hardware"]["threads"]
    variables = worker_variables(Path(environment.binaries), import_folder(environment.home), threads)
    loop = Path(__file__).parent / f"loop_{framework}.py"
    command = [environment.python, loop, spool / "request.json", str(WARMUP), str(STEPS)]
    done = subprocess.run(command, env=variables, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """(geometric mean, low, high) of the ratios, 95 %, by Student's t over their logarithms."""
    logs = [math.log(ratio) for ratio in ratios]
    middle = statistics.fmean(logs)
    half = student.ppf(0.975, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)


def compare(framework: str, folder: Path) -> str:
    """The framework's line."""
    wall: list[float] = []
    cpu: list[float] = []
    controller: list[float] = []
    spool, _ = ours(framework, folder)  # builds the environment, fills the page cache
    while len(wall) < MAX_PAIRS:
        if len(wall) % 2:
            spool, mine = ours(framework, folder)
            theirs = bare(framework, spool)
        else:
            theirs = bare(framework, spool)
            spool, mine = ours(framework, folder)
        wall.append(theirs["seconds"] / mine["seconds"])
        cpu.append(theirs["cpu_s"] / mine["cpu_s"])
        controller.append(mine["controller"])
        print(f"{framework} pair {len(wall)}: wall {wall[-1]:.3f}, CPU {cpu[-1]:.3f}", file=sys.stderr, flush=True)
        if len(wall) >= MIN_PAIRS:
            middle, low, high = interval(wall)
            if high / middle - 1 <= WITHIN and 1 - low / middle <= WITHIN:
                return line(framework, interval(wall), "wall time a step", len(wall), controller)
    noisy = "CPU time a step: the machine is too noisy for wall time"
    return line(framework, interval(cpu), noisy, len(cpu), controller)


def line(framework: str, found: tuple[float, float, float], what: str, pairs: int, controller: list[float]) -> str:
    middle, low, high = found
    known = [share for share in controller if not math.isnan(share)] or [math.nan]
    return (
        f"{framework} ratio {middle:.3f} (95 %: {low:.3f} to {high:.3f}, {what}, {pairs} pairs); "
        f"controller {statistics.median(known):.2%} of a core"
    )


def main() -> None:
    for framework in sys.argv[1:] or FRAMEWORKS:
        with tempfile.TemporaryDirectory() as folder:
            print(compare(framework, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
