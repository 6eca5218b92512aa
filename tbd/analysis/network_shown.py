"""A study of networks in words, as a picture and as a table."""

import math
from typing import Any

from tbd.analysis.charts import Line, Lines
from tbd.analysis.network_study import Study
from tbd.measure.network import GBIT_IN_BYTE, Fit

OTHER_SPEEDS = (0.1, 1.0, 10.0, 25.0, 100.0)  # Gbit/s, of which the model is asked


def words(study: Study, fit: Fit) -> str:
    """The model's parameters, up to which speed the network is the bottleneck, and how far the model can be trusted."""
    step = fit.step
    compute, overlap = (f"{seconds * 1e3:.1f} ms" for seconds in step)
    enough = f"{step.enough_bytes_per_s(study.sent_bytes) * GBIT_IN_BYTE:.2g} Gbit/s"
    if not fit.fast_enough:
        found = f"compute {compute} or less, overlap as much less than {overlap}, as steps waited at every speed"
        found += (
            f": a faster link may give more than is predicted; the network is the bottleneck up to {enough} at least"
        )
    elif not fit.slow_enough:
        found = f"compute {compute}, overlap {overlap} or more, as steps waited at no speed; {enough} are enough"
    else:
        found = f"compute {compute}, overlap {overlap}; the network is the bottleneck up to {enough}"
    text = f"{study.label}, batch {study.batch}: {found}"
    left_out = [abs(error) for error in fit.left_out if error is not None]
    return text + (f"; left out, a speed is predicted within {max(left_out):.0%}." if left_out else ".")


def chart(study: Study, fit: Fit) -> Lines:
    """Measured throughput over the link's speed, and the model from half of the slowest to twice the fastest."""

    def rate(gbit: float) -> float:
        return study.items / fit.step.seconds(study.sent_bytes * GBIT_IN_BYTE / gbit)

    speeds = [float(f"{speed.gbit:.3g}") for speed in study.speeds]
    low, high = math.log2(speeds[0] / 2), math.log2(speeds[-1] * 2)
    modelled = [float(f"{2 ** (low + (high - low) * part / 24):.3g}") for part in range(25)]
    measured = [speed.items / speed.point.step_s for speed in study.speeds]
    lines = [Line("measured", speeds, measured), Line("model", modelled, [rate(gbit) for gbit in modelled])]
    title = f"Throughput over the network's speed, {study.nodes} machines"
    title += "; dashed: one device" if study.single else ""
    unit = f"{study.unit}/s"
    return Lines(title, "Gbit/s", unit, {f"{study.label}, batch {study.batch} on each": lines}, study.single)


def rows(study: Study, fit: Fit) -> list[dict[str, Any]]:
    """A row for each speed that was measured, and for others what the model says."""

    def row(
        network: str, gbit: float, step_s: float, modelled_s: float | None, left_out: float | None
    ) -> dict[str, Any]:
        rate = study.items / step_s
        return {
            "run": f"{study.label}, {study.batch}",
            "machines": study.nodes,
            "network": network,
            "Gbit/s": f"{gbit:.3g}",
            "step ms": f"{step_s * 1e3:.1f}",
            "throughput": f"{rate:,.4g} {study.unit}/s",
            "by one device": f"{rate / study.single:.2f} times" if study.single else "",
            "model ms": "" if modelled_s is None else f"{modelled_s * 1e3:.1f}",
            "left out": "" if left_out is None else f"{left_out:+.1%}",
        }

    found = [
        row(speed.network, speed.gbit, speed.point.step_s, fit.step.seconds(speed.point.transfer_s), left_out)
        for speed, left_out in zip(study.speeds, fit.left_out, strict=True)
    ]
    others = [gbit for gbit in OTHER_SPEEDS if all(abs(gbit / speed.gbit - 1) > 0.2 for speed in study.speeds)]
    for gbit in others:
        found.append(row("predicted", gbit, fit.step.seconds(study.sent_bytes * GBIT_IN_BYTE / gbit), None, None))
    return found
