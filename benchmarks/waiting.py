"""What it takes or saves that waiting threads sleep (docs/environments.md), in each framework.

    wall, CPU = seconds of the same steps with sleeping threads / with the libraries' own way of waiting

Below 1, sleeping takes less. As in models.py both are alive at once and train in turns, a round of four batches at a
time, in whole processes of their own. The figure is the median over the rounds, beside it the lowest and the highest.

    python benchmarks/waiting.py [--frameworks cntk] [--models resnet50 seq2seq] [--python FRAMEWORK=INTERPRETER ...]
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import models as bench

from tbd import frameworks
from tbd.launch import environments
from tbd.launch.variables import WAITING

# small: where operators take long, how threads wait matters little
OPTIONS = {"resnet50": {"size": "small"}, "seq2seq": {"size": "small", "width": 64}}
BATCH_SIZE = 16


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", default=list(OPTIONS), choices=list(OPTIONS))
    parser.add_argument("--frameworks", nargs="+", default=frameworks.names())
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--python", nargs="*", default=[], metavar="FRAMEWORK=INTERPRETER")
    return parser.parse_args()


def compared(python: str, job: dict, rounds: int) -> dict[str, list[float]]:
    """The ratios of the rounds."""
    ways = {"asleep": WAITING, "own": {}}
    sides = {way: bench.Side(python, dict(job, variables=variables)) for way, variables in ways.items()}
    found: dict[str, list[float]] = {"seconds": [], "cpu_s": []}
    try:
        for side in sides.values():
            side.answer()
        for number in range(rounds):
            took = {}
            for way in sorted(sides, reverse=bool(number % 2)):
                took[way] = sides[way].block(1)
                time.sleep(bench.SETTLE_S)
            for what, ratios in found.items():
                ratios.append(took["asleep"][what] / took["own"][what])
    finally:
        for side in sides.values():
            side.end()
    return found


def main() -> None:
    arguments = parsed()
    pythons = bench.pairs_of(arguments.python)
    print("| framework | model | wall | CPU |\n|---|---|---|---|")
    for framework in arguments.frameworks:
        python = pythons.get(framework) or environments.ensure(framework).python
        for model in arguments.models:
            job = {"side": "ours", "model": model, "framework": framework, "options": OPTIONS[model]}
            job.update(batch_size=BATCH_SIZE, device="cpu", precision="fp32", threads=arguments.threads)
            job["compile"] = frameworks.facts(framework).COMPILE[0]
            found = compared(python, job, arguments.rounds)
            print(f"| {framework} | {model} | " + " | ".join(map(text, found.values())) + " |", flush=True)


def text(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


if __name__ == "__main__":
    main()
