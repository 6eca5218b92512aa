"""The sampler on real processes. Bounds come from what the processes did by the kernel's own account."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow.system_metrics.metrics.cpu_monitor import CPUMonitor
from mlflow.system_metrics.metrics.disk_monitor import DiskMonitor
from mlflow.system_metrics.metrics.network_monitor import NetworkMonitor

from tbd.measure import figures
from tbd.tracking import gpm
from tbd.tracking.gpus import Gpus
from tbd.tracking.host import Host
from tbd.tracking.process_tree import ProcessTree
from tbd.tracking.rapl import Rapl
from tbd.tracking.sampler import Sampler
from tbd.tracking.spool import Spool

# Burns a CPU second itself, one in a child and one in a grandchild; then says what the kernel counted.
WORKER = """
import resource, subprocess, sys, time
burn = "import time\\nwhile time.process_time() < 1: pass"
child = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
subprocess.run([sys.executable, "-c", burn])
exec(burn)
subprocess.run([sys.executable, "-c", child, burn])
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(sum(u.ru_utime + u.ru_stime for u in used), flush=True)
sys.stdin.read()
"""
TICK_S = 0.01  # the kernel gives CPU times in hundredths of a second, for each process user and system time apart


def samples(spool: Spool) -> list[dict[str, Any]]:
    return [event for event in spool.controller_events() if event["event"] == "sample"]


def test_cpu_time_of_the_whole_tree_and_never_falling(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path, "name", experiment="e")
    worker = subprocess.Popen([sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert worker.stdout and worker.stdin
    with Sampler(spool, worker.pid) as sampler:
        used = float(worker.stdout.readline())
        deadline, known = time.monotonic() + 60, len(samples(spool))
        while len(samples(spool)) < known + 5 and time.monotonic() < deadline:
            time.sleep(0.05)
        worker.stdin.close()
        worker.wait()
    seen = [sample["cpu_s"] for sample in samples(spool)]
    assert sampler.problem is None
    assert seen == sorted(seen)
    assert used - 0.2 <= seen[-1] <= used + 0.2 + 10 * TICK_S
    assert max(sample["rss_bytes"] for sample in samples(spool)) > 1_000_000
    assert all(sample["controller_cpu_s"] > 0 for sample in samples(spool))
    assert {"system/cpu_utilization_percentage", "system/system_memory_usage_percentage"} <= set(seen_metrics(spool))


def test_ctrl_c_while_the_sampler_begins_leaves_none_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        begin(thread)
        raise KeyboardInterrupt

    spool = Spool.create(tmp_path, "run", experiment="tbd")
    sampler = Sampler(spool, os.getpid())
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt), sampler:
        pass
    assert "sampler" not in {thread.name for thread in threading.enumerate()}


def test_samples_that_fail_are_told_among_the_figures_warnings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool.create(tmp_path, "name", experiment="e")

    def refuse(*_: Any) -> None:
        raise PermissionError("no access to /proc")

    monkeypatch.setattr(ProcessTree, "sample", refuse)
    with Sampler(spool, 1) as sampler:
        deadline = time.monotonic() + 60
        while sampler.problem is None and time.monotonic() < deadline:
            time.sleep(0.01)
    assert f"samples are missing: {sampler.problem}" in figures.compute(spool.path).warnings
    assert "no access to /proc" in str(sampler.problem)


def seen_metrics(spool: Spool) -> dict[str, float]:
    return dict(samples(spool)[-1]["metrics"])


class Times:
    """A process of a tree as psutil shows it."""

    def __init__(self, pid: int, parent: int, own: float, waited: float = 0.0):
        self.pid, self.parent, self.own, self.waited, self.gone = pid, parent, own, waited, False

    def ppid(self) -> int:
        return self.parent

    def cpu_times(self) -> SimpleNamespace:
        import psutil

        if self.gone:
            raise psutil.NoSuchProcess(self.pid)
        return SimpleNamespace(user=self.own, system=0.0, children_user=self.waited, children_system=0.0)

    def memory_info(self) -> SimpleNamespace:
        return SimpleNamespace(rss=10)


@pytest.fixture
def tree(monkeypatch: pytest.MonkeyPatch) -> tuple[ProcessTree, Times, Times, Times]:
    """A root with 1 s, its child with 2 s, its grandchild with 4 s of CPU time, seen once: 7 s."""
    root, child, grandchild = Times(1, 0, 1.0), Times(2, 1, 2.0), Times(3, 2, 4.0)
    found = [child, grandchild]
    root.children = lambda recursive: found  # type: ignore[attr-defined]
    monkeypatch.setattr("psutil.Process", lambda pid: root)
    tree = ProcessTree(1)
    assert tree.sample() == (7.0, 30)
    return tree, root, child, grandchild


def test_a_child_that_was_waited_for_counts_once(tree: tuple[ProcessTree, Times, Times, Times]) -> None:
    tracked, root, child, grandchild = tree
    grandchild.gone, child.waited = True, 4.5  # it used half a second more before it ended
    assert tracked.sample()[0] == 7.5
    child.gone, root.waited = True, 6.5
    assert tracked.sample()[0] == 7.5


def test_a_child_that_nobody_waited_for_keeps_its_last_value(tree: tuple[ProcessTree, Times, Times, Times]) -> None:
    tracked, _, child, grandchild = tree
    grandchild.gone = True
    assert tracked.sample()[0] == 7.0
    child.gone = True
    assert tracked.sample() == (7.0, 10)


def test_a_child_that_ends_between_two_readings_counts_once(tree: tuple[ProcessTree, Times, Times, Times]) -> None:
    tracked, _, child, grandchild = tree
    grandchild.gone = True  # the parent was read before the kernel added the time up
    assert tracked.sample()[0] == 7.0
    child.waited = 4.25
    assert tracked.sample()[0] == 7.25


def test_two_generations_that_end_at_once_count_once(tree: tuple[ProcessTree, Times, Times, Times]) -> None:
    tracked, root, child, grandchild = tree
    child.gone = grandchild.gone = True
    root.waited = 6.0
    assert tracked.sample()[0] == 7.0


def test_a_child_too_short_to_be_seen_counts(tree: tuple[ProcessTree, Times, Times, Times]) -> None:
    tracked, root, _, _ = tree
    root.waited = 0.5
    assert tracked.sample()[0] == 7.5


def test_host_metrics_have_the_names_of_mlflow() -> None:
    monitors = [CPUMonitor(), DiskMonitor(), NetworkMonitor()]
    for monitor in monitors:
        monitor.collect_metrics()
    assert set(Host().sample()) == {f"system/{name}" for monitor in monitors for name in monitor.metrics}


class Nvml:
    """A driver with three GPUs of which none has an energy counter."""

    class NVMLError(Exception):
        pass

    def __getattr__(self, name: str) -> Any:
        def not_supported(*_: Any) -> None:
            raise self.NVMLError(name)

        return not_supported

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...

    def nvmlDeviceGetCount(self) -> int:
        return 3

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return f"GPU-{'abc'[handle]}111"

    def nvmlDeviceGetName(self, handle: int) -> str:
        return "A GPU"

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> SimpleNamespace:
        return SimpleNamespace(gpu=10 * handle)

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:
        return SimpleNamespace(used=2e9, total=8e9)


@pytest.mark.parametrize(
    "visible, expected",
    [
        (None, ["GPU-a111", "GPU-b111", "GPU-c111"]),
        ("2,0", ["GPU-c111", "GPU-a111"]),
        ("GPU-b111", ["GPU-b111"]),
        ("GPU-b", ["GPU-b111"]),
        ("1,9,0", ["GPU-b111"]),
        ("", []),
        ("-1", []),
        ("GPU-", []),
    ],
)
def test_the_gpus_of_the_run_alone(monkeypatch: pytest.MonkeyPatch, visible: str | None, expected: list[str]) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml())  # type: ignore[arg-type]
    assert [gpu["uuid"] for gpu in Gpus(visible).describe()] == expected


def test_a_reading_that_a_gpu_has_not_is_dropped_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml())  # type: ignore[arg-type]
    gpus = Gpus("2")
    expected = {
        "system/gpu_0_utilization_percentage": 20.0,
        "system/gpu_0_memory_usage_percentage": 25.0,
        "system/gpu_0_memory_usage_megabytes": 2000.0,
    }
    assert [gpus.sample(), gpus.sample()] == [expected, expected]


class Counting(Nvml):
    """A driver whose GPUs have GPM: each reading since the one before it has its number in every metric."""

    NVML_SUCCESS, NVML_GPM_METRICS_GET_VERSION = 0, 1
    supported = True
    mig = False

    def __init__(self) -> None:
        self.readings = 0
        for number, name in enumerate(gpm.METRICS.values()):
            setattr(self, name, 10 + number)

    def nvmlDeviceIsMigDeviceHandle(self, handle: int) -> bool:
        return self.mig

    def nvmlGpmQueryDeviceSupport(self, handle: int) -> SimpleNamespace:
        return SimpleNamespace(isSupportedDevice=self.supported)

    def nvmlGpmSampleAlloc(self) -> dict[str, int]:
        return {}

    def nvmlGpmSampleGet(self, handle: int, sample: dict[str, int]) -> None:
        self.readings += 1
        sample["at"] = self.readings

    def c_nvmlGpmMetricsGet_t(self) -> SimpleNamespace:
        return SimpleNamespace(metrics=[SimpleNamespace(nvmlReturn=0) for _ in gpm.METRICS])

    def nvmlGpmMetricsGet(self, asked: SimpleNamespace) -> None:
        assert (asked.version, asked.numMetrics) == (1, len(gpm.METRICS))
        for metric in asked.metrics:
            metric.value = 100 * (asked.sample2["at"] - asked.sample1["at"]) + metric.metricId
        asked.metrics[-1].nvmlReturn = 3  # not supported: of this one metric


def test_a_gpus_counters_tell_of_the_time_between_two_readings() -> None:
    counters = gpm.Gpm(Counting(), 0)
    expected = {"sm_active": 110.0, "sm_occupancy": 111.0, "tensor_active": 112.0, "fp32_active": 113.0}
    assert [counters.read(), counters.read()] == [expected, expected]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"supported": False}, "the GPU has no GPM counters (Hopper and later do)"),
        ({"mig": True}, "a MIG slice has no counters of its own here: GPM reads whole GPUs"),
        ({"nvmlGpmSampleGet": Nvml().nvmlNoPermission}, "NVML refuses the GPM counters: nvmlNoPermission"),
    ],
    ids=["older", "mig", "refused"],
)
def test_why_a_gpu_has_no_counters(monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], reason: str) -> None:
    driver = Counting()
    for name, value in change.items():
        if callable(value):
            monkeypatch.setattr(driver, "NVMLError", Nvml.NVMLError, raising=False)
        monkeypatch.setattr(driver, name, value, raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", driver)  # type: ignore[arg-type]
    gpus = Gpus("0")
    assert gpus.no_counters == reason
    assert "system/gpu_0_utilization_percentage" in gpus.sample(), "the others go on"


def package(root: Path, number: int, energy: int, name: str = "package-0") -> Path:
    path = root / f"intel-rapl:{number}"
    path.mkdir(parents=True)
    for file, value in (("name", name), ("energy_uj", energy), ("max_energy_range_uj", 999_999_999)):
        (path / file).write_text(f"{value}\n")
    return path


def test_a_cpus_energy_is_of_its_packages_and_goes_on_where_the_counter_begins_anew(tmp_path: Path) -> None:
    one, two = package(tmp_path, 0, 990_000_000), package(tmp_path, 1, 5_000_000, "package-1")
    package(tmp_path, 2, 10**8, "psys")  # the whole machine, with the packages in it
    rapl = Rapl(tmp_path)
    (one / "energy_uj").write_text("10000000")  # 20 J on, through its end at 1000 J
    (two / "energy_uj").write_text("7000000")
    assert rapl.sample() == {"system/cpu_energy_joules": pytest.approx(22.0)}
    assert rapl.reason == ""


def test_why_a_cpus_energy_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "virtual machines mostly have none" in Rapl(tmp_path).reason
    package(tmp_path, 0, 1)

    def refused(path: Path, *_: Any) -> str:
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied", str(path))
        return "package-0" if path.name == "name" else "1"

    monkeypatch.setattr(Path, "read_text", refused)  # root, as tests may run, reads everything
    rapl = Rapl(tmp_path)
    assert rapl.sample() == {}
    assert "no permission" in rapl.reason and "chmod" in rapl.reason


def test_no_driver_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)  # type: ignore[arg-type]
    gpus = Gpus(None)
    assert (len(gpus), gpus.sample()) == (0, {})
