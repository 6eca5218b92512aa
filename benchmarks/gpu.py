"""Whole runs on one GPU in every framework and precision at hand, and whether their figures can be right. No network.

    python benchmarks/gpu.py [--python /path/to/python] [--frameworks pytorch jax] [--models resnet50] [--steps 30]

One interpreter must have all the frameworks asked for, since it stands for their environments: by default the one that
runs this. Prints a line a run and a line a check that failed; the exit code is 1 where one did. Checked are

- the categories of memory against the allocator's peak, to 1 %, and without the libraries' workspace to 3 %;
- weights and optimizer state to the byte;
- the device's times of the steps against the window's wall time;
- utilisation within (0, 1], mfu too; on a busy GPU what the trace tells, against the GPU's own counters, to 10 points;
- the GPU's UUID by the framework against the controller's;
- losses: finite, and the first within the products' rounding of that in fp32.

--diagnoses makes two runs that are bad on purpose, a small network on batches of 2, and a large one on pictures that
one process decodes, and looks whether the first is said to wait for launches and the second for data.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

from tbd import frameworks, models

# Of the first loss against fp32's: some units of the products' rounding, 2^-11 (TF32, fp16) and 2^-8 (bf16).
LOSS = {"fp32": 0.0, "fp64": 1e-4, "tf32": 8 * 2**-11, "fp16": 8 * 2**-11, "bf16": 8 * 2**-8}
BUSY = 0.9  # of the time: a kernel runs nearly always


def train(folder, python, model, framework, precision, compiler, arguments, overrides=()):
    """How the command of one run ended, and the run's spool."""
    command = [sys.executable, "-m", "tbd.train", f"model={model}", f"framework={framework}", f"precision={precision}"]
    command += [f"compile={compiler}", f"hardware={arguments.hardware}", "data=synthetic", "tracking=offline"]
    command += [f"framework.python={python}", f"measure.steps={arguments.steps}", *overrides, *arguments.overrides]
    root = str(pathlib.Path(__file__).parent.parent)
    paths = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        command, cwd=folder, env=dict(os.environ, PYTHONPATH=paths), capture_output=True, text=True, check=False
    )
    (spool,) = [path.parent for path in pathlib.Path(folder).glob("runs/*/run.json")]
    return done, spool


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def wrong(spool, model, precision, fp32_loss):
    """What can't be right of a run's figures, a line each."""
    figures = json.loads((spool / "figures.json").read_text())
    metrics, worker, controller = figures["metrics"], lines(spool / "events.jsonl"), lines(spool / "controller.jsonl")
    found = [f"warning: {text}" for text in figures["warnings"]]
    asked = json.loads((spool / "request.json").read_text())
    for name in ("throughput", "step_time_p50_ms", "mfu", "gpu_compute_utilization", "memory/peak_mb", "loss_last"):
        unmeasured = name.startswith("memory") and asked["compile"] in ("inductor",)
        if name not in metrics and not unmeasured:
            found.append(f"no {name}: {figures['absent'].get(name)}")
    for name in ("mfu", "gpu_compute_utilization"):
        if not 0 < metrics.get(name, 1) <= 1:
            found.append(f"{name} is {metrics[name]}")
    if "memory/peak_mb" in metrics:
        peak, untracked = metrics["memory/peak_mb"], metrics["memory/untracked_mb"]
        buffers = json.loads((spool / "memory.json").read_text()).get("buffers", [])
        libraries = sum(buffer["bytes"] for buffer in buffers if buffer.get("name") == "libraries") / 1e6
        for what, value, most in (("untracked", untracked, 0.01), ("with the libraries'", untracked + libraries, 0.03)):
            if abs(value) > most * peak:
                found.append(f"{what} {value:.1f} of {peak:.1f} MB: {value / peak:.1%}, more than {most:.0%}")
        told = next(event for event in worker if event["event"] == "model")
        for name in ("weights", "optimizer_state"):
            if round(metrics[f"memory/{name}_mb"] * 1e6) != told[f"{name}_bytes"]:
                found.append(f"{name}: {metrics[f'memory/{name}_mb'] * 1e6:.0f} bytes, not {told[f'{name}_bytes']}")
    busy, counted = metrics.get("gpu_compute_utilization", 0), metrics.get("sm_utilization")
    if busy > BUSY and counted is not None and abs(busy - counted) > 0.1:
        found.append(f"by the trace the GPU is busy {busy:.0%} of the time, by its counters {counted:.0%}")
    if asked["hardware"]["device"] != "gpu":
        return found, metrics
    window = next(event for event in worker if event["event"] == "window")
    ends = [e["end"] for e in worker if e["event"] == "step_ends" and e["phase"] == "timed"]
    if not ends or len(ends[0]) != window["steps"]:
        found.append("the device's times of the timed steps are not there")
    elif not window["begin"] <= ends[0][0] <= ends[0][-1] <= window["end"] + 1e-3:
        found.append(f"steps from {ends[0][0]} to {ends[0][-1]}, window from {window['begin']} to {window['end']}")
    devices = next(event["devices"] for event in worker if event["event"] == "framework")
    sampled = next(event["devices"] for event in controller if event["event"] == "gpus")
    if [d.get("uuid") for d in devices] != [d["uuid"] for d in sampled]:
        found.append(f"the framework has {devices}, the controller samples {sampled}")
    if fp32_loss is not None and abs(metrics["loss_first"] / fp32_loss - 1) > LOSS[precision]:
        found.append(f"the first loss is {metrics['loss_first']}, in fp32 {fp32_loss}")
    return found, metrics


