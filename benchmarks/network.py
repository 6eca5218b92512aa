"""What the network costs, on the test cluster of two nodes (make cluster), at several speeds of its links; as root.

1. All-reduces of known bytes by gloo against 2 (n - 1) / n x bytes / rate, the rate what the link leaves for them.
2. A small ResNet-50 in each framework on one node and on two: against the model that is fitted to the other speeds, and
   against what is predicted from one device alone.

    python benchmarks/network.py [--rates 100mbit 1gbit] [--frameworks pytorch] [--steps 30] [--output FOLDER]
                                 [--python FRAMEWORK=INTERPRETER ...]

Both nodes are this machine, a core each: a rank has one thread, on one node and on two. Writes data.json, index.md and
network.png into FOLDER (docs/results/network). About 10 minutes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from models import pairs_of

from tbd.analysis.network_study import Study, studies
from tbd.analysis.runs import Library
from tbd.launch import environments
from tbd.measure.network import GBIT_IN_BYTE, Link, Step, ring_s

ROOT = Path(__file__).parent.parent
RATES = ("100mbit", "300mbit", "1gbit", "10gbit")
FRAMEWORKS = ("pytorch", "tensorflow", "mxnet")
SIZES = ("1", "4", "16")  # MB
# 2.05 MB of gradients: 0.17 s at 100 Mbit/s, long against the step's computation; 2 ms at 10 Gbit/s
MODEL = ("model=resnet50", "model.size=small", "model.width=16", "batch_size=8")
FIRST, PORT = "198.18.0.11", "29511"  # node 1 of cluster/slurm.sh
# Of an Ethernet frame of 1514 bytes 1448 are TCP's with its time stamps: 14 are Ethernet's, 20 IP's, 32 TCP's
PAYLOAD = 1448 / 1514
SLURM = str(ROOT / "cluster" / "slurm.sh")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rates", nargs="+", default=RATES)
    parser.add_argument("--frameworks", nargs="+", default=FRAMEWORKS)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--runs", type=Path, default=Path("runs-network"), metavar="FOLDER", help="(runs-network)")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "results" / "network", metavar="FOLDER")
    parser.add_argument("--python", nargs="*", default=[], metavar="FRAMEWORK=INTERPRETER")
    return parser.parse_args()


def cluster(*command: str, limit_s: float = 600.0) -> str:
    """What the command printed, run within the cluster's network."""
    state = os.environ.get("STATE", "/run/tbd-cluster")
    variables = {**os.environ, "SLURM_CONF": f"{state}/slurm.conf", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [SLURM, "run", *command], env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        timeout=limit_s, check=True,
    )  # fmt: skip
    return done.stdout


def set_rate(rate: str) -> float:
    """Set the links' rate; gives Gbit/s."""
    subprocess.run([SLURM, "rate", rate], check=True)
    return float(rate[:-4]) / (1000 if rate.endswith("mbit") else 1)


def all_reduces(python: str, rates: list[str]) -> list[dict[str, Any]]:
    rows = []
    for rate in rates:
        gbit = set_rate(rate)
        said = cluster("srun", "--nodes=2", "--ntasks-per-node=1", python, str(ROOT / "benchmarks" / "allreduce.py"),
                       FIRST, PORT, *SIZES, limit_s=120)  # fmt: skip
        told = json.loads(said.splitlines()[-1])
        for size, seconds in told["seconds"].items():
            formula = ring_s(told["ranks"], float(size) * 1e6, Link(gbit * PAYLOAD / GBIT_IN_BYTE, 0.0))
            measured = statistics.median(seconds)
            rows.append(
                {"rate": rate, "mb": float(size), "measured_ms": measured * 1e3, "formula_ms": formula * 1e3,
                 "error": measured / formula - 1}
            )  # fmt: skip
    return rows


def train(framework: str, python: str, rate: str, options: argparse.Namespace) -> None:
    set_rate(rate)
    cluster(
        sys.executable, "-m", "tbd.train", "-m", "experiment=network", *MODEL, f"framework={framework}",
        f"framework.python={python}", "hardware.device=cpu", "hardware.threads=1", f"hardware.network={rate}",
        f"measure.steps={options.steps}", "measure.peak=false", "tracking=offline", "sweep.force=true",
        f"tracking.runs={options.runs}",
    )  # fmt: skip


