"""python -m tbd.doctor [--json]: what is here, what is missing, and the command that mends each thing missing.

The exit code is 0 where the main job (seq2seq in TensorFlow on this machine's CPU) could run, else 1.
"""

import argparse
import json
import os
import platform
import shutil
import socket
import sqlite3
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from tbd.launch import environments, interpreters, managers, project
from tbd.launch.files import framework_names
from tbd.worker.status import Ended

OK = "ok"
LATER = "later"  # not here yet; a run makes it by itself
NONE = "none"  # not here, and a run does without it
FAILED = "failed"  # the main job needs it

MAIN_FRAMEWORK = "tensorflow"
BUILD_GB = 4.0  # free space that building one framework's environment may need: packages, their download, pip's copies
RUN_GB = 0.5  # and a run with its traces
REACH_TIMEOUT_S = 3.0
POWERCAP = Path("/sys/class/powercap")
PERF_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
PERF_DEVICES = Path("/sys/bus/event_source/devices")


@dataclass(frozen=True)
class Check:
    """One thing looked at. `mend`: the command, or what to do, where something is missing."""

    area: str
    name: str
    state: str
    found: str
    mend: str = ""


def controller() -> Iterator[Check]:
    """This Python and the packages that the controller stands on."""
    yield Check("controller", "Python", OK, f"{platform.python_version()} ({sys.executable})")
    for package in ("mlflow", "hydra-core"):
        try:
            yield Check("controller", package, OK, metadata.version(package))
        except metadata.PackageNotFoundError:
            yield Check("controller", package, FAILED, "not installed", "make setup")


def environment_managers() -> Iterator[Check]:
    """What the frameworks' environments can be made with. An interpreter at hand is enough."""
    projects = {loaded.python: loaded for loaded in map(project.load, framework_names())}
    enough = True
    for wanted, loaded in sorted(projects.items()):
        found = [f"{i.version} {i.path}{'' if i.complete else ' (no venv)'}" for i in interpreters.at_hand(wanted)]
        reason = managers.missing("interpreter", loaded)
        mend = f"apt-get install python{wanted} python{wanted}-venv"
        yield Check("managers", f"Python {wanted}", *((NONE, reason, mend) if reason else (OK, ", ".join(found))))
        enough = enough and not reason
    programs = {"pyenv": shutil.which("pyenv"), "uv": shutil.which("uv"), "conda": managers.conda_program()}
    for name, program in programs.items():
        mend = "" if program or enough else INSTALL[name]
        yield Check("managers", name, OK if program else NONE, program or "not on PATH", mend)


INSTALL = {
    "pyenv": "git clone https://github.com/pyenv/pyenv ~/.pyenv, and ~/.pyenv/bin on PATH",
    "uv": "python -m pip install uv",
    "conda": "as conda-forge.org/download tells",
}


def frameworks() -> Iterator[Check]:
    """Whether each framework's environment is built, or what a run would build it with."""
    for name in framework_names():
        loaded = project.load(name)
        built = environments.find(loaded)
        if built:
            found = f"{built.framework_version}, Python {built.python_version}, by {built.manager}: {built.folder}"
            yield Check("frameworks", name, OK, found)
            continue
        try:
            manager = managers.choose(loaded)
        except Ended as error:
            state = FAILED if name == MAIN_FRAMEWORK else NONE
            mend = f"apt-get install python{loaded.python} python{loaded.python}-venv"
            yield Check("frameworks", name, state, error.cause, mend)
            continue
        command = f"python -m tbd.train framework={name} model.size=small"
        yield Check("frameworks", name, LATER, f"not built yet; the first run builds it, by {manager}", command)


def devices() -> Iterator[Check]:
    """The CPU, the memory and the GPUs."""
    import psutil

    cores = len(os.sched_getaffinity(0))
    yield Check("devices", "CPU", OK, f"{cpu_name()}, {cores} of {psutil.cpu_count()} hardware threads usable")
    yield Check("devices", "memory", OK, f"{psutil.virtual_memory().total / 1e9:.1f} GB")
    yield from gpus()


