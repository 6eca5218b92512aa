"""python -m tests.faults.server_table: every fault on a real server, what was lost; writes docs/server-faults.md."""

import argparse
import datetime
import os
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

from tbd.server.settings import free_ports
from tests.commands import ROOT
from tests.faults.server_accounts import Account, account
from tests.faults.server_faults import FAULTS, Scene
from tests.server.stack import Stack, open_folder

HEAD = """# Faults between a run and the server

Each fault was brought about on a real server (PostgreSQL, SeaweedFS and MLflow with authentication, as
`python -m tbd.serve` starts them), while runs of `python -m tbd.train` or `python -m tbd.sync` went on; then what was
broken was mended, and what waited was sent by the next run or by `python -m tbd.sync`. A point is one value of a
metric; it is lost where the server has it not exactly as the spool gives it, and a duplicate where the server has one
more. Files were downloaded and held against SHA256SUMS and the spool. Runs must be there once, with the right status.

`make server-faults` writes a row for each fault; a row says when, and on a machine of how many cores. A fault of
`tests/faults/server_faults.py` that has no row here has not been run to a clean end yet.

| fault | runs | points | lost | duplicated | files | wrong files | else | when |
|---|---|---|---|---|---|---|---|---|
"""
TABLE = ROOT / "docs" / "server-faults.md"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.server_table", description=__doc__)
    parser.add_argument("words", nargs="*", help="only faults with one of these in their name; other rows stay")
    parser.add_argument("--missing", action="store_true", help="only faults that have no clean row yet")
    options = parser.parse_args(arguments)
    chosen = [name for name in FAULTS if not options.words or any(word in name for word in options.words)]
    if options.missing:
        chosen = [name for name in chosen if not is_clean(rows().get(name, ""))]
    failed = 0
    folder = open_folder()
    stack = Stack(folder / "server")
    try:
        stack.start("--port", str(free_ports(1)[0]))
        user = stack.new_user()
        for name in chosen:
            home = Path(tempfile.mkdtemp(prefix="tbd-fault-"))
            try:
                FAULTS[name](Scene(stack, user, home))
                found = account(home / "runs", user)
            except Exception as error:
                traceback.print_exc()
                found = Account(wrong=(f"{type(error).__name__}: {error}"[:200],))
            finally:
                stack.start()
                shutil.rmtree(home, ignore_errors=True)
            failed += not found.clean
            print(keep(name, found), flush=True)
    finally:
        stack.stop()
        shutil.rmtree(folder)
    return 1 if failed else 0


def keep(name: str, found: Account) -> str:
    """Write the fault's row into the table, in place of an earlier one; gives it."""
    rest = "; ".join(found.wrong).replace("\n", " ").replace("|", "/") or "0"
    counts = (found.runs, found.points, found.lost, found.duplicated, found.files, found.files_wrong)
    when = f"{datetime.date.today()}, {os.cpu_count()} cores"
    row = f"| {name} | {' | '.join(f'{count:,}' for count in counts)} | {rest} | {when} |"
    kept = rows() | {name: row}
    TABLE.write_text(HEAD + "".join(f"{kept[fault]}\n" for fault in FAULTS if fault in kept))
    return row


def is_clean(row: str) -> bool:
    """Whether a row of the table has nothing lost, duplicated, wrong or else."""
    cells = row.strip("| ").split(" | ")
    return len(cells) == 9 and {*cells[3:5], *cells[6:8]} == {"0"}


def rows() -> dict[str, str]:
    """The table's rows so far, by fault."""
    lines = TABLE.read_text().splitlines() if TABLE.exists() else []
    found = {line.split(" | ")[0].removeprefix("| "): line for line in lines}
    return {name: found[name] for name in FAULTS if name in found}


if __name__ == "__main__":
    sys.exit(main())
