"""Our networks against the best public implementation of each in the same framework (benchmarks/peers), on one machine.

    ratio = our items/s / the peer's items/s: above 1, ours is faster

Of each model and framework whole processes of both sides train in alternation, ours first in every second pair. The
ratio is the median over the pairs; the true median lies between the lowest and the highest of n pairs with a
probability of 1 - 2^(1 - n), 97 % for 6. On a busy machine look at the ratio of CPU seconds, beside it on a CPU.

    python benchmarks/models.py [--models resnet50 seq2seq] [--frameworks pytorch] [--device gpu] [--precision bf16]

--compile best runs each side in each of the framework's ways of compiling once and then takes its fastest. Peers run in
an environment of their own, which is made at the first use; --python FRAMEWORK=INTERPRETER names a ready one that has
both the framework and benchmarks/peers/requirements-FRAMEWORK.txt. --output FOLDER keeps models.md and models.json.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tbd import frameworks, models

HERE = Path(__file__).parent
SIDE = HERE / "side.py"
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
HEADER = ("model", "framework", "precision", "batch", "unit", "ours/s", "peer/s", "ratio", "low", "high", "CPU", "peer")


class Failed(Exception):
    """A side's process ended without a result; the message is the last line of what it said."""


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", default=models.names(), metavar="MODEL")
    parser.add_argument("--frameworks", nargs="+", default=frameworks.names(), metavar="FRAMEWORK")
    parser.add_argument("--device", default="cpu", choices=("cpu", "gpu"))
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--compile", default="best", help="best, or one of the framework's own: docs/precision.md")
    parser.add_argument("--batch-size", type=int, help="the model's default for the device where it isn't given")
    parser.add_argument("--option", nargs="*", default=[], metavar="NAME=VALUE", help="of the models: image_size=64")
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--python", nargs="*", default=[], metavar="FRAMEWORK=INTERPRETER")
    parser.add_argument("--output", type=Path, metavar="FOLDER")
    return parser.parse_args()


def pairs_of(words: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words)


def valued(text: str) -> object:
    """A number where the text is one."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def interpreter(framework: str, named: dict[str, str]) -> str:
    if framework in named:
        return named[framework]
    from tbd.launch import environments, project

    return environments.ensure(project.load(HERE / "peers" / framework, (project.VERIFY,))).python


def default_batch_size(model: str, device: str) -> int:
    import yaml

    with open(HERE.parent / "conf" / "model" / f"{model}.yaml") as file:
        return int(yaml.safe_load(file)["default_batch_size"][device])


def run(python: str, job: dict) -> dict:
    """The result of one side's process."""
    variables = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", **dict.fromkeys(THREADS, str(job["threads"])))
    command = [python, str(SIDE), json.dumps(job)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"{job['side']}, compile={job['compile']}: {(done.stderr.strip() or '?').splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def fastest(python: str, job: dict, ways: tuple[str, ...]) -> str:
    """The way of compiling in which a side takes the least time; ways in which it can't run are left out."""
    seconds, causes = {}, []
    for way in ways if len(ways) > 1 else ():
        try:
            seconds[way] = run(python, dict(job, compile=way))["seconds"]
        except Failed as failed:
            causes.append(str(failed))
    if not seconds and causes:
        raise Failed("; ".join(causes))
    return min(seconds, key=seconds.__getitem__) if seconds else ways[0]


def compare(python: str, job: dict, ways: tuple[str, ...], pairs: int) -> dict:
    """The medians of both sides and of their ratio."""
    chosen = {side: fastest(python, dict(job, side=side), ways) for side in ("ours", "peer")}
    found: dict[str, list[dict]] = {"ours": [], "peer": []}
    for number in range(pairs):
        for side in ("ours", "peer") if number % 2 else ("peer", "ours"):
            found[side].append(run(python, dict(job, side=side, compile=chosen[side])))
        print(f"  pair {number + 1}: {ratios(found, 'seconds')[-1]:.3f}", file=sys.stderr, flush=True)
    ratio, cpu = ratios(found, "seconds"), ratios(found, "cpu_s")
    rates = {s: statistics.median(one["items"] / one["seconds"] for one in found[s]) for s in found}
    return {
        "unit": found["ours"][0]["unit"],
        "compile": chosen,
        "ours_per_s": rates["ours"],
        "peer_per_s": rates["peer"],
        "ratio": statistics.median(ratio),
        "low": min(ratio),
        "high": max(ratio),
        "cpu_ratio": statistics.median(cpu),
        "runs": found,
    }


def ratios(found: dict[str, list[dict]], what: str) -> list[float]:
    """The peer's time / our time, of each pair: the batches are the same."""
    return [theirs[what] / mine[what] for mine, theirs in zip(found["ours"], found["peer"], strict=True)]


def row(model: str, framework: str, arguments: argparse.Namespace) -> dict:
    """One comparison as the JSON keeps it; with `failed`, the cause, where there is none."""
    size = arguments.batch_size or default_batch_size(model, arguments.device)
    begun = {"model": model, "framework": framework, "precision": arguments.precision, "batch_size": size}
    begun["device"] = arguments.device
    if not (HERE / "peers" / framework / f"{model}.py").is_file():
        return dict(begun, failed="no peer is written")
    ways = frameworks.facts(framework).COMPILE if arguments.compile == "best" else (arguments.compile,)
    job = {
        **begun,
        "options": {name: valued(text) for name, text in pairs_of(arguments.option).items()},
        **{key: getattr(arguments, key) for key in ("threads", "warmup", "steps")},
    }
    try:
        found = compare(interpreter(framework, pairs_of(arguments.python)), job, ways, arguments.pairs)
    except Failed as failed:
        return dict(begun, failed=str(failed))
    return dict(begun, **found, source=source_of(framework, model))


def source_of(framework: str, model: str) -> str:
    """SOURCE of a peer, read without its framework."""
    import ast

    for statement in ast.parse((HERE / "peers" / framework / f"{model}.py").read_text()).body:
        if isinstance(statement, ast.Assign) and statement.targets[0].id == "SOURCE":
            return ast.literal_eval(statement.value)
    return "?"


def cells(one: dict) -> tuple[str, ...]:
    """The row of the table."""
    named = (one["model"], one["framework"], one["precision"], str(one["batch_size"]))
    if "failed" in one:
        return (*named, *[""] * 7, one["failed"])
    figures = [f"{one[key]:.3g}" for key in ("ours_per_s", "peer_per_s")]
    figures += [f"{one[key]:.3f}" for key in ("ratio", "low", "high")]
    cpu = f"{one['cpu_ratio']:.3f}" if one["device"] == "cpu" else ""
    modes = ", ".join(f"{side} {way}" for side, way in one["compile"].items())
    return (*named, one["unit"], *figures, cpu, f"{one['source']} ({modes})")


def table(rows: list[dict]) -> str:
    """The rows in Markdown."""
    lines = [HEADER, ["---"] * len(HEADER), *map(cells, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def main() -> None:
    arguments = parsed()
    rows = []
    for model in arguments.models:
        for framework in arguments.frameworks:
            if framework not in models.frameworks(model):
                continue
            print(f"{model} in {framework}", file=sys.stderr, flush=True)
            rows.append(row(model, framework, arguments))
            if arguments.output:  # after each, so that nothing measured is lost
                arguments.output.mkdir(parents=True, exist_ok=True)
                (arguments.output / "models.md").write_text(table(rows))
                (arguments.output / "models.json").write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows), end="")


if __name__ == "__main__":
    main()
