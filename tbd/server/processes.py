"""The processes of a server: apart from the terminal, known by boot, pid and time of start, ended kindly."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tbd.server import Refused, accounts
from tbd.server.settings import Home
from tbd.tracking.process import boot_id, start_ticks

LOOK_EVERY_S = 0.05


@dataclass(frozen=True)
class Part:
    """One of the server's processes. `prepare` makes what it needs; `problem` says why it doesn't serve, if so."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    prepare: Callable[[], None]
    problem: Callable[[], str | None]
    stop_by: signal.Signals = signal.SIGTERM
    ours: bool = True  # its program is of this checkout's Python

    def variables(self) -> dict[str, str]:
        """The whole environment of the process: nothing of the caller's but where programs and the clock are."""
        kept = ("PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "LD_LIBRARY_PATH")
        return {name: os.environ[name] for name in kept if name in os.environ} | dict(self.environment)


def running(home: Home, name: str) -> psutil.Process | None:
    """The part's process where it lives."""
    try:
        known = json.loads(record(home, name).read_text())
        # not by the clock's time, which may be set while the process lives
        same = known == identity(known["pid"]) and known["start_ticks"] is not None
        return psutil.Process(known["pid"]) if same else None
    except (FileNotFoundError, ValueError, KeyError, TypeError, psutil.NoSuchProcess):
        return None


def record(home: Home, name: str) -> Path:
    return home.path / "running" / f"{name}.json"


def log(home: Home, name: str) -> Path:
    return home.path / "logs" / f"{name}.log"


def start(home: Home, part: Part) -> None:
    """Start the part in the background. What it prints goes to its log."""
    accounts.touch(log(home, part.name), home.account)
    with log(home, part.name).open("ab") as output:
        process = subprocess.Popen(
            [*accounts.becoming(home.account, part.ours), *part.command],
            cwd=home.path,
            env=part.variables(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    note(home, part.name, process.pid)


def note(home: Home, name: str, pid: int) -> None:
    """Keep which process the part is."""
    home.write(f"running/{name}.json", json.dumps(identity(pid)))


def identity(pid: int) -> dict[str, Any]:
    """What no other process has, now or after a boot; of one that doesn't live, start_ticks is None."""
    return {"pid": pid, "boot_id": boot_id(), "start_ticks": start_ticks(pid)}


def run(home: Home, part: Part) -> None:
    """Become the part, in the foreground; for systemd and containers. Does not return."""
    note(home, part.name, os.getpid())
    command = [*accounts.becoming(home.account, part.ours), *part.command]
    os.chdir(home.path)
    os.execvpe(command[0], command, part.variables())


def wait_until_serving(home: Home, part: Part, limit_s: float) -> None:
    """Raises Refused where the part dies, or doesn't serve in time."""
    deadline = time.monotonic() + limit_s
    while problem := part.problem():
        if running(home, part.name) is None:
            raise Refused(f"{part.name} ended: {last_words(home, part.name)}")
        if time.monotonic() > deadline:
            raise Refused(f"{part.name} doesn't serve after {limit_s:g} s: {problem}; see {log(home, part.name)}")
        time.sleep(LOOK_EVERY_S)


def last_words(home: Home, name: str) -> str:
    """The end of the part's log, in a line."""
    lines = log(home, name).read_text(errors="replace").strip().splitlines()[-5:]
    return f"{' | '.join(line.strip() for line in lines) or 'without a word'} ({log(home, name)})"


def stop(home: Home, name: str, by: signal.Signals, limit_s: float = 30.0) -> bool:
    """End the part, kindly first, and all that it started; gives whether it ran."""
    process = running(home, name)
    if process is None:
        record(home, name).unlink(missing_ok=True)
        return False
    process.send_signal(by)
    deadline = time.monotonic() + limit_s
    while running(home, name) is not None and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY_S)
    kill_group(process.pid)
    record(home, name).unlink(missing_ok=True)
    return True


def kill_group(leader: int) -> None:
    """End whatever is left of a part: its process group, as it led one of its own."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return
