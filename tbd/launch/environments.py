"""The frameworks' environments: built once, verified, kept in $TBD_HOME/environments (~/.cache/tbd by default).

<name>-<digest>-<manager>.lock     held while one is built
<name>-<digest>-<manager>/         one environment; the digest is of all that decides its content
    ready.json                     the marker, written last: an environment without one is never used
    lock.txt                       what is installed in it, exactly
    build.log                      what building it printed
    env-XXXXXXXX/                  the environment itself. Each build has a new folder: what an interrupted build
                                   left behind, or still writes, can't get into the next one
"""

import json
import os
import secrets
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from tbd.launch import managers
from tbd.launch.managers import EnvironmentFailed, cause_of_failure
from tbd.launch.process import Process
from tbd.launch.project import VERIFY, Project, load
from tbd.launch.variables import build_variables, import_folder, worker_variables

Progress = Callable[[str], None]

MARKER = "ready.json"
VERIFY_TIMEOUT_S = 600  # the first import of a large framework from a cold network disk takes minutes

# Lists what is installed, as pip freeze does, in environments with and without pip, from Python 3.6 on.
INVENTORY = """
try:
    from importlib.metadata import distributions
    found = [(d.metadata["Name"], d.version) for d in distributions()]
except ImportError:
    import pkg_resources
    found = [(d.project_name, d.version) for d in pkg_resources.working_set]
print("\\n".join(sorted({"%s==%s" % pair for pair in found if pair[0]}, key=str.lower)))
"""


@dataclass(frozen=True)
class Environment:
    """A framework's environment that has been seen to work. Paths are absolute."""

    name: str
    python: str
    python_version: str
    framework_version: str  # what the project's entry point `verify` printed
    manager: str
    folder: str  # holds ready.json, lock.txt, build.log
    binaries: str  # the folder that comes first on a worker's PATH
    worker_template: str  # the worker's command as MLflow composed it, so that no start has to import MLflow for it
    mlproject_digest: str  # of the MLproject that it is from
    stamp: list[int]  # see stamp()
    built_at: float  # Unix seconds
    seconds: float  # what building and verifying took

    @property
    def lock_path(self) -> Path:
        """What is installed in it: name==version a line."""
        return Path(self.folder) / "lock.txt"

    @property
    def home(self) -> Path:
        return Path(self.folder).parent.parent


def home() -> Path:
    """The folder of everything that tbd keeps between runs."""
    folder = os.environ.get("TBD_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "tbd"
    return Path(folder).expanduser().absolute()


def ensure(
    project: str | Path | Project, manager: str = managers.AUTO, python: str | None = None, progress: Progress = print
) -> Environment:
    """The environment of a framework (its name, its project folder, or its project), built where it isn't there yet.

    manager: one of managers.NAMES. python: for `local`, the interpreter that has the framework. progress: gets short
    lines while something takes time. Safe while other processes do the same. Raises EnvironmentFailed, BadProject.
    """
    project = project if isinstance(project, Project) else load(project)
    manager = managers.canonical(manager)
    if manager == managers.LOCAL:
        check_local(python)
    elif python:
        raise EnvironmentFailed(f"framework.python={python} is for framework.env_manager=local, not for {manager}")
    found = find(project, manager, python)
    if found:
        return found
    if manager == managers.AUTO:
        manager = managers.choose(project)
    folder = folder_of(project, manager, python)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with held(FileLock(f"{folder}.lock"), f"{project.name} environment", progress):
            return find(project, manager, python) or build(project, manager, python, folder, progress)
    except OSError as error:
        where = error.filename or folder.parent
        raise EnvironmentFailed(f"{where}: {error.strerror}; TBD_HOME names another folder for environments") from error


def of_framework(framework: Mapping[str, Any], progress: Progress = print) -> tuple[Environment, Project]:
    """ensure() for the configuration's section `framework`, and its project."""
    found = load(framework["project"] or framework["name"])
    manager = managers.LOCAL if framework["python"] else framework["env_manager"]
    return ensure(found, manager, framework["python"], progress), found


def find(project: Project, manager: str = managers.AUTO, python: str | None = None) -> Environment | None:
    """The project's environment if it is there, verified and unchanged since. Reads the marker, no more."""
    for name in managers.BUILDERS if manager == managers.AUTO else (manager,):
        marker = folder_of(project, name, python) / MARKER
        try:
            found = Environment(**json.loads(marker.read_text()))
            if found.stamp == stamp(Path(found.python), name):
                return found
        except (OSError, ValueError, TypeError):
            continue  # not there, or not one of ours
    return None


def folder_of(project: Project, manager: str, python: str | None) -> Path:
    """Where the project's environment is, or will be."""
    digest = project.digest
    if manager == managers.LOCAL:
        digest += "-" + python.strip("/").replace("/", "-")[-60:] if python else ""
    return home() / "environments" / f"{project.name}-{digest}-{manager}"


def stamp(python: Path, manager: str) -> list[int]:
    """What changes when an environment must be looked at again: the time of its interpreter, in ns, and for `local`,
    whose packages are the user's to change, those of its site-packages folders.

    Raises OSError where the interpreter is gone, as when the Python that an environment was made from is removed.
    """
    times = [python.stat().st_mtime_ns]
    if manager == managers.LOCAL:
        for pattern in ("lib/python3*/site-packages", "lib/python3*/dist-packages"):
            times.extend(folder.stat().st_mtime_ns for folder in sorted(python.parent.parent.glob(pattern)))
    return times


def check_local(python: str | None) -> None:
    """Raises EnvironmentFailed where the interpreter that the user names can't be one."""
    if not python:
        raise EnvironmentFailed("framework.env_manager=local needs framework.python=/path/of/the/interpreter")
    if not os.path.isabs(python) or not os.path.isfile(python) or not os.access(python, os.X_OK):
        raise EnvironmentFailed(f"framework.python={python} is not the absolute path of an executable file")


class held:
    """A context manager: the lock, held; tells `progress` now and then while another process holds it."""

    def __init__(self, lock: FileLock, what: str, progress: Progress):
        self.lock, self.what, self.progress = lock, what, progress

    def __enter__(self) -> None:
        started = time.monotonic()
        timeout = 0
        while True:
            try:
                self.lock.acquire(timeout=timeout)
                return
            except Timeout:
                waited = time.monotonic() - started
                self.progress(f"{self.what}: another run is building it, waiting ({waited:.0f} s)")
                timeout = 5

    def __exit__(self, *_: object) -> None:
        self.lock.release()


def build(project: Project, manager: str, python: str | None, folder: Path, progress: Progress) -> Environment:
    """Make, verify and mark the environment. The lock of `folder` must be held."""
    started = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)  # it has no usable marker: a build was cut off, or its Python is gone
    folder.mkdir(parents=True, exist_ok=True)
    prefix = folder / f"env-{secrets.token_hex(4)}"
    try:
        if manager == managers.LOCAL:
            interpreter = Path(str(python))
            link_binaries(prefix / "bin", interpreter)
        else:
            interpreter = prefix / "bin" / "python"
            for what, command in managers.steps(manager, project, prefix):
                run_step(f"{project.name} environment", what, command, project.folder, folder / "build.log", progress)
        progress(f"{project.name} environment: verifying")
        python_version, framework_version = verify(project, interpreter, prefix / "bin", folder)
        environment = Environment(
            name=project.name,
            python=str(interpreter),
            python_version=python_version,
            framework_version=framework_version,
            manager=manager,
            folder=str(folder),
            binaries=str(prefix / "bin"),
            worker_template=project.worker_template(),
            mlproject_digest=project.mlproject_digest,
            stamp=stamp(interpreter, manager),
            built_at=time.time(),
            seconds=round(time.monotonic() - started, 1),
        )
        write_durably(folder / MARKER, json.dumps(asdict(environment), indent=1) + "\n")
    except BaseException:
        shutil.rmtree(prefix, ignore_errors=True)  # gigabytes of no use; build.log stays
        raise
    return environment


