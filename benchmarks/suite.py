"""The suite on one device, the most telling runs first, for as long as there is time: how docs/results/ is made.

    python benchmarks/suite.py --results docs/results/h200 [--seconds 900] [--frameworks pytorch] [--report]

The same command goes on where it stopped, on another day or another machine of the kind too: a run that is in the
folder is not made again. A line a run, with what can't be right of its figures (gpu.py) below it. In the folder are

    runs/MODEL-FRAMEWORK-PRECISION-bBATCH.tar.xz    a run's folder, without its trace and what can be computed again
    report.html, report.csv, tables.md              of all of them, by tbd.report: with --report

Each framework's environment is its own, or with --python FRAMEWORK=INTERPRETER a ready one.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.gpu import wrong
from tbd import frameworks

ROOT = Path(__file__).parent.parent
# What of a run is kept: enough to compute all but the figures of its trace and its memory again, and those are in
# figures.json.
KEPT = (
    "run.json", "request.json", "config.yaml", "environment.txt", "events.jsonl", "controller.jsonl", "figures.json",
)  # fmt: skip
# By what they say of each other: convolutions against recurrence and attention first, as the paper's findings do.
MODELS = ("resnet50", "seq2seq", "inception_v3", "transformer", "wgan", "a3c", "faster_rcnn", "deep_speech2")
FRAMEWORKS = ("pytorch", "jax", "tensorflow")
# Two batch sizes a model, the usual first, and for the models whose batch is swept the others.
BATCHES = {
    "resnet50": (64, 16), "inception_v3": (64, 16), "seq2seq": (128, 32), "transformer": (4096, 1024), "wgan": (64, 16),
    "a3c": (32, 128), "faster_rcnn": (1, 2), "deep_speech2": (32, 8),
}  # fmt: skip
SWEPT = {
    "resnet50": (128, 32, 256, 8), "seq2seq": (512, 8, 1024, 256), "inception_v3": (128, 32, 8),
    "transformer": (16384, 256, 32768, 8192),
}  # fmt: skip
# Milliseconds of a step at the usual batch on an H200 in bf16, roughly: how many steps fill the window. Energy and the
# GPU's counters are read every two seconds, and three readings must lie within.
STEP_MS = {
    "resnet50": 20, "inception_v3": 35, "seq2seq": 15, "transformer": 25, "wgan": 100, "a3c": 3, "faster_rcnn": 70,
    "deep_speech2": 60,
}  # fmt: skip
WINDOW_S = 8.0


class Job(NamedTuple):
    model: str
    framework: str
    precision: str
    batch_size: int

    @property
    def name(self) -> str:
        return f"{self.model}-{self.framework}-{self.precision}-b{self.batch_size}"

    @property
    def steps(self) -> int:
        usual = BATCHES[self.model][0]
        slower = 2 if self.precision == "fp32" else 1
        return max(30, round(WINDOW_S * 1e3 / (STEP_MS[self.model] * slower * max(1, self.batch_size / usual))))


def jobs() -> list[Job]:
    """Every run of the suite, the most telling first."""
    found = []
    for number, precision in ((0, "bf16"), (0, "fp32"), (1, "bf16"), (1, "fp32"), (0, "tf32"), (1, "tf32")):
        found += [
            Job(model, framework, precision, BATCHES[model][number])
            for framework in FRAMEWORKS for model in MODELS
        ]  # fmt: skip
    for sizes in itertools.zip_longest(*SWEPT.values()):
        found += [
            Job(model, framework, "bf16", size)
            for framework in FRAMEWORKS for model, size in zip(SWEPT, sizes, strict=True) if size
        ]  # fmt: skip
    return found


def train(job: Job, arguments: argparse.Namespace, folder: Path) -> tuple[int, Path | None, str]:
    """(exit code, the run's folder, the last lines that it said)."""
    command = [sys.executable, "-m", "tbd.train", f"model={job.model}", f"framework={job.framework}"]
    command += [f"precision={job.precision}", f"batch_size={job.batch_size}", f"measure.steps={job.steps}"]
    command += [f"hardware={arguments.hardware}", "data=synthetic", "tracking=offline", f"tracking.runs={folder}"]
    if job.framework in arguments.python:
        command += [f"framework.python={arguments.python[job.framework]}"]
    done = subprocess.run([*command, *arguments.overrides], cwd=ROOT, capture_output=True, text=True, check=False)
    spool = next((path.parent for path in folder.glob("*/run.json")), None)
    return done.returncode, spool, "\n".join(done.stderr.strip().splitlines()[-12:])


def keep(spool: Path, archive: Path) -> None:
    """Pack what is kept of the run; the archive is there whole or not at all."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    partial = archive.with_suffix(".partial")
    with tarfile.open(partial, "w:xz") as packed:
        for name in KEPT:
            if (spool / name).exists():
                packed.add(spool / name, f"{spool.name}/{name}")
    partial.replace(archive)


def unpack(results: Path, folder: Path) -> None:
    """All runs of the results into the folder, as tracking.runs has them."""
    for archive in sorted((results / "runs").glob("*.tar.xz")):
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")


def report(results: Path) -> int:
    """Write the results' report; gives its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        unpack(results, Path(folder, "runs"))
        command = [sys.executable, "-m", "tbd.report", "--output", "report.html"]
        variables = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
        print(done.stdout, done.stderr, sep="")
        for name in ("report.html", "report.csv") if done.returncode == 0 else ():
            (results / name).write_bytes(Path(folder, name).read_bytes())
        if done.returncode == 0:
            (results / "tables.md").write_text(tables(Path(folder, "runs"), done.stdout))
    return done.returncode


def tables(runs: Path, said: str) -> str:
    """The runs' figures and the verdicts that tbd.report printed, in Markdown."""
    lines = ["| run | steps | " + " | ".join(title for _, title, _ in COLUMNS) + " |"]
    lines.append("|---|" + "---:|" * (len(COLUMNS) + 1))
    for spool in sorted(path.parent for path in runs.glob("*/run.json")):
        figures, asked = (json.loads((spool / f"{name}.json").read_text()) for name in ("figures", "request"))
        made = Job(asked["model"]["name"], asked["framework"]["name"], asked["precision"], asked["batch_size"])
        lines.append(f"| {made.name} | {asked['measure']['steps']} | " + " | ".join(shown(figures["metrics"])) + " |")
    findings = [line.strip() for line in said.splitlines() if line[:3].strip(" .").isdigit()]
    return "# Figures\n\n" + "\n".join(lines) + "\n\n## Findings\n\n" + "\n".join(findings) + "\n"


def shown(metrics: dict[str, float]) -> list[str]:
    """The run's figures in COLUMNS; "-" where it has none."""
    return [format(metrics[name], form) if name in metrics else "-" for name, _, form in COLUMNS]


COLUMNS = (  # a figure, its heading, its form
    ("throughput", "items/s", ".1f"), ("step_time_p50_ms", "p50 ms", ".2f"), ("mfu", "mfu", ".3f"),
    ("gpu_compute_utilization", "util", ".3f"), ("sm_utilization", "sm", ".3f"),
    ("tensor_utilization", "tensor", ".3f"), ("fp32_utilization", "fp32", ".3f"),
    ("memory/peak_mb", "peak MB", ".1f"), ("memory/feature_maps_share", "maps", ".3f"),
    ("energy_j_per_item", "J/item", ".4f"),
)  # fmt: skip


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--results", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no run after these")
    parser.add_argument("--models", nargs="+", default=MODELS, metavar="MODEL")
    parser.add_argument("--frameworks", nargs="+", default=FRAMEWORKS, metavar="FRAMEWORK")
    parser.add_argument("--precisions", nargs="+", default=("bf16", "fp32", "tf32"), metavar="PRECISION")
    parser.add_argument("--batches", nargs="+", type=int, metavar="SIZE", help="these of the suite's alone")
    parser.add_argument("--hardware", default="single_gpu")
    parser.add_argument("--python", nargs="*", default=[], metavar="FRAMEWORK=INTERPRETER")
    parser.add_argument("--list", action="store_true", help="only say what there is to do")
    parser.add_argument("--report", action="store_true", help="write the report at the end")
    parser.add_argument("--overrides", nargs="*", default=[], metavar="KEY=VALUE", help="for every run")
    found = parser.parse_args()
    found.python = dict(word.split("=", 1) for word in found.python)
    return found