def diagnoses(arguments):
    """Whether both of the runs that are bad on purpose are told as what they are."""
    from PIL import Image

    from tbd.analysis.bottleneck import bottleneck
    from tbd.analysis.curves import curves
    from tbd.analysis.runs import of_spool
    from tbd.tracking.spool import Spool

    pictures = pathlib.Path(tempfile.mkdtemp(prefix="tbd-gpu-"))
    for number in range(64):
        folder = pictures / "train" / f"class{number % 4}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.frombytes("RGB", (500, 375), os.urandom(500 * 375 * 3)).save(folder / f"{number}.JPEG", quality=90)
    small = ("model=resnet50", "model.size=small", "batch_size=2")
    slow = ("model=resnet50", "batch_size=64", "data=imagenet", f"data.root={pictures}", "data.workers=1")
    right = True
    for overrides, expected in ((small, "launch overhead"), (slow, "data")):
        for framework in arguments.frameworks:
            folder = tempfile.mkdtemp(prefix="tbd-gpu-")
            compiler = frameworks.facts(framework).COMPILE[0]
            done, spool = train(folder, arguments.python, "resnet50", framework, "bf16", compiler, arguments, overrides)
            if done.returncode != 0:
                right = False
                print(f"{framework}, {' '.join(overrides)} ended with {done.returncode}:", done.stderr[-1500:])
                continue
            (curve,) = curves([of_spool(Spool.open(spool))])
            (batch,) = curve.points
            name, evidence, _ = bottleneck(curve, batch)
            right = right and name == expected
            print(f"{framework}, {' '.join(overrides[:3])}: {name} ({evidence}), expected {expected}", flush=True)
    return right


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--frameworks", nargs="+", default=["pytorch", "jax", "tensorflow"])
    parser.add_argument("--models", nargs="+", default=["resnet50", "seq2seq"])
    parser.add_argument("--precisions", nargs="+", default=["fp32", "tf32", "bf16", "fp16"])
    parser.add_argument("--compilers", action="store_true", help="every value of compile, not the usual alone")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--hardware", default="single_gpu")
    parser.add_argument("--keep", help="a folder for the spools")
    parser.add_argument("overrides", nargs="*", help="key=value for every run")
    parser.add_argument("--diagnoses", action="store_true", help="only the two runs that are bad on purpose")
    arguments = parser.parse_args()
    if arguments.diagnoses:
        return 0 if diagnoses(arguments) else 1
    failed = False
    print(f"{'run':44} {'items/s':>10} {'p50 ms':>8} {'p99 ms':>8} {'mfu':>6} {'util':>6} {'peak MB':>8} {'loss':>8}")
    for model in arguments.models:
        for framework in arguments.frameworks:
            if framework not in models.frameworks(model):
                continue
            facts, fp32_loss = frameworks.facts(framework), None
            for compiler in facts.COMPILE if arguments.compilers else facts.COMPILE[:1]:
                for precision in [p for p in arguments.precisions if p in facts.PRECISIONS["gpu"]]:
                    title = f"{model} {framework} {precision} {compiler}"
                    folder = arguments.keep and os.path.join(arguments.keep, title.replace(" ", "-"))
                    folder = folder or tempfile.mkdtemp(prefix="tbd-gpu-")
                    os.makedirs(folder, exist_ok=True)
                    done, spool = train(folder, arguments.python, model, framework, precision, compiler, arguments)
                    if done.returncode != 0:
                        failed = True
                        print(f"{title:44} ended with {done.returncode}:", done.stderr[-1500:], flush=True)
                        print((spool / "worker.log").read_text()[-3000:] if (spool / "worker.log").exists() else "")
                        continue
                    found, metrics = wrong(spool, model, precision, fp32_loss)
                    fp32_loss = metrics["loss_first"] if precision == "fp32" else fp32_loss
                    shown = [
                        ("throughput", "10.1f"), ("step_time_p50_ms", "8.2f"), ("step_time_p99_ms", "8.2f"),
                        ("mfu", "6.3f"), ("gpu_compute_utilization", "6.3f"), ("memory/peak_mb", "8.0f"),
                        ("loss_last", "8.4f"),
                    ]  # fmt: skip
                    row = (format(metrics.get(name, float("nan")), form) for name, form in shown)
                    print(f"{title:44}", *row, flush=True)
                    for text in found:
                        failed = failed or not text.startswith("warning")
                        print("   ", text, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