def link_binaries(folder: Path, python: Path) -> None:
    """Make a folder whose `python` and `python3` start the interpreter, whatever its own name. Not links: a virtual
    environment's interpreter finds its packages by the path that it is called by."""
    folder.mkdir(parents=True)
    for name in ("python", "python3"):
        (folder / name).write_text(f'#!/bin/sh\nexec {shlex.quote(str(python))} "$@"\n')
        (folder / name).chmod(0o755)


def run_step(name: str, what: str, command: list[str], cwd: Path, log: Path, progress: Progress) -> None:
    """Run one command of a build to its end, telling `progress` what it does; raises EnvironmentFailed."""
    started = time.monotonic()
    try:
        process = Process(command, cwd, build_variables(), log)
    except OSError as error:
        raise EnvironmentFailed(f"{what}: {error}") from error
    try:
        while process.wait(1.0) is None:
            doing = " ".join(process.tail[-1].split())[:60] if process.tail else ""
            progress(f"{name}: {what}, {time.monotonic() - started:.0f} s  {doing}")
    except BaseException:
        process.terminate(grace=2)
        raise
    if process.returncode != 0:
        raise EnvironmentFailed(f"{cause_of_failure(what, process.tail, log.parent)} (all of it: {log})")


def verify(project: Project, python: Path, binaries: Path, folder: Path) -> tuple[str, str]:
    """(Python's version, the framework's version), as the environment tells them under a worker's variables.

    Writes lock.txt. Raises EnvironmentFailed where the framework can't be imported.
    """
    variables = worker_variables(binaries, import_folder(home()), threads=1)

    def output_of(command: list[str], what: str) -> str:
        try:
            done = subprocess.run(
                command, cwd=project.folder, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=VERIFY_TIMEOUT_S,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EnvironmentFailed(f"{what}: {error}") from error
        with open(folder / "build.log", "a") as log:
            log.write(done.stdout + done.stderr)
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or done.stdout.strip().splitlines() or ["it printed nothing"]
            raise EnvironmentFailed(f"{what}: {lines[-1]} (all of it: {log.name})")
        return done.stdout.strip()

    version = output_of([str(python), "-c", "import platform; print(platform.python_version())"], str(python))
    framework = output_of(["bash", "-c", project.command(VERIFY)], f"{project.name} does not work in its environment")
    if not framework:
        raise EnvironmentFailed(f"{project.folder / 'MLproject'}: the entry point verify printed no version")
    inventory = output_of([str(python), "-c", INVENTORY], "listing the installed packages")
    write_durably(folder / "lock.txt", f"# {project.name}, Python {version}\n{inventory}\n")
    return version, framework.splitlines()[-1].strip()


def write_durably(path: Path, text: str) -> None:
    """Write a file that is there whole or not at all, also after a power cut."""
    partial = path.with_name(path.name + ".partial")
    with open(partial, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