def main() -> int:
    arguments, begun, failed = parsed(), time.monotonic(), False
    device = "cpu" if arguments.hardware == "cpu" else "gpu"
    chosen = [
        job for job in jobs()
        if job.model in arguments.models and job.framework in arguments.frameworks
        and job.precision in arguments.precisions
        and job.precision in frameworks.facts(job.framework).PRECISIONS[device]
        and (not arguments.batches or job.batch_size in arguments.batches)
        and not (arguments.results / "runs" / f"{job.name}.tar.xz").exists()
    ]  # fmt: skip
    print(f"{len(chosen)} runs to make")
    if arguments.list:
        print(*(job.name for job in chosen), sep="\n")
        return 0
    print(f"{'run':38} {'took s':>6}", *(f"{title:>8}" for _, title, _ in COLUMNS))
    for job in chosen:
        if time.monotonic() - begun > arguments.seconds:
            print(f"out of time before {job.name}")
            break
        since = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            code, spool, said = train(job, arguments, Path(folder))
            took = time.monotonic() - since
            if code != 0 or spool is None:
                failed = True
                print(f"{job.name:38} {took:6.1f}  ended with {code}: {said}", flush=True)
                continue
            found, metrics = wrong(spool, job.model, job.precision, None)
            print(f"{job.name:38} {took:6.1f}", *(f"{text:>8}" for text in shown(metrics)), flush=True)
            for text in found:
                failed = failed or not text.startswith("warning")
                print("   ", text, flush=True)
            keep(spool, arguments.results / "runs" / f"{job.name}.tar.xz")
    if arguments.report:
        failed = report(arguments.results) != 0 or failed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
