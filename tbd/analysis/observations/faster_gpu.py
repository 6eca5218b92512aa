"""Observation 10: a faster GPU raises throughput, but is used less."""

from collections import defaultdict

from tbd.analysis.curves import Curve
from tbd.analysis.evidence import Evidence, percent, times
from tbd.analysis.finding import Case, Finding, Missing, of_all, rows, summary
from tbd.analysis.missing import sweep
from tbd.analysis.pictures import bars
from tbd.analysis.values import Value, above, both, ratio

CLAIM = "A faster GPU raises throughput, but lowers utilisation."
USE, PEAK = "gpu_compute_utilization", "peak_tflops_measured"
CRITERION = (
    "For every model, framework and setting that ran on two kinds of GPU, at the largest batch that both have: the one "
    "with the higher measured peak has the higher throughput, beyond the intervals, and its kernels are active for a "
    "smaller share of the time."
)
OF_A_DEVICE = ("device_names", "hardware.threads")


def finding(evidence: Evidence) -> Finding:
    alike: dict[tuple[tuple[str, str], ...], list[Curve]] = defaultdict(list)
    for curve in evidence.gpu:
        alike[tuple(sorted(item for item in curve.settings.items() if item[0] not in OF_A_DEVICE))].append(curve)
    cases = [case for curves in alike.values() for case in _cases(curves)]
    shares = [
        (f"{curve.model} {curve.framework} {curve.settings.get('device_names', '')}", 100 * largest[1].value)
        for curves in alike.values()
        if len(curves) > 1
        for curve in curves
        if (largest := curve.largest(USE))
    ]
    command = sweep("resnet50", evidence.runs, on="single_gpu")
    return Finding(
        10, CLAIM, "", CRITERION, of_all(cases),
        summary(cases, "No model has been run on two kinds of GPU with the same settings."), rows(cases),
        bars("GPU compute utilisation at the largest batch", "%", shares),
        [] if cases else [Missing("the same runs on a second kind of GPU, into the same MLflow", command)],
    )  # fmt: skip


def _cases(curves: list[Curve]) -> list[Case]:
    """Of each two neighbours in the order of their peaks."""
    peaked = [(largest[1].value, curve) for curve in curves if (largest := curve.largest(PEAK))]
    ordered = [curve for _, curve in sorted(peaked, key=lambda found: found[0])]
    return [case for slow, fast in zip(ordered, ordered[1:], strict=False) if (case := _case(slow, fast)) is not None]


def _case(slow: Curve, fast: Curve) -> Case | None:
    rates = slow.values("throughput"), fast.values("throughput")
    used: tuple[dict[int, Value], dict[int, Value]] = slow.values(USE), fast.values(USE)
    shared = [size for size in rates[0] if all(size in found for found in (rates[1], *used))]
    if not shared:
        return None
    size = max(shared)
    faster = ratio(rates[1][size], rates[0][size])
    row = {
        "slower": slow.settings.get("device_names", ""),
        "faster": fast.settings.get("device_names", ""),
        "batch": size,
        "throughput": times(faster),
        "kernels active": f"{percent(used[0][size])}, then {percent(used[1][size])}",
    }
    return Case(
        f"{slow.model} {slow.framework}", both(above(faster, 1), used[1][size].value < used[0][size].value), row
    )
