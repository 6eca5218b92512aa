"""Peaks that manufacturers state: the dense ones, without sparsity, at the boost clock.

They are what a device could do at most; by a matrix product one measures what it does here (flops.py). Products in
tf32, bf16 and fp16 are the tensor cores', fp32 and fp64 the other units' (H200, H100 and A100 multiply fp64 on tensor
cores too: their fp64 is that).
"""

from dataclasses import dataclass, field

from tbd.measure.events import Absent


@dataclass(frozen=True)
class Sheet:
    """`tflops` {precision: 10^12 FLOP/s}, `bandwidth` of the device's memory in GB/s (10^9 bytes)."""

    source: str
    bandwidth: float
    tflops: dict[str, float] = field(default_factory=dict)


# By the beginning of the device's name as its driver gives it; where several fit, the longest.
SHEETS = {
    "NVIDIA H200": Sheet(
        "NVIDIA H200 Tensor Core GPU datasheet (2024), H200 SXM", 4800,
        {"fp64": 67, "fp32": 67, "tf32": 494.5, "bf16": 989.5, "fp16": 989.5},
    ),
    "NVIDIA H100 80GB HBM3": Sheet(
        "NVIDIA H100 Tensor Core GPU datasheet (2023), H100 SXM", 3350,
        {"fp64": 67, "fp32": 67, "tf32": 494.5, "bf16": 989.5, "fp16": 989.5},
    ),
    "NVIDIA H100 PCIe": Sheet(
        "NVIDIA H100 Tensor Core GPU datasheet (2022), H100 PCIe", 2000,
        {"fp64": 51, "fp32": 51, "tf32": 378, "bf16": 756.5, "fp16": 756.5},
    ),
    "NVIDIA A100-SXM4-80GB": Sheet(
        "NVIDIA A100 Tensor Core GPU datasheet (2021), A100 80GB SXM", 2039,
        {"fp64": 19.5, "fp32": 19.5, "tf32": 156, "bf16": 312, "fp16": 312},
    ),
    "NVIDIA A100-SXM4-40GB": Sheet(
        "NVIDIA A100 Tensor Core GPU datasheet (2020), A100 40GB SXM", 1555,
        {"fp64": 19.5, "fp32": 19.5, "tf32": 156, "bf16": 312, "fp16": 312},
    ),
    "NVIDIA A100 80GB PCIe": Sheet(
        "NVIDIA A100 Tensor Core GPU datasheet (2021), A100 80GB PCIe", 1935,
        {"fp64": 19.5, "fp32": 19.5, "tf32": 156, "bf16": 312, "fp16": 312},
    ),
    "Tesla V100-SXM2": Sheet(
        "NVIDIA V100 Tensor Core GPU datasheet (2020), V100 SXM2", 900, {"fp64": 7.8, "fp32": 15.7, "fp16": 125}
    ),
    "Tesla T4": Sheet("NVIDIA T4 Tensor Core GPU datasheet (2019)", 320, {"fp32": 8.1, "fp16": 65}),
}  # fmt: skip


def sheet(device: str) -> Sheet:
    """The device's data sheet. Raises Absent where the table has none."""
    found = [name for name in SHEETS if device.startswith(name)]
    if not found:
        raise Absent(f"the table of data sheets (tbd/measure/datasheets.py) has no {device or 'device without a name'}")
    return SHEETS[max(found, key=len)]


def tflops(device: str, precision: str | None) -> float:
    """Stated peak of the device in the run's precision, TFLOP/s."""
    stated = sheet(device)
    if precision not in stated.tflops:
        raise Absent(f"{stated.source} states no peak in {precision}")
    return stated.tflops[precision]
