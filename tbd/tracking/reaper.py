"""Gives the runs of a killed controller their end. Live ones, and those that may be, stay untouched."""

import contextlib
import os
import socket
import time
from pathlib import Path

from tbd.tracking import process
from tbd.tracking.follower import Outcome, follow
from tbd.tracking.spool import Spool, spools
from tbd.tracking.store import Settings

STATUS = "interrupted"


def reap(root: Path, settings: Settings) -> list[tuple[Spool, Outcome]]:
    """End every dead run under `root` and bring MLflow up to date with it. Gives what was reaped.

    A store that is away is asked once: what is to be sent waits in the spools.
    """
    reaped = [spool for spool in spools(root) if end_if_dead(spool)]
    outcomes: list[tuple[Spool, Outcome]] = []
    for spool in reaped:
        away = next((outcome for _, outcome in outcomes if not outcome.reached), None)
        offline = (spool.run.get("tracking") or {}).get("mode") == "offline"
        outcomes.append((spool, Outcome("offline") if offline else away or follow(spool, settings)))
    return outcomes


def end_if_dead(spool: Spool) -> bool:
    """Write the end of a run whose controller was killed; gives whether it did. Read-only folders stay."""
    from filelock import FileLock, Timeout

    if is_over(spool) or cause_of_death(spool) is None or not os.access(spool.path, os.W_OK):
        return False
    # another process may be reaping it: it will do what is to be done
    with contextlib.suppress(Timeout), FileLock(spool.path / ".reap.lock", timeout=0):
        cause = cause_of_death(spool)
        if spool.ended() is None and cause is not None:
            spool.end(STATUS, cause, t=_last_sign(spool), reaped_wall_time=time.time())
            return True
    return False


def is_over(spool: Spool) -> bool:
    """Whether the run has its end: at most the tail of a file is read, since every start asks it of every run."""
    return (spool.path / "synced.json").exists() or spool.ended() is not None


def cause_of_death(spool: Spool) -> str | None:
    """Why the run without an end has none; None where its controller runs, or runs perhaps.

    A process is known by its id and start time, within one boot and one PID namespace of one host. Of another host, or
    of another container of this host, nothing is known from here.
    """
    run = spool.run
    if run.get("host") != socket.gethostname() or not run.get("boot_id"):
        return None
    if run["boot_id"] != process.boot_id():
        return "the controller was killed: the machine was restarted"
    if run.get("pid_namespace") != process.pid_namespace():
        return None
    alive = run.get("start_ticks") is not None and process.start_ticks(int(run["pid"])) == run["start_ticks"]
    return None if alive else "the controller was killed"


def _last_sign(spool: Spool) -> float:
    """The time of the last event, on the run's own monotonic clock: that of another boot would mean nothing."""
    times = [event["t"] for event in [*spool.controller_events(), *spool.worker_events()] if "t" in event]
    return max((float(t) for t in times if isinstance(t, int | float)), default=0.0)
