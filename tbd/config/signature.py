"""What a run is the same run by: its configuration, the code that measures, and what its environment is made of."""

import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tbd
from tbd.launch import environments, managers, project

# what follows from a recorded run and decides none of its figures
NO_CODE_OF_A_RUN = ("analysis",)


def signature(config: Mapping[str, Any]) -> str:
    """Of a run with this resolved configuration, wherever its record goes."""
    kept = {key: value for key, value in config.items() if key not in ("tracking", "sweep")}
    return digest([json.dumps(kept, sort_keys=True), code(), environment(config["framework"])])


def digest(texts: list[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


@functools.cache
def code() -> str:
    """Of the package's own files."""
    package = Path(tbd.__file__).parent
    return _of_files(
        package, [path for path in package.rglob("*.py") if path.relative_to(package).parts[0] not in NO_CODE_OF_A_RUN]
    )


def environment(framework: Mapping[str, Any]) -> str:
    """Of a framework's project folder, whose requirements name every version, and of the interpreter that it names."""
    try:
        found = project.load(framework["project"] or framework["name"])
    except project.BadProject as error:  # the run ends with it
        return error.cause
    files = [path for path in found.folder.iterdir() if path.is_file()]
    parts = [found.digest, _of_files(found.folder, files)]
    if framework["python"]:
        try:
            parts += [framework["python"], *map(str, environments.stamp(Path(framework["python"]), managers.LOCAL))]
        except OSError:
            parts.append(framework["python"])  # it isn't there: the run will say so
    return digest(parts)


def _of_files(folder: Path, files: list[Path]) -> str:
    sha = hashlib.sha256()
    for path in sorted(files):
        sha.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return sha.hexdigest()