def cpu_name() -> str:
    """The CPU's model as the kernel names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def gpus() -> Iterator[Check]:
    """Each NVIDIA GPU, and whether its hardware counters (GPM) can be read without a profiler."""
    import pynvml as nvml

    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        yield Check("devices", "GPU", NONE, f"no NVIDIA GPU to be seen ({error})")
        return
    try:
        driver = text(nvml.nvmlSystemGetDriverVersion())
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            memory_gb = nvml.nvmlDeviceGetMemoryInfo(handle).total / 1e9
            name = text(nvml.nvmlDeviceGetName(handle))
            yield Check("devices", f"GPU {index}", OK, f"{name}, {memory_gb:.0f} GB, driver {driver}")
            try:
                readable = bool(nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice)
                why = "readable" if readable else "not on this device (Hopper and newer have them)"
            except nvml.NVMLError as error:
                readable, why = False, f"not readable ({error})"
            yield Check("counters", f"GPU {index} (GPM)", OK if readable else NONE, why)
    finally:
        nvml.nvmlShutdown()


def text(value: str | bytes) -> str:
    """What NVML gives, as older versions of its library give bytes."""
    return value.decode() if isinstance(value, bytes) else value


def counters() -> Iterator[Check]:
    """The CPU's energy counter (RAPL) and its performance counters (perf)."""
    zones = sorted(POWERCAP.glob("intel-rapl:*/energy_uj"))
    if not zones:
        yield Check("counters", "CPU energy (RAPL)", NONE, "this machine shows none (virtual machines seldom do)")
    elif all(os.access(zone, os.R_OK) for zone in zones):
        yield Check("counters", "CPU energy (RAPL)", OK, f"{len(zones)} readable")
    else:
        mend = f"sudo chmod a+r {POWERCAP}/intel-rapl:*/energy_uj"
        yield Check("counters", "CPU energy (RAPL)", NONE, "there, but for root only", mend)
    try:
        paranoid = int(PERF_PARANOID.read_text())
    except (OSError, ValueError):
        yield Check("counters", "CPU (perf)", NONE, "this kernel has none")
        return
    if not list(PERF_DEVICES.glob("cpu*")):
        yield Check("counters", "CPU (perf)", NONE, "this machine shows no hardware counters")
    elif (
        paranoid <= 2 or os.geteuid() == 0
    ):  # 2: own processes, user space; Documentation/admin-guide/sysctl/kernel.rst
        yield Check("counters", "CPU (perf)", OK, f"perf_event_paranoid is {paranoid}")
    else:
        mend = "sudo sysctl kernel.perf_event_paranoid=2"
        yield Check("counters", "CPU (perf)", NONE, f"perf_event_paranoid is {paranoid}", mend)


def tracking() -> Iterator[Check]:
    """Whether the store that tracking=local would use takes a run."""
    from tbd.tracking.redaction import without_credentials

    uri = os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db"
    shown = without_credentials(uri)
    problem = store_problem(uri)
    if problem is None:
        yield Check("tracking", "MLflow store", OK, shown)
    else:
        mend = "tracking=offline runs without a store; `python -m tbd.sync` brings its runs there later"
        yield Check("tracking", "MLflow store", FAILED, f"{shown}: {problem}", mend)


def store_problem(uri: str) -> str | None:
    """Why the store can't be written to, as far as can be told without writing; None where nothing is against it."""
    parts = urllib.parse.urlsplit(uri)
    if parts.scheme.startswith("sqlite"):
        return sqlite_problem(Path(uri.partition(":///")[2].partition("?")[0]))
    if parts.scheme in ("http", "https"):
        try:
            urllib.request.urlopen(uri.rstrip("/") + "/health", timeout=REACH_TIMEOUT_S).close()
        except (OSError, ValueError) as error:
            return str(getattr(error, "reason", error))
        return None
    port = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}.get(parts.scheme.partition("+")[0])
    if port is None or not parts.hostname:
        return "MLflow has no store of that kind: sqlite:///, postgresql://, mysql:// or http(s)://"
    try:
        socket.create_connection((parts.hostname, parts.port or port), REACH_TIMEOUT_S).close()
    except OSError as error:
        return str(error)
    return None


