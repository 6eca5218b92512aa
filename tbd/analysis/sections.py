"""What the report shows of the runs beside the observations: a function for each part."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tbd.analysis import network_shown
from tbd.analysis.advice import Advice
from tbd.analysis.charts import Bars, Chart
from tbd.analysis.curves import Curve
from tbd.analysis.evidence import Evidence, percent, shown, times, units_metric
from tbd.analysis.network_study import studies
from tbd.analysis.operators import operators
from tbd.analysis.pictures import bars, over_batches, unit_of
from tbd.analysis.scaling import scaled
from tbd.analysis.suite import SUITE
from tbd.measure.memory import CATEGORIES
from tbd.worker import status

KERNELS = 5  # of each curve, the longest


@dataclass(frozen=True)
class Section:
    """`anchor`: its place in the page. `text`: what whoever reads it must know. `rows`: a table."""

    anchor: str
    title: str
    text: str
    charts: Sequence[Chart] = ()
    rows: Sequence[Mapping[str, Any]] = ()


def suite(evidence: Evidence) -> Section:
    text = "Of each model, framework and setting the batch with the highest throughput, with its 95 % interval."
    return Section("suite", "The suite", text, (), [_best(curve) for curve in evidence.curves if _fastest(curve)])


def _fastest(curve: Curve) -> int | None:
    rates = curve.values("throughput")
    return max(rates, key=lambda size: rates[size].value, default=None)


def _best(curve: Curve) -> dict[str, Any]:
    batch = _fastest(curve)
    assert batch is not None

    def at(metric: str) -> Any:
        return curve.values(metric).get(batch)

    return {
        "field": SUITE[curve.model].field if curve.model in SUITE else "",
        "run": curve.label,
        "version": curve.settings.get("framework_version", ""),
        "device": curve.settings.get("device_names") or curve.settings.get("hardware.name", ""),
        "batch": batch,
        "throughput": f"{shown(at('throughput'), form=',.4g')} {unit_of(curve, 'throughput')}",
        "device busy": percent(at("gpu_compute_utilization" if curve.on_gpu else "cpu_utilization")),
        "of the peak": percent(at(units_metric(curve))),
        "memory": f"{shown(at('memory/peak_mb'), form=',.0f')} MB" if at("memory/peak_mb") else "",
        "loss": " to ".join(shown(at(name), form=".3g") for name in ("loss_first", "loss_last") if at(name)),
    }


def throughput(evidence: Evidence) -> Section:
    text = "Items by wall time, without padding, over all timed steps; upright lines are 95 % intervals."
    charts = over_batches("Throughput over the batch size", evidence.single, "throughput")
    return Section("throughput", "Throughput against the batch", text, charts)


def utilisation(evidence: Evidence) -> Section:
    text = (
        "GPU compute utilisation: kernels active, of the unprofiled time of the traced steps. Use of the units: the "
        "counter of those that the precision works on where one was read, else model FLOPs by the measured peak (mfu)."
    )
    charts = [
        *over_batches("GPU compute utilisation over the batch size", evidence.gpu, "gpu_compute_utilization"),
        *over_batches("Use of the arithmetic units over the batch size", evidence.single, units_metric),
    ]
    return Section("utilisation", "Utilisation", text, charts)


def cpu(evidence: Evidence) -> Section:
    text = "CPU seconds of the worker's processes in the window, of the cores that the run may use."
    charts = over_batches("CPU utilisation over the batch size", evidence.single, "cpu_utilization")
    return Section("cpu", "CPU", text, charts)


def memory(evidence: Evidence) -> Section:
    """Of each curve at its largest batch."""
    names: list[str] = []
    parts: dict[str, list[float]] = {category: [] for category in CATEGORIES}
    for curve in evidence.single:
        largest = curve.largest("memory/peak_mb")
        if largest:
            names.append(f"{curve.label}, {largest[0]}")
            for category in CATEGORIES:
                found = curve.values(f"memory/{category}_mb").get(largest[0])
                parts[category].append(found.value if found else 0.0)
    text = "What is alive when memory is highest, at the largest batch of each. 1 MB is 10^6 bytes."
    words = {category.replace("_", " "): sizes for category, sizes in parts.items()}
    return Section("memory", "Memory", text, [Bars("Memory by data structure", "MB", names, words)] if names else ())


def scaling(evidence: Evidence) -> Section:
    found = scaled(evidence)
    text = "Throughput on several devices by that of one with the same batch on each."
    rows = [
        {
            "run": one.curve.label,
            "devices": one.devices,
            "machines": one.nodes,
            "batch on each": one.batch,
            "by one device": times(one.speedup),
            "efficiency": percent(one.efficiency),
            "waiting for others": percent(one.curve.values("communication_share").get(one.batch)),
        }
        for one in found
    ]
    shares = [
        (f"{one.curve.label}, {one.devices} devices, batch {one.batch}", 100 * one.efficiency.value) for one in found
    ]
    return Section("scaling", "Scaling", text, bars("Scaling efficiency", "%", shares, 100.0), rows)


def network(evidence: Evidence) -> Section:
    """Of each training over several networks the model that is fitted to it, and what it says of other speeds."""
    text = (
        "Step = compute + max(0, bytes / bandwidth - overlap): the bytes are what each node must send in a step, "
        "2 (n - 1) / n of the gradients, the bandwidth what one TCP connection between two nodes got before the run. "
        "Compute and overlap are fitted to all speeds, by least squares of the relative errors. Left out: what the fit "
        "to all others says of a speed, against what was measured. The network is the bottleneck no longer where a "
        "tenth of a step waits for it. Latency is in compute."
    )
    charts: list[Chart] = []
    rows: list[dict[str, Any]] = []
    for study in studies(evidence.runs):
        if study.fit is not None:
            charts.append(network_shown.chart(study, study.fit))
            rows += network_shown.rows(study, study.fit)
            text += " " + network_shown.words(study, study.fit)
    return Section("network", "Network", text, charts, rows)


def energy(evidence: Evidence) -> Section:
    text = "The device's energy for each item, by its own counter."
    charts = over_batches("Energy over the batch size", evidence.single, "energy_j_per_item", least=1)
    return Section("energy", "Energy", text, charts)


def kernels(evidence: Evidence) -> Section:
    text = (
        f"The {KERNELS} longest kernels, on a CPU operators, of each at its largest batch. Shares are of the time in "
        "all of them. Few operations: a kind that does little arithmetic for each number it reads, by its name."
    )
    rows = []
    for curve in evidence.single:
        batch = max(curve.points)
        for operator in operators(curve.points[batch][-1])[:KERNELS]:
            rows.append(
                {
                    "run": f"{curve.label}, {batch}",
                    "name": operator.name[:100],
                    "ms a step": f"{operator.ms_per_step:.4g}",
                    "share": f"{operator.share:.1%}",
                    "few operations": "yes" if operator.few_operations else "",
                }
            )
    return Section("kernels", "Kernels", text, (), rows)


def failures(evidence: Evidence) -> Section:
    text = "What did not end ok, with its cause. Out of memory is a result of a sweep over batches."
    rows = [
        {"run": run.name, "batch": run.batch_size, "status": run.status, "cause": run.tags.get("tbd.cause", "")}
        for run in evidence.runs
        if run.status != status.OK
    ]
    return Section("failures", "Other ends", text, (), rows)


def recommendations(found: Sequence[Advice]) -> Section:
    text = (
        "What holds each back, by its figures, and the change to try. The limits between the kinds are this project's. "
        "What a change gave is the throughput with it by that without it, where both were run."
    )
    rows = []
    for one in found:
        for number, attempt in enumerate(one.attempts or [None]):
            first = number == 0
            rows.append(
                {
                    "run": f"{one.curve.label}, {one.batch}" if first else "",
                    "bottleneck": one.bottleneck.name if first else "",
                    "evidence": one.bottleneck.evidence if first else "",
                    "try": str(attempt.change) if attempt else "",
                    "gave": "" if attempt is None else times(attempt.gave) or "not tried",
                    "command": attempt.command if attempt else "",
                }
            )
    return Section("recommendations", "What to try", text, (), rows)


SECTIONS: tuple[Callable[[Evidence], Section], ...] = (
    suite, throughput, utilisation, cpu, memory, scaling, network, energy, kernels, failures,
)  # fmt: skip
