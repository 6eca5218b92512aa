"""Which process this is, so that a later one can tell whether it still runs (Linux's proc file system, proc(5))."""

import os
from pathlib import Path

PROC = Path("/proc")


def boot_id() -> str:
    """The kernel's random id of this boot; "" where there is none."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def pid_namespace() -> str:
    """Where this process's ids mean something: containers of one host have a namespace each; "" where not known."""
    try:
        return os.readlink(PROC / "self/ns/pid")
    except OSError:
        return ""


def start_ticks(pid: int) -> int | None:
    """When the process began, in clock ticks since boot: with `pid` it names one process of this boot.

    None where no such process runs; one that is dead and not yet reaped (state Z or X) does not run.
    """
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name, in brackets, may hold spaces: field 3 (state) comes after it
    return None if fields[0] in "ZX" else int(fields[19])  # field 22, starttime


def usable_cores() -> float:
    """Cores that this process may use: its affinity, or its control group's quota where that is less (cgroup v2)."""
    cores = float(len(os.sched_getaffinity(0)))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return min(cores, int(quota) / int(period))
    except (OSError, ValueError):  # no cgroup v2 here, or the quota is "max"
        return cores
