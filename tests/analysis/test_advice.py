"""What holds a run back, and what a change gave."""

from pathlib import Path
from typing import Any

import pytest

from tbd.analysis.advice import Advice, advice
from tbd.analysis.evidence import Evidence
from tbd.analysis.runs import Run
from tests.analysis.made import made, sweep, traced

GPU = {"hardware": "single_gpu"}


def told(runs: list[Run], batch: int = 8) -> Advice:
    return next(one for one in advice(Evidence(runs)) if one.batch == batch and one.curve.points[batch][-1] is runs[0])


@pytest.mark.parametrize(
    "figures, where, name, first",
    [
        ({"data_wait_share": 0.3}, {"params": {"data.name": "imagenet"}}, "data", "data=synthetic"),
        ({"data_wait_share": 0.3, "gpu_compute_utilization": 0.2}, GPU, "data", "batch_size=16"),
        ({"communication_share": 0.4, "data_wait_share": 0.01}, GPU, "network", "batch_size=16"),
        ({"gpu_compute_utilization": 0.4, "mfu": 0.1}, GPU, "launch overhead", "compile=inductor"),
        ({"gpu_compute_utilization": 0.95, "dram_utilization": 0.8}, GPU, "memory bandwidth", "compile=inductor"),
        ({"gpu_compute_utilization": 0.95, "mfu": 0.6}, GPU, "compute", "precision=tf32"),
        ({"cpu_utilization": 0.4, "mfu": 0.1}, {}, "launch overhead", "compile=inductor"),
        ({"cpu_utilization": 0.99, "mfu": 0.7}, {}, "compute", "precision=bf16"),
        ({"cpu_utilization": 0.99, "mfu": 0.2}, {}, "compute", "precision=bf16"),
        ({}, {}, "not known", None),
    ],
)
def test_the_bottleneck_is_named(
    figures: dict[str, float], where: dict[str, Any], name: str, first: str | None
) -> None:
    found = told([made("resnet50", 8, 100.0, **where, **figures)])
    assert found.bottleneck.name == name
    assert (str(found.attempts[0].change) if found.attempts else None) == first
    assert found.bottleneck.evidence


def test_operators_of_few_operations_mean_memory_bandwidth(tmp_path: Path) -> None:
    rows = [("aten::batch_norm", "cpu_op", 0.3), ("aten::relu_", "cpu_op", 0.2), ("aten::conv2d", "cpu_op", 0.5)]
    found = told([made("resnet50", 8, 100.0, cpu_utilization=0.99, mfu=0.2, folder=traced(tmp_path, rows))])
    assert found.bottleneck.name == "memory bandwidth"
    assert found.bottleneck.evidence.startswith("50% of the time")


def test_a_sweep_shows_that_the_batch_is_too_small() -> None:
    runs = sweep("resnet50", {8: 100.0, 16: 190.0, 32: 195.0}, cpu_utilization=0.99, mfu=0.2)
    small, middle, _ = advice(Evidence(runs))
    assert small.bottleneck.name == "batch too small"
    (attempt,) = small.attempts
    assert str(attempt.change) == "batch_size=16" and attempt.gave and attempt.gave.value == pytest.approx(1.9)
    assert middle.bottleneck.name == "compute"


def test_what_a_change_gave_is_told_where_it_was_tried() -> None:
    slow = made("resnet50", 8, 100.0, gpu_compute_utilization=0.4, **GPU)
    fast = made("resnet50", 8, 150.0, gpu_compute_utilization=0.9, mfu=0.6, compiler="inductor", **GPU)
    other = made("resnet50", 8, 999.0, compiler="inductor", precision="bf16", **GPU)
    found = told([slow, fast, other])
    gave = {str(attempt.change): attempt.gave for attempt in found.attempts}
    assert gave["compile=inductor"] is not None
    assert gave["compile=inductor"].value == pytest.approx(1.5)
    assert gave["compile=inductor"].low < 1.5 < gave["compile=inductor"].high
    assert gave["batch_size=16"] is None


def test_the_command_is_the_runs_own_with_the_change() -> None:
    run = made("resnet50", 8, 1.0, cpu_utilization=0.1, tags={"tbd.overrides": "model=resnet50 compile=eager seed=3"})
    assert told([run]).attempts[0].command == "python -m tbd.train model=resnet50 seed=3 compile=inductor"


def test_what_a_framework_can_not_do_is_not_advised() -> None:
    run = made("resnet50", 8, 1.0, framework="mxnet", cpu_utilization=0.99, mfu=0.7, compiler="symbol")
    assert [str(attempt.change) for attempt in told([run]).attempts] == []
    penalised = {"params": {"model.lipschitz": "gradient_penalty"}}
    run = made("wgan", 8, 1.0, gpu_compute_utilization=0.4, mfu=0.1, **penalised, **GPU)
    assert [str(attempt.change) for attempt in told([run]).attempts] == ["batch_size=16"]
    foreign = made("resnet50", 8, 1.0, framework="mine", cpu_utilization=0.1)
    assert [str(attempt.change) for attempt in told([foreign]).attempts] == ["batch_size=16"]
