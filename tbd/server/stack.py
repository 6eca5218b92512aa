"""The server as a whole: its parts in the order in which they need each other."""

import dataclasses
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import psutil
from filelock import FileLock

from tbd.server import accounts, mlflow_server, postgresql, processes, seaweedfs
from tbd.server.processes import Part
from tbd.server.settings import Home, Settings, free_ports

SERVING_LIMIT_S = 300.0  # generous: the first start makes a database's tables, on a loaded machine perhaps


@dataclass(frozen=True)
class State:
    """How a part is. `problem` is None where it serves."""

    name: str
    pid: int | None
    problem: str | None


def parts(home: Home, settings: Settings) -> list[Part]:
    """Those that run here, what others need first."""
    found = []
    if not home.secrets().get("database_uri"):
        found.append(postgresql.part(home))
    if not settings.s3:
        found.append(seaweedfs.part(home, settings))
    return [*found, mlflow_server.part(home, settings)]


def configure(home: Home, given: dict[str, Any]) -> tuple[Settings | None, Settings]:
    """Make the folder, and keep the given settings for later starts; gives those before and after. Raises Refused."""
    home.make()
    with lock(home):  # several parts may come up at once
        home.secrets()
        before = home.settings()
        settings = dataclasses.replace(before or Settings(), **given)
        settings.check()
        if not settings.s3 and not settings.seaweedfs_ports:
            settings = dataclasses.replace(settings, seaweedfs_ports=free_ports(len(seaweedfs.PORTS)))
        if settings != before:
            home.save(settings)
    return before, settings


def start(home: Home, settings: Settings, wanted: set[str] | None = None) -> list[str]:
    """Start what doesn't run yet (of `wanted`, or all), and wait until all serves; gives what was started."""
    with lock(home):
        chosen = [part for part in parts(home, settings) if wanted is None or part.name in wanted]
        if mlflow_server.NAME in (part.name for part in chosen) and not processes.running(home, mlflow_server.NAME):
            mlflow_server.check_port(settings)  # before the others are made and started for nothing
        absent = [part for part in chosen if processes.running(home, part.name) is None]
        others = [part for part in absent if part.name != mlflow_server.NAME]
        with ThreadPoolExecutor() as pool:  # side by side: a first start makes a database, which takes seconds
            list(pool.map(bring_up, itertools.repeat(home), others))
        for part in absent[len(others) :]:  # MLflow, which waits for them
            bring_up(home, part)
        for part in chosen:
            processes.wait_until_serving(home, part, SERVING_LIMIT_S)
    return [part.name for part in absent]


def bring_up(home: Home, part: Part) -> None:
    part.prepare()
    processes.start(home, part)


def stop(home: Home, settings: Settings, wanted: set[str] | None = None) -> list[str]:
    """End what runs, in the reverse order; gives what was ended."""
    with lock(home):
        chosen = [part for part in reversed(parts(home, settings)) if wanted is None or part.name in wanted]
        return [part.name for part in chosen if processes.stop(home, part.name, part.stop_by)]


def states(home: Home, settings: Settings) -> Iterator[State]:
    """Each part, asked."""
    for part in parts(home, settings):
        process: psutil.Process | None = processes.running(home, part.name)
        yield State(part.name, process.pid if process else None, part.problem())


def lock(home: Home) -> FileLock:
    """Held while parts are started or ended."""
    accounts.touch(home.path / "lock", home.account)
    return FileLock(home.path / "lock", timeout=300)
