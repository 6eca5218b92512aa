"""Which version of this code runs."""

import os
import subprocess
from pathlib import Path
from typing import Any

import tbd
from tbd.tracking.redaction import harmless


def git_source() -> dict[str, Any]:
    """{"commit", "dirty"} of the checkout that this package is a tracked part of; {} for an installed one."""
    package = Path(tbd.__file__).resolve().parent
    try:
        # an environment inside somebody else's checkout must not pass for that checkout
        _git(package, "ls-files", "--error-unmatch", "__init__.py")
        return {"commit": _git(package, "rev-parse", "HEAD"), "dirty": bool(_git(package, "status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return {}


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env=harmless(os.environ),
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=10,
    )
    return done.stdout.strip()
