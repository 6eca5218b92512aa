"""The Python interpreters at hand: the running one, those on PATH, those that pyenv installed."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tbd.launch.variables import build_variables

# Works from Python 3.6 on. Within a virtual environment it gives the installation that the environment was made from:
# an environment on top of an environment would die with it. Without venv or ensurepip (Debian keeps them in packages of
# their own, python3.11-venv) no environment can be made.
PROBE = """
import json, os, sys
name = os.path.join(sys.base_prefix, "bin", "python%d.%d" % sys.version_info[:2])
try:
    import ensurepip, venv
    complete = True
except ImportError:
    complete = False
print(json.dumps([name if os.path.exists(name) else sys.executable, "%d.%d.%d" % sys.version_info[:3], complete]))
"""


@dataclass(frozen=True)
class Interpreter:
    path: Path
    version: str  # such as "3.11.7"
    complete: bool  # whether `-m venv` works

    def matches(self, wanted: str) -> bool:
        """Whether its version is the wanted one or, where "3.11" is wanted, one of that minor version."""
        return is_version(self.version, wanted)


def is_version(version: str, wanted: str) -> bool:
    """Whether `version` begins with the parts of `wanted`: 3.11.7 is 3.11, 3.1.0 isn't."""
    parts = wanted.split(".")
    return version.split(".")[: len(parts)] == parts


@lru_cache
def probe(path: Path) -> Interpreter | None:
    """What the interpreter at `path` is; None where it doesn't run."""
    try:
        output = subprocess.run(
            [path, "-c", PROBE], capture_output=True, text=True, timeout=60, check=True, env=build_variables(), cwd="/"
        ).stdout
        base, version, complete = json.loads(output)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return Interpreter(Path(base), version, complete)


def pyenv_root() -> Path:
    """Where pyenv keeps its versions."""
    return Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")


def pyenv_versions(wanted: str) -> list[Path]:
    """The interpreters of the wanted version that pyenv has installed, the newest first."""
    found = [folder for folder in pyenv_root().glob("versions/*") if is_version(folder.name, wanted)]
    found.sort(
        key=lambda folder: [int(part) if part.isdigit() else -1 for part in folder.name.split(".")], reverse=True
    )
    return [folder / "bin" / "python" for folder in found]


def candidates(wanted: str) -> Iterator[Path]:
    """Where an interpreter of the wanted version may be, the likeliest first."""
    if is_version("{}.{}.{}".format(*sys.version_info[:3]), wanted):
        yield Path(sys.executable)
    minor = ".".join(wanted.split(".")[:2])
    for folder in os.get_exec_path():
        if path := shutil.which(f"python{minor}", path=folder):
            yield Path(path)
    yield from pyenv_versions(wanted)


def at_hand(wanted: str) -> Iterator[Interpreter]:
    """The interpreters of the wanted version that run here, each once, the likeliest first."""
    seen = set()
    for path in candidates(wanted):
        interpreter = probe(path)
        if interpreter and interpreter.matches(wanted) and interpreter.path not in seen:
            seen.add(interpreter.path)
            yield interpreter
