"""What it costs that waiting threads sleep (docs/environments.md): each framework's own way against a worker's.

    wall, CPU = seconds of the same steps with asleep / with the framework's own way: below 1, sleeping takes less

Whole processes of both ways train our network in alternation; the ratio is the median over the pairs, and beside it are
the lowest and the highest.

    python benchmarks/waiting.py [--frameworks cntk] [--models resnet50 seq2seq] [--python FRAMEWORK=INTERPRETER ...]
"""

import argparse
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import models as bench

from tbd import frameworks
from tbd.launch import environments
from tbd.launch.variables import WAITING

OPTIONS = {"resnet50": {"image_size": 64}, "seq2seq": {"width": 128, "source_vocabulary": 2000}}
BATCH_SIZE = 16


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", default=list(OPTIONS), choices=list(OPTIONS))
    parser.add_argument("--frameworks", nargs="+", default=frameworks.names())
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--python", nargs="*", default=[], metavar="FRAMEWORK=INTERPRETER")
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    pythons = bench.pairs_of(arguments.python)
    print("| framework | model | wall | CPU |\n|---|---|---|---|")
    for framework in arguments.frameworks:
        python = pythons.get(framework) or environments.ensure(framework).python
        for model in arguments.models:
            job = {"side": "ours", "model": model, "framework": framework, "options": OPTIONS[model]}
            job.update(batch_size=BATCH_SIZE, device="cpu", precision="fp32", compile=None)
            job.update({key: getattr(arguments, key) for key in ("threads", "warmup", "steps")})
            found: dict[str, list[float]] = {"seconds": [], "cpu_s": []}
            for number in range(arguments.pairs):
                ways = {"own": {}, "asleep": WAITING}
                order = sorted(ways, reverse=bool(number % 2))
                taken = {way: bench.run(python, job, ways[way]) for way in order}
                for what, ratios in found.items():
                    ratios.append(taken["asleep"][what] / taken["own"][what])
            print(f"| {framework} | {model} | " + " | ".join(map(text, found.values())) + " |", flush=True)


def text(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


if __name__ == "__main__":
    main()
