"""Our networks against the best public implementation of each in the same framework (benchmarks/peers), on one machine.

    ratio = our items/s / the peer's items/s: above 1, ours is faster

Both sides are started together, a process each, and train in turns, a block of a few seconds at a time, ours first in
every second pair: what else happens on the machine falls on both alike. One program started twice differs by up to 5 %
in its speed, for its whole life, by where its memory happens to lie: so all is done in several launches. The ratio is
the median over all pairs of blocks; low and high are the lowest and highest median of a launch. On a busy machine look
at the ratio of CPU seconds, beside it on a CPU.

    python benchmarks/models.py [--models resnet50 seq2seq] [--frameworks pytorch] [--device gpu] [--precision bf16]

--compile best runs each side in each of the framework's ways of compiling once and then takes its fastest. Peers run in
an environment of their own, which is made at the first use; --python FRAMEWORK=INTERPRETER names a ready one that has
both the framework and benchmarks/peers/requirements-FRAMEWORK.txt. --output FOLDER keeps models.md and models.json.

--small is a first look at all models on two cores, about a minute a comparison: SMALL's batches and inputs, the usual
way of compiling, one launch of six pairs of short blocks. Its ratios are within 5 % or so: look again, without it, at
what is below 1.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tbd import frameworks, models
from tbd.frameworks.base import cpu_name
from tbd.launch.variables import WAITING

HERE = Path(__file__).parent
SIDE = HERE / "side.py"
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
SIDES = ("ours", "peer")
TRIAL_ROUNDS = 4  # that a way of compiling is judged by
# {model: (batch size, options)}: the whole networks, a step of a second or less on two cores
SMALL = {
    "a3c": (16, {}),
    "deep_speech2": (2, {"synthetic_length": 24}),
    "faster_rcnn": (1, {"shorter": 200, "longer": 320, "regions": 16, "proposals": 100}),
    "inception_v3": (2, {}),  # its auxiliary head needs the full size
    "resnet50": (16, {"image_size": 64}),
    "seq2seq": (8, {}),
    "transformer": (128, {}),
    "wgan": (2, {"image_size": 32}),
}
SMALL_LAUNCHES, SMALL_PAIRS, SMALL_BLOCK_S = 1, 6, 1.5
SETTLE_S = 0.3  # where threads spin after their work, it is for 0.2 s (KMP_BLOCKTIME's default)
HEADER = ("model", "framework", "precision", "batch", "unit", "ours/s", "peer/s", "ratio", "low", "high", "CPU", "peer")


class Failed(Exception):
    """A side's process ended without a result; the message is the last line of what it said."""


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", default=models.names(), metavar="MODEL")
    parser.add_argument("--frameworks", nargs="+", default=frameworks.names(), metavar="FRAMEWORK")
    parser.add_argument("--device", default="cpu", choices=("cpu", "gpu"))
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--compile", help="best (the default), usual, or one of the framework's own: docs/precision.md")
    parser.add_argument("--batch-size", type=int, help="the model's default for the device where it isn't given")
    parser.add_argument("--option", nargs="*", default=[], metavar="NAME=VALUE", help="of the models: image_size=64")
    parser.add_argument("--small", action="store_true", help="a first look; what is given beside it counts")
    parser.add_argument("--launches", type=int, help="3")
    parser.add_argument("--pairs", type=int, help="of blocks in a launch: 8")
    parser.add_argument("--block-s", type=float, help="3.0")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--python", nargs="*", default=[], metavar="FRAMEWORK=INTERPRETER")
    parser.add_argument("--output", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    usual = (SMALL_LAUNCHES, SMALL_PAIRS, SMALL_BLOCK_S, "usual") if arguments.small else (3, 8, 3.0, "best")
    for name, value in zip(("launches", "pairs", "block_s", "compile"), usual, strict=True):
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    return arguments


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


class Side:
    """side.py at work on a job. Raises Failed where it ends before it was told to."""

    def __init__(self, python: str, job: dict) -> None:
        variables = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", **dict.fromkeys(THREADS, str(job["threads"])))
        variables.update(job.get("variables", WAITING))
        variables["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # JAX would take most of the GPU, which both sides share
        self.job, self.said = job, tempfile.TemporaryFile("w+")  # noqa: SIM115, it lives as long as the process
        self.process = subprocess.Popen(
            [python, str(SIDE), json.dumps(job)], env=variables, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said,
        )  # fmt: skip

    def answer(self) -> dict:
        """The next that it prints."""
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        self.said.seek(0)
        last = (self.said.read().strip().splitlines() or ["?"])[-1]
        raise Failed(f"{self.job['side']}, compile={self.job['compile']}: {last}")

    def block(self, rounds: int) -> dict:
        print(rounds, file=self.process.stdin, flush=True)
        return self.answer()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def fastest(python: str, job: dict, ways: tuple[str, ...]) -> str:
    """The way of compiling in which a side takes the least time; ways in which it can't run are left out."""
    seconds, causes = {}, []
    for way in ways if len(ways) > 1 else ():
        side = Side(python, dict(job, compile=way))
        try:
            side.answer()
            seconds[way] = side.block(TRIAL_ROUNDS)["seconds"]
        except Failed as failed:
            causes.append(str(failed))
        finally:
            side.end()
    if not seconds and causes:
        raise Failed("; ".join(causes))
    return min(seconds, key=seconds.__getitem__) if seconds else ways[0]


def compare(python: str, job: dict, ways: tuple[str, ...], arguments: argparse.Namespace) -> dict:
    """The medians of both sides and of their ratio."""
    chosen = {side: fastest(python, dict(job, side=side), ways) for side in SIDES}
    launches = []
    for number in range(arguments.launches):
        launches.append(launch(python, [dict(job, side=s, compile=chosen[s]) for s in SIDES], arguments))
        print(f"  launch {number + 1}: {median_ratio(launches[-1:]):.3f}", file=sys.stderr, flush=True)
    each = [median_ratio([one]) for one in launches]
    return {
        "unit": launches[0]["unit"],
        "compile": chosen,
        "ours_per_s": rate(launches, "ours"),
        "peer_per_s": rate(launches, "peer"),
        "ratio": median_ratio(launches),
        "low": min(each),
        "high": max(each),
        "cpu_ratio": median_ratio(launches, "cpu_s"),
        "launches": launches,
    }


def launch(python: str, jobs: list[dict], arguments: argparse.Namespace) -> dict:
    """Both sides at once, in turns: {"unit", "items" of a block, "ours" and "peer": what each block took}."""
    sides = {job["side"]: Side(python, job) for job in jobs}
    try:
        described = [side.answer() for side in sides.values()]
        for side in sides.values():
            first = side.block(1)  # its threads slept since its warm-up
        rounds = max(1, round(arguments.block_s / first["seconds"]))
        found: dict[str, list[dict]] = {name: [] for name in SIDES}
        for number in range(arguments.pairs):
            for name in SIDES if number % 2 else reversed(SIDES):
                found[name].append(sides[name].block(rounds))
                time.sleep(SETTLE_S)
    finally:
        for side in sides.values():
            side.end()
    return {"unit": described[0]["unit"], "items": described[0]["items"] * rounds, **found}


def median_ratio(launches: list[dict], what: str = "seconds") -> float:
    """The peer's time / our time, of each pair of blocks: the batches are the same."""
    pairs = [pair for one in launches for pair in zip(one["ours"], one["peer"], strict=True)]
    return statistics.median(peer[what] / ours[what] for ours, peer in pairs)


def rate(launches: list[dict], side: str) -> float:
    """Items a second, the median over the blocks."""
    return statistics.median(one["items"] / block["seconds"] for one in launches for block in one[side])


def row(model: str, framework: str, arguments: argparse.Namespace) -> dict:
    """One comparison as the JSON keeps it; with `failed`, the cause, where there is none."""
    small, options = SMALL[model] if arguments.small else (None, {})
    size = arguments.batch_size or small or default_batch_size(model, arguments.device)
    begun = {"model": model, "framework": framework, "precision": arguments.precision, "batch_size": size}
    begun["device"] = arguments.device
    if not (HERE / "peers" / framework / f"{model}.py").is_file():
        return dict(begun, failed="no peer is written")
    ways = frameworks.facts(framework).COMPILE
    if arguments.compile != "best":
        ways = ways[:1] if arguments.compile == "usual" else (arguments.compile,)
    job = {
        **begun,
        "options": {**options, **{name: valued(text) for name, text in pairs_of(arguments.option).items()}},
        "threads": arguments.threads,
    }
    try:
        found = compare(interpreter(framework, pairs_of(arguments.python)), job, ways, arguments)
    except Failed as failed:
        return dict(begun, failed=str(failed))
    return dict(begun, **found, options=job["options"], source=source_of(framework, model))


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


def page(rows: list[dict], arguments: argparse.Namespace) -> str:
    """The table with what it needs to be read."""
    options = {one["model"]: one["options"] for one in rows if one.get("options")}
    inputs = "".join(f" {model}: {', '.join(f'{k}={v}' for k, v in of.items())}." for model, of in options.items())
    return f"""# Against public implementations

Written by `make bench-models`. ratio = our items/s / the peer's items/s, in turns in one launch: above 1, ours is
faster. It is the median over all pairs of blocks; low and high are those of single launches; CPU is the same ratio of
CPU seconds.

{arguments.launches} launches of {arguments.pairs} pairs of blocks of {arguments.block_s:g} s on {arguments.device};
{arguments.threads} threads of {cpu_name()}.{inputs}

{table(rows)}"""


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
                (arguments.output / "models.md").write_text(page(rows, arguments))
                (arguments.output / "models.json").write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows), end="")


if __name__ == "__main__":
    main()
