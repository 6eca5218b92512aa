"""A GPU's driver that is missing, refuses, or shows a part of a device: the figure is absent with a reason, the run ok.

The driver is a module `pynvml` that stands in front of the real one, since a machine without a GPU has none.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import SLEEP, end, events, only_spool, options, train

DRIVER = """
NVML_CLOCK_SM = NVML_SUCCESS = 0
NVML_GPM_METRICS_GET_VERSION = 1
UUIDS = ["GPU-aaaa", "GPU-bbbb"]

class NVMLError(Exception):
    pass

class Record:
    def __init__(self, **fields):
        self.__dict__.update(fields)

def __getattr__(name):
    if name.startswith("NVML_"):
        return 1
    if not name.startswith("nvml"):
        raise AttributeError(name)
    def refused(*_):
        raise NVMLError("Not Supported")
    return refused

def nvmlInit(): pass
def nvmlShutdown(): pass
def nvmlDeviceGetCount(): return len(UUIDS)
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetUUID(handle): return UUIDS[handle]
def nvmlDeviceGetName(handle): return "A GPU"
def nvmlDeviceIsMigDeviceHandle(handle): return False
def nvmlGpmQueryDeviceSupport(handle): return Record(isSupportedDevice=True)
def nvmlDeviceGetUtilizationRates(handle): return Record(gpu=10 * (1 + handle))
"""
NO_PERMISSION = """
def nvmlGpmSampleAlloc(): return object()
def nvmlGpmSampleGet(handle, sample): raise NVMLError("Insufficient Permissions")
"""
MIG = """
def nvmlDeviceGetHandleByUUID(uuid): return "slice"
def nvmlDeviceGetUUID(handle): return "MIG-cccc" if handle == "slice" else UUIDS[handle]
def nvmlDeviceIsMigDeviceHandle(handle): return handle == "slice"
def nvmlDeviceGetUtilizationRates(handle): raise NVMLError("Not Supported")
"""
NO_NVML = """
def nvmlInit(): raise NVMLError("NVML Shared Library Not Found")
"""


@pytest.mark.parametrize(
    ("driver", "visible", "uuids", "reason"),
    [
        (NO_NVML, None, [], "NVML can't be used: NVML Shared Library Not Found"),
        (NO_PERMISSION, "GPU-bbbb,0", ["GPU-bbbb"], "NVML refuses the GPM counters: Insufficient Permissions"),
        (MIG, "MIG-cccc", ["MIG-cccc"], "a MIG slice has no counters of its own here: GPM reads whole GPUs"),
    ],
    ids=["no-nvml", "no-permission-by-uuid", "mig"],
)
def test_a_run_goes_on_without_what_its_gpu_does_not_tell(
    tmp_path: Path, driver: str, visible: str | None, uuids: list[str], reason: str
) -> None:
    (tmp_path / "pynvml.py").write_text(DRIVER + driver)
    variables = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    path = f"{tmp_path}:{Path(__file__).parent.parent.parent}"
    # the first GPUs' readings come with the first sample, others a second or more later
    done = train(
        tmp_path, *SLEEP, "hardware=single_gpu", "tracking=offline", *options(step_s=0.05), "measure.steps=20",
        PYTHONPATH=path, **variables,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    spool = only_spool(tmp_path)
    assert end(spool)["status"] == "ok"
    written = events(spool, "controller.jsonl")
    assert [device["uuid"] for event in written if event["event"] == "gpus" for device in event["devices"]] == uuids
    figures: dict[str, Any] = json.loads((spool / "figures.json").read_text())
    assert figures["absent"]["sm_utilization"] == figures["absent"]["dram_utilization"] == reason
    assert "energy_j_per_item" in figures["absent"] and "throughput" in figures["metrics"]
    read = {name for event in written for name in event.get("metrics", {}) if name.startswith("system/gpu_")}
    assert read == ({"system/gpu_0_utilization_percentage"} if uuids == ["GPU-bbbb"] else set())
    assert {e["metrics"].get("system/gpu_0_utilization_percentage", 20.0) for e in written if "metrics" in e} == {20.0}
