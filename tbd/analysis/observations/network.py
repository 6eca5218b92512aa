"""Observation 13: across machines, the network must be fast enough for scaling."""

from collections import defaultdict

from tbd.analysis.evidence import Evidence, percent, times
from tbd.analysis.finding import FAILS, HOLDS, UNKNOWN, Finding, Missing
from tbd.analysis.missing import sweep
from tbd.analysis.network_study import NETWORK
from tbd.analysis.pictures import bars
from tbd.analysis.scaling import Scaled, scaled
from tbd.analysis.values import above, ratio

CLAIM = "Network bandwidth must be large enough for scaling across machines."
PAPER = "Recalled: over 1 Gb Ethernet several machines were slower than one GPU; over InfiniBand and PCIe they scaled."
OVER_A_NETWORK = "experiment=network hardware.network=NAME hardware.nodes=1,2"
CRITERION = (
    "Where the same model ran on as many machines over two networks: the efficiency over the one is below that over "
    "the other, beyond the intervals. Efficiency: throughput by that of one device with the same batch, by the number "
    "of devices."
)


def finding(evidence: Evidence) -> Finding:
    found = [one for one in scaled(evidence) if one.nodes > 1]
    told = [_differ(group) for group in _alike(found) if len(group) > 1]
    verdict = HOLDS if True in told else FAILS if told and None not in told else UNKNOWN
    text = {
        HOLDS: "The same runs scale differently over different networks.",
        FAILS: "The networks make no difference to these runs.",
        UNKNOWN: "It takes runs on several machines over two networks, and on one device.",
    }[verdict]
    rows = [
        {
            "run": one.curve.label,
            "network": network(one),
            "devices": one.devices,
            "batch on each": one.batch,
            "by one device": times(one.speedup),
            "efficiency": percent(one.efficiency),
        }
        for one in found
    ]
    efficiency = [(f"{one.curve.label} {network(one)}", 100 * one.efficiency.value) for one in found]
    missing = [
        Missing("one device of the same kind", sweep("resnet50", evidence.runs, on="single_gpu", batch_sizes=())),
        Missing(
            "several machines, and one beside them, over each network that there is (docs/network.md)",
            sweep("resnet50", evidence.runs, on="multi_node", batch_sizes=(), more=OVER_A_NETWORK),
        ),
    ]
    return Finding(
        13, CLAIM, PAPER, CRITERION, verdict, text, rows,
        bars("Efficiency over several machines", "%", efficiency, 100.0), [] if told else missing,
    )  # fmt: skip


def network(one: Scaled) -> str:
    run = one.curve.points[one.batch][-1]
    return run.tags.get(NETWORK, "network not known")


def _alike(found: list[Scaled]) -> list[list[Scaled]]:
    """Those that differ in the network alone, as far as the settings tell."""
    groups: dict[object, list[Scaled]] = defaultdict(list)
    for one in found:
        key = one.curve.model, one.curve.framework, one.batch, one.devices, one.nodes
        groups[key].append(one)
    return list(groups.values())


def _differ(group: list[Scaled]) -> bool | None:
    """Whether the best and the worst differ; None where their intervals don't tell, or the networks are not known."""
    if len({network(one) for one in group}) < 2:
        return None
    ordered = sorted(group, key=lambda one: one.efficiency.value)
    return above(ratio(ordered[-1].efficiency, ordered[0].efficiency), 1) or None
