"""NVIDIA GPUs of one run through NVML, under the names of MLflow's own system metrics (gpu_monitor.py, MLflow 3.17)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tbd.tracking.gpm import Gpm, NoGpm


@dataclass
class _Gpu:
    handle: Any
    uuid: str
    name: str
    readings: list[Callable[[], dict[str, float]]]
    no_counters: str  # why it has no GPM counters; "" where it has


class Gpus:
    """The GPUs that CUDA_VISIBLE_DEVICES (`visible`) leaves to the run; None: all.

    Numbered as the run's framework numbers them: gpu_0 is the first visible one. What NVML can't give on a device is
    left out from then on; the rest goes on. Where there is no NVML there is no GPU.
    """

    def __init__(self, visible: str | None):
        self._gpus: list[_Gpu] = []
        self.problem = ""  # why nothing of GPUs can be read
        try:
            import pynvml

            self._nvml: Any = pynvml
            pynvml.nvmlInit()
        except Exception as error:  # no library, no driver (NVMLError)
            self.problem = f"NVML can't be used: {error}"
            return
        for number, handle in enumerate(self._visible_handles(visible)):
            uuid, name = self._text(pynvml.nvmlDeviceGetUUID(handle)), self._text(pynvml.nvmlDeviceGetName(handle))
            prefix = f"system/gpu_{number}_"
            readings, reason = self._readings(prefix, handle), ""
            try:
                readings.append(self._counters(prefix, Gpm(pynvml, handle)))
            except NoGpm as none:
                reason = str(none)
            self._gpus.append(_Gpu(handle, uuid, name, readings, reason))

    def __len__(self) -> int:
        return len(self._gpus)

    def describe(self) -> list[dict[str, Any]]:
        """[{"index" as in gpu_<index>, "uuid", "name"}]."""
        return [{"index": index, "uuid": gpu.uuid, "name": gpu.name} for index, gpu in enumerate(self._gpus)]

    @property
    def no_counters(self) -> str:
        """Why the GPUs have no counters of their units; "" where each has."""
        return self.problem or next((gpu.no_counters for gpu in self._gpus if gpu.no_counters), "")

    def sample(self) -> dict[str, float]:
        """{"system/gpu_<index>_...": value}; energy counts from the driver's start."""
        metrics: dict[str, float] = {}
        for gpu in self._gpus:
            for reading in list(gpu.readings):
                try:
                    metrics.update(reading())
                except self._nvml.NVMLError:
                    gpu.readings.remove(reading)
        return metrics

    def close(self) -> None:
        if self._gpus:
            self._nvml.nvmlShutdown()
            self._gpus = []

    def _visible_handles(self, visible: str | None) -> list[Any]:
        """NVML handles in CUDA's order: its entries are indices or UUIDs (or their beginnings), up to a bad one.

        CUDA C++ programming guide, "CUDA environment variables". Indices are NVML's own (PCI bus) order, which the
        worker's CUDA shares by CUDA_DEVICE_ORDER=PCI_BUS_ID (tbd/launch/variables.py).
        """
        count = self._nvml.nvmlDeviceGetCount()
        devices = [self._nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        if visible is None:
            return devices
        handles: list[Any] = []
        for entry in (part.strip() for part in visible.split(",")):
            handle = self._handle(entry, devices)
            if handle is None:
                break
            handles.append(handle)
        return handles

    def _handle(self, entry: str, devices: list[Any]) -> Any:
        if entry.isdigit():
            return devices[int(entry)] if int(entry) < len(devices) else None
        if entry.startswith("MIG-"):
            try:
                return self._nvml.nvmlDeviceGetHandleByUUID(entry)
            except self._nvml.NVMLError:
                return None
        if not entry.startswith("GPU-"):
            return None
        matches = [d for d in devices if self._text(self._nvml.nvmlDeviceGetUUID(d)).startswith(entry)]
        return matches[0] if len(matches) == 1 else None

    def _readings(self, prefix: str, handle: Any) -> list[Callable[[], dict[str, float]]]:
        nvml = self._nvml

        def memory() -> dict[str, float]:
            info = nvml.nvmlDeviceGetMemoryInfo(handle)
            return {
                prefix + "memory_usage_percentage": round(info.used / info.total * 100, 1),
                prefix + "memory_usage_megabytes": info.used / 1e6,
            }

        def utilization() -> dict[str, float]:
            return {prefix + "utilization_percentage": float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)}

        try:
            limit_mw = nvml.nvmlDeviceGetEnforcedPowerLimit(handle)  # once: it stays as it is, and calls cost
        except nvml.NVMLError:
            limit_mw = 0

        def power() -> dict[str, float]:
            milliwatts = nvml.nvmlDeviceGetPowerUsage(handle)
            metrics = {prefix + "power_usage_watts": milliwatts / 1000}
            if limit_mw:
                metrics[prefix + "power_usage_percentage"] = round(milliwatts / limit_mw * 100, 1)
            return metrics

        def energy() -> dict[str, float]:
            return {prefix + "energy_joules": nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000}

        def clocks() -> dict[str, float]:
            mhz = nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)
            reasons = nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
            return {prefix + "sm_clock_mhz": float(mhz), prefix + "clock_reasons": float(reasons)}

        return [memory, utilization, power, energy, clocks]

    @staticmethod
    def _counters(prefix: str, gpm: Gpm) -> Callable[[], dict[str, float]]:
        return lambda: {f"{prefix}{name}_percentage": value for name, value in gpm.read().items()}

    @staticmethod
    def _text(value: str | bytes) -> str:
        return value.decode() if isinstance(value, bytes) else value
