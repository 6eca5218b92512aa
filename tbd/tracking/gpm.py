"""A GPU's own counters of what its units did, through NVML's GPM (GPU Performance Monitoring; Hopper and later).

No profiler is attached: the device counts all the time, and two readings tell what went on between them (NVML API
reference, "GPM functions"). What is counted is the whole GPU, whatever process it works for.
"""

from typing import Any

# {our name: NVML's metric}, each in per cent: SMs that are busy; warps of their maximum; time in which any tensor core,
# or the FP32 units, work; DRAM bandwidth of its maximum
METRICS = {
    "sm_active": "NVML_GPM_METRIC_SM_UTIL",
    "sm_occupancy": "NVML_GPM_METRIC_SM_OCCUPANCY",
    "tensor_active": "NVML_GPM_METRIC_ANY_TENSOR_UTIL",
    "fp32_active": "NVML_GPM_METRIC_FP32_UTIL",
    "dram_active": "NVML_GPM_METRIC_DRAM_BW_UTIL",
}


class NoGpm(Exception):
    """The GPU has no such counters for us; the message says why."""


class Gpm:
    """The counters of the GPU with this NVML handle. Raises NoGpm."""

    def __init__(self, nvml: Any, handle: Any):
        self._nvml, self._handle = nvml, handle
        try:
            if nvml.nvmlDeviceIsMigDeviceHandle(handle):
                raise NoGpm("a MIG slice has no counters of its own here: GPM reads whole GPUs")
        except nvml.NVMLError:
            pass  # no MIG at all
        try:
            if not nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
                raise NoGpm("the GPU has no GPM counters (Hopper and later do)")
            self._ids = {name: getattr(nvml, constant) for name, constant in METRICS.items()}
            self._samples = [nvml.nvmlGpmSampleAlloc() for _ in range(2)]
            nvml.nvmlGpmSampleGet(handle, self._samples[0])
        except nvml.NVMLError as error:
            raise NoGpm(f"NVML refuses the GPM counters: {error}") from error

    def read(self) -> dict[str, float]:
        """{name: per cent} since the last reading. Raises NVMLError."""
        nvml, (before, now) = self._nvml, self._samples
        nvml.nvmlGpmSampleGet(self._handle, now)
        asked = nvml.c_nvmlGpmMetricsGet_t()
        asked.version = nvml.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(self._ids)
        asked.sample1, asked.sample2 = before, now
        for place, number in enumerate(self._ids.values()):
            asked.metrics[place].metricId = number
        nvml.nvmlGpmMetricsGet(asked)
        self._samples = [now, before]
        answers = [asked.metrics[place] for place in range(len(self._ids))]
        return {
            name: float(answer.value)
            for name, answer in zip(self._ids, answers, strict=True)
            if answer.nvmlReturn == nvml.NVML_SUCCESS
        }
