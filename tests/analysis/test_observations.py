"""Each of the thirteen observations on runs that are made to be for it, against it, or too few."""

import re
import shlex
from pathlib import Path

import pytest

from tbd.analysis.evidence import Evidence
from tbd.analysis.finding import FAILS, HOLDS, UNKNOWN, Finding
from tbd.analysis.observations import OBSERVATIONS, all_findings, rising
from tbd.analysis.runs import Run
from tbd.config.compose import compose_one, jobs_of
from tbd.config.plan import plan
from tests.analysis.made import made, sweep, traced

GPU = {"hardware": "single_gpu"}
SATURATING, RISING, FLAT = {8: 100.0, 16: 150.0, 32: 155.0}, {8: 100.0, 16: 150.0, 32: 240.0}, {8: 100.0, 16: 100.0}


def finding(number: int, runs: list[Run]) -> Finding:
    found = OBSERVATIONS[number - 1](Evidence(runs))
    assert found.number == number
    return found


def by_batch(metric: str, values: dict[int, float], model: str = "resnet50", **options: object) -> list[Run]:
    return [made(model, batch, 1.0, **{metric: value}, **options) for batch, value in values.items()]


def full(model: str, rates: dict[int, float]) -> list[Run]:
    """A sweep that ends out of memory. What ended early knows neither version nor device."""
    early = made(
        model, 2 * max(rates), status="out_of_memory", tags={"framework_version": "", "device_names": ""}, **GPU
    )
    return [*sweep(model, rates, **GPU), early]


def race(**winners: str) -> list[Run]:
    rates = {name: {True: 200.0, False: 100.0} for name in ("pytorch", "jax")}
    return [
        made(model, 8, rates[name][name == winner], framework=name, compiler=f"by {name}")
        for model, winner in winners.items()
        for name in rates
    ]


def gpus(use: float) -> list[Run]:
    slow = made("resnet50", 8, 100.0, device="Old", peak_tflops_measured=10.0, gpu_compute_utilization=0.9, **GPU)
    fast = made("resnet50", 8, 200.0, device="New", peak_tflops_measured=30.0, gpu_compute_utilization=use, **GPU)
    return [fast, slow]


def machines(slow: float, fast: float) -> list[Run]:
    several = {"hardware": "multi_node", "nodes": 2}
    return [
        made("resnet50", 8, 100.0, **GPU),
        made("resnet50", 8, slow, tags={"tbd.network": "1 Gb Ethernet"}, params={"seed": "1"}, **several),
        made("resnet50", 8, fast, tags={"tbd.network": "InfiniBand"}, params={"hardware.network": "ib0"}, **several),
    ]


SHARE = "memory__feature_maps_share_of_structures"
MAPS = "memory__feature_maps_highest_mb"


def maps(rates: dict[int, float], power: float = 1.0) -> list[Run]:
    return [made("resnet50", size, rate, **{MAPS: 10.0 * size**power}) for size, rate in rates.items()]


@pytest.mark.parametrize(
    "number, runs, verdict",
    [
        (1, [*sweep("resnet50", SATURATING), *sweep("wgan", SATURATING)], HOLDS),
        (1, [*sweep("resnet50", SATURATING), *sweep("wgan", {8: 100.0, 16: 90.0, 32: 80.0})], FAILS),
        (1, sweep("resnet50", {8: 100.0, 16: 150.0, 32: 250.0}), FAILS),  # it rises, but by more and more
        (1, sweep("resnet50", {8: 100.0, 16: 101.0, 32: 101.5}, noise=0.1), UNKNOWN),  # within the noise
        (1, sweep("resnet50", {8: 100.0, 16: 150.0}), UNKNOWN),
        (2, full("seq2seq", RISING), HOLDS),
        (2, full("seq2seq", SATURATING), FAILS),
        (2, sweep("seq2seq", RISING, **GPU), UNKNOWN),  # it has not run out of memory
        (2, full("resnet50", RISING), UNKNOWN),  # no recurrent model
        (3, race(resnet50="pytorch", wgan="jax"), HOLDS),
        (3, race(resnet50="jax", wgan="jax"), FAILS),
        (3, race(resnet50="jax"), UNKNOWN),
        (3, [*race(resnet50="jax"), *race(wgan="neither")], UNKNOWN),
        (4, by_batch("gpu_compute_utilization", {8: 0.4, 32: 0.9}, **GPU), HOLDS),
        (4, by_batch("gpu_compute_utilization", {8: 0.9, 32: 0.9}, **GPU), FAILS),
        (4, by_batch("gpu_compute_utilization", {8: 0.4}, **GPU), UNKNOWN),
        (5, [made("seq2seq", gpu_compute_utilization=0.4, **GPU), made(gpu_compute_utilization=0.9, **GPU)], HOLDS),
        (5, [made("seq2seq", gpu_compute_utilization=0.95, **GPU), made(gpu_compute_utilization=0.9, **GPU)], FAILS),
        (5, [made("seq2seq", gpu_compute_utilization=0.4, **GPU),
             made(gpu_compute_utilization=0.9, framework="jax", **GPU)], UNKNOWN),
        (6, by_batch("mfu", {8: 0.2, 32: 0.5}), HOLDS),
        (6, by_batch("mfu", {8: 0.2, 32: 0.205}), FAILS),
        (6, by_batch("fp32_utilization", {8: 0.5, 32: 0.4}, mfu=0.1, **GPU), FAILS),  # the counter goes before mfu
        (6, by_batch("mfu", {8: 0.2}), UNKNOWN),
        (7, [made("seq2seq", mfu=0.1), made("resnet50", mfu=0.3), made("inception_v3", mfu=0.3)], HOLDS),
        (7, [made("seq2seq", mfu=0.2), made("resnet50", mfu=0.3)], FAILS),
        (7, [made("resnet50", mfu=0.3)], UNKNOWN),
        (9, [made("a3c", cpu_utilization=0.5, **GPU), made("wgan", cpu_utilization=0.05, **GPU),
             made("resnet50", cpu_utilization=0.05, **GPU)], HOLDS),
        (9, [made("a3c", cpu_utilization=0.01, **GPU), made("wgan", cpu_utilization=0.05, **GPU)], FAILS),
        (9, [made("a3c", cpu_utilization=0.9), made("wgan", cpu_utilization=0.9)], UNKNOWN),  # a CPU is the device
        (10, gpus(0.6), HOLDS),
        (10, gpus(0.95), FAILS),
        (10, gpus(0.6)[:1], UNKNOWN),
        (11, [made(**{SHARE: 0.8}), made("wgan", **{SHARE: 0.6})], HOLDS),
        (11, [made(**{SHARE: 0.8}), made("wgan", **{SHARE: 0.4})], FAILS),
        (11, [made()], UNKNOWN),
        (12, maps(SATURATING), HOLDS),
        (12, maps(RISING), FAILS),
        (12, maps(SATURATING, power=0.2), FAILS),
        (12, sweep("resnet50", SATURATING), UNKNOWN),
        (13, machines(slow=60.0, fast=190.0), HOLDS),
        (13, machines(slow=60.0, fast=190.0)[:2], UNKNOWN),
    ],
)  # fmt: skip
def test_verdicts(number: int, runs: list[Run], verdict: str) -> None:
    found = finding(number, runs)
    assert found.verdict == verdict, found
    assert found.claim and found.criterion and found.summary
    if verdict == UNKNOWN and not found.rows:
        assert found.missing, "it must be said how to get there"


