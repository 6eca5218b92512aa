"""python -m tbd.sync: bring runs into MLflow that are not there yet, whole or in part. As often as one likes."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tbd.tracking.spool import Spool
    from tbd.tracking.store import Settings

EXIT_OK = 0
EXIT_PENDING = 1  # something could not be sent
EXIT_USAGE = 2


def main(arguments: list[str] | None = None) -> int:
    """Gives the exit code: 0 all is there, 1 something is still to be sent, 2 a folder is no run's."""
    parser = argparse.ArgumentParser(
        prog="python -m tbd.sync",
        description="Bring runs into MLflow that are not there yet: offline ones, and those whose server was away. The "
        "store is the one of MLFLOW_TRACKING_URI, else where the run already is, else sqlite:///mlflow.db here.",
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

    settings = Settings()
    if options.status:
        states = [status(spool, settings) for spool in chosen]
        for spool, state in zip(chosen, states, strict=True):
            print(f"{spool.path.name}: {state}")
        return EXIT_PENDING if any(state.startswith("to be sent") for state in states) else EXIT_OK

    for spool in chosen:
        end_if_dead(spool)
    return send(chosen, settings)


def status(spool: "Spool", settings: "Settings") -> str:
    """One line on where a run stands."""
    from tbd.tracking.follower import waits
    from tbd.tracking.reaper import cause_of_death

    if spool.ended() is None:
        cause = cause_of_death(spool)
        return "running" if cause is None else f"to be sent; without an end: {cause}"
    return "to be sent" if waits(spool, settings) else "in MLflow"


def send(chosen: "list[Spool]", settings: "Settings") -> int:
    """Bring up to date what waits, saying so; gives the exit code. A store that is away is asked once."""
    from tbd.tracking.follower import follow, waits

    sent = pending = 0
    away: dict[str, str] = {}
    for spool in chosen:
        if spool.ended() is None or not waits(spool, settings):
            continue
        store = store_name(spool, settings)
        if store in away:
            pending += 1
            continue
        outcome = follow(spool, settings)
        if outcome.state == "pending":
            pending += 1
            print(f"{spool.path.name}: not sent: {outcome.reason}", file=sys.stderr)
            if not outcome.reached:
                away[store] = outcome.reason
        else:
            sent += 1
            print(f"{spool.path.name}: in MLflow as run {outcome.run_id} of {outcome.tracking_uri}")
    print(f"{sent} sent, {pending} still to be sent, {len(chosen) - sent - pending} had nothing to send")
    return EXIT_PENDING if pending else EXIT_OK


def store_name(spool: "Spool", settings: "Settings") -> str:
    """The store that a run goes to, without credentials."""
    from tbd.tracking.redaction import without_credentials
    from tbd.tracking.store import tracking_uri

    return without_credentials(tracking_uri(settings, spool))


if __name__ == "__main__":
    sys.exit(main())
