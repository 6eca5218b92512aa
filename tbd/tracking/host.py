"""Host figures under the names and in the units of MLflow's own system metrics, which its System metrics tab shows.

The names are those of mlflow/system_metrics/metrics/{cpu,disk,network}_monitor.py (MLflow 3.17); 10^6 bytes a MB.
"""

import os

import psutil


class Host:
    """`sample()` gives {"system/...": value}; network traffic is counted from the making of this object."""

    def __init__(self) -> None:
        network = psutil.net_io_counters()
        self._received, self._sent = (network.bytes_recv, network.bytes_sent) if network else (0, 0)
        psutil.cpu_percent()  # the first call has nothing to compare with and gives 0

    def sample(self) -> dict[str, float]:
        memory = psutil.virtual_memory()
        disk = psutil.disk_usage(os.sep)
        metrics = {
            "system/cpu_utilization_percentage": psutil.cpu_percent(),  # of all cores, since the last call
            "system/system_memory_usage_megabytes": memory.used / 1e6,
            "system/system_memory_usage_percentage": memory.used / memory.total * 100,
            "system/disk_usage_percentage": disk.percent,
            "system/disk_usage_megabytes": disk.used / 1e6,
            "system/disk_available_megabytes": disk.free / 1e6,
        }
        network = psutil.net_io_counters()
        if network is not None:
            metrics["system/network_receive_megabytes"] = (network.bytes_recv - self._received) / 1e6
            metrics["system/network_transmit_megabytes"] = (network.bytes_sent - self._sent) / 1e6
        return {name: round(value, 3) for name, value in metrics.items()}


def host_cpu_s() -> float:
    """CPU seconds so far that all processors were busy, whatever with, or taken by the host of this virtual machine
    (steal). A guest's own time is in user and nice already (proc(5))."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)
