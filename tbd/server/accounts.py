"""The account that a server's processes run as: the user who starts it, but never root."""

import functools
import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tbd
from tbd.server import Refused

NAMES = ("tbd", "postgres")  # the first that is there: made for it, or PostgreSQL's own


@dataclass(frozen=True)
class Account:
    name: str
    uid: int
    gid: int


def account() -> Account | None:
    """Whom to become; None: nobody, as the caller isn't root. Raises Refused where root has nobody to become."""
    if os.geteuid() != 0:
        return None
    for name in NAMES:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, found.pw_uid, found.pw_gid)
    raise Refused("a server doesn't run as root, and there is no account for it: useradd --system tbd")


def becoming(account: Account | None, ours: bool = False) -> list[str]:
    """What comes before a command to run it as the account, without any right of root's (setpriv(1) of util-linux).

    `ours`: the command is of this checkout or its Python. Where these lie closed to the account (in root's own folder,
    say), it gets the one right to read, CAP_DAC_READ_SEARCH of capabilities(7): less than root, more than need be.
    """
    if account is None:
        return []
    rights = "-all,+dac_read_search" if ours and not reaches(account) else "-all"
    kinds = [f"--{kind}={rights}" for kind in ("inh-caps", "ambient-caps", "bounding-set")]
    return ["setpriv", f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups", "--no-new-privs", *kinds]


@functools.cache
def reaches(account: Account) -> bool:
    """Whether the account can read this checkout and run its Python."""
    return all(
        run(["test", flag, str(path)], account).returncode == 0
        for flag, path in (("-x", Path(sys.executable)), ("-r", Path(tbd.__file__)))
    )


def run(command: Sequence[str], account: Account | None, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command as the account, to its end."""
    return subprocess.run([*becoming(account), *command], text=True, capture_output=True, cwd="/", **options)


def check_reach(account: Account | None, folder: Path) -> None:
    """Raises Refused where the account can't get at the folder."""
    if run(["test", "-x", str(folder)], account).returncode:
        name = account.name if account else "this user"
        raise Refused(f"{folder}: {name}, as whom the server runs, can't reach it: name another by --folder")


def private_folder(path: Path, account: Account | None) -> None:
    """Made where it isn't, and the account's alone."""
    path.mkdir(mode=0o700, exist_ok=True)
    path.chmod(0o700)
    if account is not None:
        os.chown(path, account.uid, account.gid)


def touch(path: Path, account: Account | None) -> None:
    """An empty file of the account's alone, where there is none."""
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    if account is not None:
        os.fchown(descriptor, account.uid, account.gid)
    os.close(descriptor)


def private_file(path: Path, text: str, account: Account | None) -> Path:
    """The account's alone (0600), whole or not at all."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # 0600
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
        if account is not None:
            os.fchown(file.fileno(), account.uid, account.gid)
    os.replace(name, path)
    return path