def trainings(found: list[Study], runs: list[Any]) -> list[dict[str, Any]]:
    """A row for each framework and speed."""
    rows = []
    for study in found:
        framework = study.label.split()[1]
        alone = [run for run in runs if run.framework == framework and run.params["hardware.nodes"] == "1"]
        single_s = statistics.median(run.metrics["step_time_mean_ms"] for run in alone) / 1e3
        left_out = study.fit.left_out if study.fit else [None] * len(study.speeds)
        for speed, error in zip(study.speeds, left_out, strict=True):
            exchange_s = ring_s(2, study.sent_bytes, Link(speed.point.bytes_per_s, speed.latency_s))
            predicted_s = Step(single_s, 0.0).seconds(exchange_s)
            rows.append(
                {
                    "framework": framework, "network": speed.network, "tried_gbit_per_s": speed.gbit,
                    "one_node": statistics.median(run.metrics["throughput"] for run in alone),
                    "two_nodes": speed.items / speed.point.step_s, "step_ms": speed.point.step_s * 1e3,
                    "model_error": None if error is None else 1 / (1 + error) - 1,
                    "from_one_device_error": speed.point.step_s / predicted_s - 1,
                }
            )  # fmt: skip
    return rows


def picture(rows: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.add_subplot()
    for number, framework in enumerate(dict.fromkeys(row["framework"] for row in rows)):
        own = [row for row in rows if row["framework"] == framework]
        x = [row["tried_gbit_per_s"] for row in own]
        axes.plot(x, [row["two_nodes"] for row in own], marker="osD^"[number], color=f"C{number}", label=framework)
        axes.axhline(own[0]["one_node"], color=f"C{number}", linestyle="--", linewidth=0.8)
    axes.set(xscale="log", xlabel="Gbit/s between the nodes", ylabel="images/s", ylim=(0, None))
    axes.set_title("Two nodes over the network's speed; dashed: one node", loc="left", fontsize=10)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=130)


def percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:+.1f} %"


def page(data: dict[str, Any], command: str) -> str:
    lines = [
        "# The network, measured",
        "",
        f"`{command}` on {data['machine']}. Two nodes in network namespaces of one machine, a core each, links shaped "
        "by tbf. How: [What the network costs](../../network.md).",
        "",
        "All-reduce of known bytes by gloo, two ranks, the median of 5; the formula: bytes / (rate x 1448 / 1514).",
        "",
        "| link | MB | measured ms | formula ms | error |",
        "|---|---|---|---|---|",
    ]
    for row in data["all_reduces"]:
        numbers = f"{row['measured_ms']:.1f} | {row['formula_ms']:.1f} | {percent(row['error'])}"
        lines.append(f"| {row['rate']} | {row['mb']:g} | {numbers} |")
    lines += [
        "",
        "Small ResNet-50 (width 16, 2.05 MB of gradients), batch 8 on each node, one thread a rank. Errors are of the "
        "throughput that is predicted, against the measured: by the model fitted to the other speeds, and by one "
        "device's step and a ring with nothing beside it.",
        "",
        "| framework | link | tried Gbit/s | one node, images/s | two nodes | by one | left out | from one device |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in data["trainings"]:
        gain = row["two_nodes"] / row["one_node"]
        lines.append(
            f"| {row['framework']} | {row['network']} | {row['tried_gbit_per_s']:.3g} | {row['one_node']:.1f} "
            f"| {row['two_nodes']:.1f} | {gain:.2f} | {percent(row['model_error'])} "
            f"| {percent(row['from_one_device_error'])} |"
        )
    lines += ["", *data["models"], "", "![Throughput over the network's speed](network.png)"]
    return "\n".join(lines) + "\n"


def main() -> None:
    from tbd.analysis import network_shown

    options = parsed()
    options.runs = options.runs.absolute()
    pythons = pairs_of(options.python)
    pythons |= {name: str(environments.ensure(name).python) for name in options.frameworks if name not in pythons}
    data: dict[str, Any] = {"machine": f"{os.cpu_count()} cores"}
    data["all_reduces"] = all_reduces(pythons["pytorch"], options.rates) if "pytorch" in pythons else []
    for framework in options.frameworks:
        for rate in options.rates:
            train(framework, pythons[framework], rate, options)
    runs = Library(options.runs).matching("tags.tbd.hardware = 'multi_node'")
    found = studies(runs)
    data["trainings"] = trainings(found, runs)
    data["models"] = [f"- {network_shown.words(study, study.fit)}" for study in found if study.fit]
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "data.json").write_text(json.dumps(data, indent=1) + "\n")
    (options.output / "index.md").write_text(page(data, "python benchmarks/network.py"))
    picture(data["trainings"], options.output / "network.png")
    print(page(data, "python benchmarks/network.py"))


if __name__ == "__main__":
    main()
