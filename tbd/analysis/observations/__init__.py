"""The TBD paper's thirteen observations (Zhu et al., IISWC 2018), each a question to the runs at hand: a file each.

The observations are recalled from the paper's body, and worded anew. What its abstract says is marked as such.
"""

from collections.abc import Callable

from tbd.analysis.evidence import Evidence
from tbd.analysis.finding import Finding
from tbd.analysis.observations import (
    batch_fills_units,
    batch_gain,
    batch_keeps_busy,
    cpu_use,
    faster_gpu,
    fastest_framework,
    feature_maps,
    lstm_utilisation,
    memory_efficiency,
    network,
    recurrent_saturation,
    recurrent_units,
    slow_kernels,
)

OBSERVATIONS: tuple[Callable[[Evidence], Finding], ...] = (
    batch_gain.finding,
    recurrent_saturation.finding,
    fastest_framework.finding,
    batch_keeps_busy.finding,
    lstm_utilisation.finding,
    batch_fills_units.finding,
    recurrent_units.finding,
    slow_kernels.finding,
    cpu_use.finding,
    faster_gpu.finding,
    feature_maps.finding,
    memory_efficiency.finding,
    network.finding,
)


def all_findings(evidence: Evidence) -> list[Finding]:
    return [observation(evidence) for observation in OBSERVATIONS]
