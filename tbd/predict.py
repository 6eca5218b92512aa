"""python -m tbd.predict RUN --nodes 8,64 --bandwidth 10,100: how a measured training would do on more nodes."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tbd.analysis.runs import Run
    from tbd.measure.network import Step

EXIT_OK = 0
EXIT_ABSENT = 1  # the runs don't tell enough
EXIT_USAGE = 2


class Measured(NamedTuple):
    """What is taken from the runs. `size`: bytes of the gradients. `items`: of a step on one device. `latency_s`: None
    where no link was tried. `how`: where compute and overlap come from, in words."""

    run: "Run"
    step: "Step"
    size: float
    items: float
    devices: int
    latency_s: float | None
    how: str


def main(arguments: list[str] | None = None) -> int:
    """Gives the exit code: 0 predicted, 1 the runs don't tell enough, 2 wrong options or no such run."""
    parser = argparse.ArgumentParser(
        prog="python -m tbd.predict",
        description="Predict the throughput of a measured training on other numbers of nodes and over other links, by "
        "what an all-reduce takes in a ring and in trees. From a run on one device, from one on several nodes of which "
        "is known how long they waited, or from the runs of a study of networks: their model is fitted.",
        epilog="Exit code: 0 predicted, 1 the runs don't tell enough, 2 wrong options or no such run.",
    )
    parser.add_argument("run", metavar="RUN", help="a run or a sweep (id, name or folder), or a filter as in MLflow")
    parser.add_argument("--nodes", type=whole_numbers, default=[8, 64, 512], metavar="N,...", help="(8,64,512)")
    parser.add_argument(
        "--bandwidth", type=numbers, default=[10.0, 100.0, 400.0], metavar="GBIT,...",
        help="of a node's link, each way, in Gbit/s (10,100,400)",
    )  # fmt: skip
    parser.add_argument(
        "--latency-us",
        type=latency,
        metavar="US",
        help="of a message, one way (by default as the run's nodes tried it)",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--runs", type=Path, default=Path("runs"), metavar="FOLDER", help="where runs are (runs)")
    options = parser.parse_args(arguments)

    from tbd.analysis.runs import Library, NoRun
    from tbd.measure.events import Absent

    try:
        measured = taken(Library(options.runs).named(options.run))
        latency_s = measured.latency_s if options.latency_us is None else options.latency_us / 1e6
        if latency_s is None:
            raise Absent("no link was tried, so its latency must be given: --latency-us=N")
    except NoRun as error:
        print(f"tbd.predict: {error}", file=sys.stderr)
        return EXIT_USAGE
    except Absent as reason:
        print(f"tbd.predict: {options.run}: {reason}", file=sys.stderr)
        return EXIT_ABSENT
    rows = predicted(measured, options.nodes, options.bandwidth, latency_s)
    told = assumptions(measured, latency_s, options.latency_us is None)
    if options.json:
        print(json.dumps({"run": measured.run.id, "assumptions": told, "predictions": rows}, indent=1))
    else:
        show(measured, rows, told)
    return EXIT_OK


def whole_numbers(text: str) -> list[int]:
    found = [int(part) for part in text.split(",")]
    if min(found) < 1:
        raise argparse.ArgumentTypeError(f"{text}: each must be 1 or more")
    return found


def numbers(text: str) -> list[float]:
    found = [float(part) for part in text.split(",")]
    if not min(found) > 0:
        raise argparse.ArgumentTypeError(f"{text}: each must be above 0")
    return found


def latency(text: str) -> float:
    if not float(text) >= 0:
        raise argparse.ArgumentTypeError(f"{text}: it must be not below 0")
    return float(text)


def taken(runs: "Sequence[Run]") -> Measured:
    """The model of a step from these runs. Raises Absent where they don't tell it."""
    from tbd.analysis.network_study import studies
    from tbd.measure.events import Absent

    fitted = [study for study in studies(runs) if study.fit is not None]
    if len(fitted) > 1:
        names = ", ".join(f"{study.label}, batch {study.batch}" for study in fitted)
        raise Absent(f"they are studies of several trainings ({names}): a filter names one")
    ended = [run for run in runs if run.status == "ok"]
    if not ended:
        raise Absent("no run of these ended ok")
    several = [run for run in ended if world_size(run) > 1]
    run = (several or ended)[-1]
    size, devices = exchanged_bytes(run), int(run.params.get("hardware.devices", "1"))
    if fitted and fitted[0].fit is not None:
        study = fitted[0]
        latency_s = min(speed.latency_s for speed in study.speeds)
        how = f"fitted to runs on {study.nodes} nodes at {len(study.speeds)} speeds"
        if not study.fit.fast_enough:
            how += "; steps waited at every one of them, so a faster link may give more"
        return Measured(run, fitted[0].fit.step, size, study.items / study.nodes / devices, devices, latency_s, how)
    return of_one(run, size, devices)


def of_one(run: "Run", size: float, devices: int) -> Measured:
    """From one run: what its step computes, and how much of its exchange went on beside that where it is known."""
    from tbd.measure.events import Absent
    from tbd.measure.network import Step

    ranks, metrics = world_size(run), run.metrics
    if "step_time_mean_ms" not in metrics:
        raise Absent("the run has no step time")
    step_s = metrics["step_time_mean_ms"] / 1e3
    items = metrics["throughput"] * step_s / ranks
    latency_us = metrics.get("link_latency_us")
    latency_s = None if latency_us is None else latency_us / 1e6
    if ranks == 1:
        how = "a step on one device; no exchange is taken to go on beside it, the slowest case"
        return Measured(run, Step(step_s, 0.0), size, items, 1, latency_s, how)
    if not {"communication_share", "exchange_overlap_share"} <= metrics.keys():
        raise Absent(
            f"{run.framework} does not tell how long its ranks waited: name a run on one device, or runs at several "
            "speeds of the network"
        )
    waited_s = metrics["communication_share"] * step_s
    shown = metrics["exchange_overlap_share"]
    overlap_s = waited_s * shown / (1 - shown) if shown < 1 else step_s
    how = f"a step on {ranks} devices without its waits, and what of its exchange went on beside computation"
    return Measured(
        run, Step(step_s - waited_s, min(overlap_s, step_s - waited_s)), size, items, devices, latency_s, how
    )


def world_size(run: "Run") -> int:
    return int(run.params.get("hardware.devices", "1")) * int(run.params.get("hardware.nodes", "1"))


def exchanged_bytes(run: "Run") -> float:
    """Bytes of all gradients of a step, by the model's specification. Raises Absent where it has none here."""
    from tbd import models
    from tbd.frameworks.base import PRECISIONS
    from tbd.measure.events import Absent

    request = run.measured.request
    options = {key: value for key, value in request["model"].items() if key != "name"}
    if request["model"]["name"] not in models.names():
        raise Absent(f"how large the gradients of {request['model']['name']} are is not known: it has no specification")
    specification = models.create(request["model"]["name"], options)
    return float(specification.exchanged_bytes(PRECISIONS[request["precision"]].itemsize))


def predicted(
    measured: Measured, nodes: Sequence[int], bandwidths: Sequence[float], latency_s: float
) -> list[dict[str, Any]]:
    """A row for each number of nodes, bandwidth in Gbit/s and algorithm."""
    from tbd.measure.network import ALGORITHMS, GBIT_IN_BYTE, Link

    rows = []
    for count in nodes:
        for gbit in bandwidths:
            for name, seconds in ALGORITHMS.items():
                ranks = count * measured.devices
                exchange_s = seconds(ranks, measured.size, Link(gbit / GBIT_IN_BYTE, latency_s))
                step_s = measured.step.seconds(exchange_s)
                rows.append(
                    {
                        "nodes": count,
                        "devices": ranks,
                        "bandwidth_gbit_per_s": gbit,
                        "algorithm": name,
                        "exchange_ms": exchange_s * 1e3,
                        "step_ms": step_s * 1e3,
                        "throughput": ranks * measured.items / step_s,
                        "efficiency": measured.step.compute_s / step_s,
                    }
                )
    return rows


def assumptions(measured: Measured, latency_s: float, tried: bool) -> list[str]:
    step = measured.step
    return [
        f"compute {step.compute_s * 1e3:.4g} ms and overlap {step.overlap_s * 1e3:.4g} ms: {measured.how}",
        "step = compute + max(0, exchange - overlap); the same batch on each device",
        f"gradients {measured.size / 1e6:.4g} MB a step, exchanged at once; adding them takes no time",
        f"latency {latency_s * 1e6:.4g} us a message, one way" + (" (as tried over TCP)" if tried else " (given)"),
        "ring: 2 (n - 1) latency + 2 (n - 1) / n x bytes / bandwidth (Patarasuk and Yuan 2009; Thakur et al. 2005)",
        "tree: reduction, then broadcast, each over two binary trees: twice bytes / bandwidth + 2 h latency + sqrt(8 h "
        "latency bytes / bandwidth), h = ceil(log2 n) (Sanders, Speck and Traeff 2009)",
        "n counts devices; each link carries its full bandwidth each way at once, whoever else sends; the bandwidth is "
        "what is left for the bytes (over Ethernet about 5 % less than its name says)",
        "no device is slower than the measured one, now or then: with many, some always is",
    ]


def show(measured: Measured, rows: list[dict[str, Any]], told: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    from tbd.measure.metrics import number

    unit = measured.run.unit
    table = Table(title=f"Predicted: {measured.run.name}", title_justify="left")
    for heading in ("nodes", "Gbit/s", "algorithm", "exchange, ms", "step, ms", f"{unit}/s", "efficiency, %"):
        table.add_column(heading, justify="left" if heading == "algorithm" else "right")
    for row in rows:
        table.add_row(
            str(row["nodes"]), f"{row['bandwidth_gbit_per_s']:g}", row["algorithm"], number(row["exchange_ms"]),
            number(row["step_ms"]), number(row["throughput"]), f"{100 * row['efficiency']:.1f}",
        )  # fmt: skip
    console = Console()
    console.print(table)
    for line in told:
        console.print(f"- {line}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