def test_the_longest_kernel_of_few_operations_is_named(tmp_path: Path) -> None:
    rows = [("conv", "cpu_op", 0.7), ("aten::batch_norm", "cpu_op", 0.2), ("aten::relu", "cpu_op", 0.01)]
    (case,) = finding(8, [made(folder=traced(tmp_path / "a", rows))]).rows
    assert case["longest of them"] == "aten::batch_norm, 20.0%" and case["for it"] == "yes"


def test_long_kernels_are_looked_for_on_the_device_alone(tmp_path: Path) -> None:
    rows = [("aten::batch_norm", "cpu_op", 0.9), ("sm90_xmma_gemm_relu", "kernel", 0.99), ("bn_fw", "kernel", 0.01)]
    assert finding(8, [made(folder=traced(tmp_path, rows), **GPU)]).verdict == FAILS
    assert finding(8, [made(folder=traced(tmp_path, rows))]).verdict == HOLDS
    assert finding(8, [made()]).verdict == UNKNOWN


def test_a_case_against_a_claim_is_named() -> None:
    found = finding(1, [*sweep("resnet50", SATURATING), *sweep("wgan", {8: 100.0, 16: 90.0, 32: 80.0})])
    assert found.summary == "1 of 2 are for it. Against it: wgan pytorch."


def test_what_does_not_fit_belongs_to_its_own_settings() -> None:
    other = made("seq2seq", 64, status="out_of_memory", precision="bf16", **GPU)
    assert finding(2, [*sweep("seq2seq", RISING, **GPU), other]).verdict == UNKNOWN


def test_every_command_that_would_help_can_be_given() -> None:
    """Every missing run's command composes and is a plan that the hardware at hand does not refuse for its options."""
    commands = {missing.command for found in all_findings(Evidence([])) for missing in found.missing}
    alike = {
        re.sub(r" batch_size=\S+", "", command): command for command in commands
    }  # a batch is checked by its model
    assert len(alike) > 10
    for command in sorted(alike.values()):
        words = shlex.split(command)
        assert words[:3] == ["python", "-m", "tbd.train"]
        overrides = [word for word in words[3:] if word != "-m"]
        planned = plan(compose_one(jobs_of(overrides, "-m" in words)[-1]))
        if not re.search("hardware=multi_", command):
            assert planned.unsupported is None, (command, planned.unsupported)


def test_no_command_asks_for_a_framework_where_it_does_not_run() -> None:
    runs = [made("seq2seq", 8, 1.0, framework="mxnet"), made("seq2seq", 8, 1.0, framework="pytorch")]
    commands = [missing.command for found in all_findings(Evidence(runs)) for missing in found.missing]
    assert any("framework=mxnet,pytorch hardware=cpu" in command for command in commands)
    assert any("single_gpu" in command for command in commands)
    assert not any("mxnet" in command and "hardware=single_gpu" in command for command in commands)


def test_no_run_gives_no_verdict() -> None:
    for found in all_findings(Evidence([])):
        assert found.verdict == UNKNOWN and found.missing and not found.rows


def test_a_share_that_falls_with_the_batch_is_not_drawn_as_one_that_stays() -> None:
    name = "gpu_compute_utilization"
    runs = by_batch(name, {8: 0.5, 16: 0.75}, **GPU) + by_batch(name, {8: 0.5, 16: 0.25}, "inception_v3", **GPU)
    (picture,) = rising.picture("", Evidence(runs).curves, lambda curve: name)
    shown = {part: dict(zip(picture.names, sizes, strict=True)) for part, sizes in picture.parts.items()}
    assert [list(bars.values()) for bars in shown.values()] == [[50.0, 25.0], [25.0, 0.0], [0.0, 25.0]]
    assert list(shown) == ["at both", "more at the largest batch", "less at the largest batch"]
