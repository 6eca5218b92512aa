"""python -m tbd.sync: bring runs into MLflow that are not there yet, whole or in part. As often as one likes."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tbd.tracking.follower import Outcome
    from tbd.tracking.spool import Spool
    from tbd.tracking.store import Settings

EXIT_OK = 0
EXIT_PENDING = 1  # something could not be sent
EXIT_USAGE = 2
AT_ONCE = 4  # runs: while one is on its way to the server, others are read here
CATCH_UP_S = 60.0  # how long a run whose own record is made goes on with what earlier ones left


class Sent(NamedTuple):
    """How many runs were sent, could not be sent, had nothing to send."""

    sent: int
    pending: int
    idle: int


def main(arguments: list[str] | None = None) -> int:
    """Gives the exit code: 0 all is there, 1 something is still to be sent, 2 a folder is no run's."""
    parser = argparse.ArgumentParser(
        prog="python -m tbd.sync",
        description="Bring runs into MLflow that are not there yet: offline ones, and those whose server was away. The "
        "store is the one of MLFLOW_TRACKING_URI, else where the run already is or was to go, else "
        "sqlite:///mlflow.db here.",
        epilog="Exit code: 0 all is there, 1 something is still to be sent, 2 a folder is no run's.",
    )
    parser.add_argument("spools", nargs="*", type=Path, metavar="SPOOL", help="folders of runs; default: all that wait")
    parser.add_argument("--runs", type=Path, default=Path("runs"), metavar="FOLDER", help="where runs are (runs)")
    parser.add_argument("--status", action="store_true", help="only say what is to be sent")
    options = parser.parse_args(arguments)

    from tbd.tracking.reaper import end_if_dead
    from tbd.tracking.spool import NoSpool, Spool, spools
    from tbd.tracking.store import Settings

    try:
        chosen = [Spool.open(path) for path in options.spools] if options.spools else spools(options.runs)
    except NoSpool as error:
        print(f"tbd.sync: {error}", file=sys.stderr)
        return EXIT_USAGE
    if not options.spools and not options.runs.is_dir():
        print(f"tbd.sync: there is no folder {options.runs}: name the runs' one by --runs", file=sys.stderr)
        return EXIT_USAGE

    if options.status:
        states = [status(spool, Settings.of_spool(spool)) for spool in chosen]
        for spool, state in zip(chosen, states, strict=True):
            print(f"{spool.path.name}: {state}")
        return EXIT_PENDING if any(state.startswith("to be sent") for state in states) else EXIT_OK

    for spool in chosen:
        end_if_dead(spool)
    done = send(chosen, Settings.of_spool, told=print, failed=lambda text: print(text, file=sys.stderr))
    print(f"{done.sent} sent, {done.pending} still to be sent, {done.idle} had nothing to send")
    return EXIT_PENDING if done.pending else EXIT_OK


def status(spool: "Spool", settings: "Settings") -> str:
    """One line on where a run stands."""
    from tbd.tracking.artifacts import unsent_bytes
    from tbd.tracking.follower import waits
    from tbd.tracking.reaper import cause_of_death

    dead = ""
    if spool.ended() is None:
        cause = cause_of_death(spool)
        if cause is None:
            return "running"
        dead = f"; without an end: {cause}"
    elif not waits(spool, settings):
        return "in MLflow"
    store = store_name(spool, settings)
    return f"to be sent: {unsent_bytes(spool, store) / 1e6:,.1f} MB of files to {store}{dead}"


def meant_for(uri: str | None, chosen: "list[Spool]") -> "list[Spool]":
    """Those of the runs whose record was to go to this store when they began (None: to MLflow's default)."""
    found = []
    for spool in chosen:
        tracking = spool.run.get("tracking") or {}
        if tracking.get("mode", "offline") != "offline" and tracking.get("uri") == uri:
            found.append(spool)
    return found


def send(
    chosen: "list[Spool]",
    settings_of: "Callable[[Spool], Settings]",
    *,
    told: Callable[[str], None] = lambda text: None,
    failed: Callable[[str], None] = lambda text: None,
    limit_s: float = float("inf"),
    turn_s: float | None = None,
) -> Sent:
    """Bring up to date what waits, saying so. A store that is away is asked once.

    No run is begun with after `limit_s` seconds. `turn_s`: how long to wait for another process that sends the same
    run; None: as long as it may take.
    """
    from tbd.tracking.follower import follow, waits
    from tbd.tracking.store import LOCK_TIMEOUT_S

    until = time.monotonic() + limit_s
    away: set[str] = set()
    sent = pending = 0

    def one(spool: "Spool", settings: "Settings", store: str) -> "Outcome | None":
        """Send one run, if its time has not passed and its store has not gone; None where it wasn't tried."""
        if store in away or time.monotonic() >= until:
            return None
        outcome = follow(spool, settings, turn_s=LOCK_TIMEOUT_S if turn_s is None else turn_s)
        if outcome.state == "pending" and not outcome.reached:
            away.add(store)
        return outcome

    waiting: dict[tuple[Settings, str], list[Spool]] = {}
    for spool in chosen:
        settings = settings_of(spool)
        if spool.ended() is not None and waits(spool, settings):
            waiting.setdefault((settings, store_name(spool, settings)), []).append(spool)
    for (settings, store), spools in waiting.items():
        for spool, outcome in side_by_side(one, spools, settings, store):
            if outcome is None:
                pending += 1
            elif outcome.state == "busy":
                told(f"{spool.path.name}: another process is sending it")
            elif outcome.state == "pending":
                pending += 1
                failed(f"{spool.path.name}: not sent: {outcome.reason}")
            else:
                sent += 1
                told(f"{spool.path.name}: in MLflow as run {outcome.run_id} of {outcome.tracking_uri}")
    return Sent(sent, pending, len(chosen) - sent - pending)


def side_by_side(
    one: "Callable[[Spool, Settings, str], Outcome | None]", spools: "list[Spool]", settings: "Settings", store: str
) -> "Iterator[tuple[Spool, Outcome | None]]":
    """(run, what became of it) of runs that go to one store, several of them at a time where it is a server.

    First, by itself, the one that tells whether the server is there, and sweeps, which look for what belongs to them.
    """
    from tbd.tracking import access
    from tbd.tracking.store import PATIENT_RETRIES, PATIENT_S, patience

    alone = max(1, sum(spool.run.get("kind") == "sweep" for spool in spools))
    outcome = None
    for spool in spools[:alone]:
        outcome = one(spool, settings, store)
        yield spool, outcome
    rest = spools[alone:]
    if outcome is None or not outcome.reached:
        yield from ((spool, None) for spool in rest)
        return
    # what each would set in the environment, which is common to all, is set for all of them
    with access.environment(settings.variables()), patience(PATIENT_RETRIES, PATIENT_S):
        pool = ThreadPoolExecutor(AT_ONCE if store.startswith("http") else 1)
        try:
            results = [pool.submit(one, spool, settings, store) for spool in rest]
            for spool, result in zip(rest, results, strict=True):
                yield spool, result.result()
        finally:
            pool.shutdown(cancel_futures=True)


def store_name(spool: "Spool", settings: "Settings") -> str:
    """The store that a run goes to, without credentials."""
    from tbd.tracking.redaction import without_credentials
    from tbd.tracking.store import tracking_uri

    return without_credentials(tracking_uri(settings, spool))


if __name__ == "__main__":
    sys.exit(main())