def sqlite_problem(file: Path) -> str | None:
    """Why SQLite couldn't write to the file."""
    folder = file.absolute().parent
    if not file.exists():
        return None if os.access(folder, os.W_OK) else f"{folder} can't be written"
    if not os.access(file, os.W_OK) or not os.access(folder, os.W_OK):
        return "it can't be written"
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.execute("select count(*) from sqlite_master").fetchone()
    except sqlite3.Error as error:
        return str(error)
    return None


def space() -> Iterator[Check]:
    """Room where environments and runs are written."""
    built = environments.find(project.load(MAIN_FRAMEWORK)) is not None
    yield room("environments and data", environments.home(), RUN_GB if built else BUILD_GB, "TBD_HOME")
    yield room("runs", Path.cwd(), RUN_GB, "tracking.runs")


def room(name: str, folder: Path, needed_gb: float, setting: str) -> Check:
    """Whether there are `needed_gb` in the folder, or where it will be made, and it can be written."""
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    mend = f"{setting} names another folder"
    if not os.access(there, os.W_OK):
        return Check("space", name, FAILED, f"{there} can't be written", mend)
    free_gb = shutil.disk_usage(there).free / 1e9
    found = f"{free_gb:.1f} GB free: {folder}"
    if free_gb < needed_gb:
        return Check("space", name, FAILED, f"{found} ({needed_gb:g} GB may be needed)", f"make room there; {mend}")
    return Check("space", name, OK, found)


def data() -> Iterator[Check]:
    """The sentences of data=gettext."""
    from tbd.data.gettext import catalogue_folders, find_catalogues

    folders = catalogue_folders()
    found = len(find_catalogues(folders, "vi"))
    where = ", ".join(folders) or "nowhere to look"
    if found:
        yield Check("data", "English-Vietnamese", OK, f"{found} gettext catalogues: {where}")
    else:
        yield Check("data", "English-Vietnamese", FAILED, f"no catalogue: {where}", "python -m pip install django")


AREAS: list[Callable[[], Iterator[Check]]] = [
    controller,
    environment_managers,
    frameworks,
    devices,
    counters,
    tracking,
    space,
    data,
]


def examine() -> list[Check]:
    """All checks, by area. One that breaks is a failure of its own and stops no other."""
    checks: list[Check] = []
    for area in AREAS:
        try:
            checks.extend(area())
        except Exception as error:  # the doctor must not die of what it finds
            checks.append(Check(area.__name__, "looking at it", FAILED, f"{type(error).__name__}: {error}"))
    return sorted(checks, key=lambda check: list(dict.fromkeys(c.area for c in checks)).index(check.area))


def ready(checks: list[Check]) -> bool:
    """Whether the main job could run."""
    return all(check.state != FAILED for check in checks)


def show(checks: list[Check]) -> None:
    """The checks as a table, and what mends what is missing below it."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    styles = {OK: "green", LATER: "yellow", NONE: "dim", FAILED: "bold red"}
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("", "what", "", "found"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "what")
    area = ""
    for check in checks:
        state = Text(check.state, styles[check.state])
        table.add_row(check.area if check.area != area else "", check.name, state, Text(check.found))
        area = check.area
    console = Console()
    console.print(table)
    mends = [check for check in checks if check.mend]
    if mends:
        console.print("What is missing, and how to get it:", style="bold")
        for check in mends:
            console.print(Text.assemble("  ", (check.name, styles[check.state]), ": ", check.mend), soft_wrap=True)
    ending = "The main job can run." if ready(checks) else "The main job can't run yet."
    console.print("\n" + ending, style="bold green" if ready(checks) else "bold red")


def main(arguments: list[str] | None = None) -> int:
    """The command; gives its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tbd.doctor", description="What is here, and what is missing.")
    parser.add_argument("--json", action="store_true", help="the same for programs")
    options = parser.parse_args(arguments)
    checks = examine()
    if options.json:
        found: dict[str, Any] = {"ready": ready(checks), "checks": [asdict(check) for check in checks]}
        print(json.dumps(found, indent=1))
    else:
        show(checks)
    return 0 if ready(checks) else 1


if __name__ == "__main__":
    sys.exit(main())
