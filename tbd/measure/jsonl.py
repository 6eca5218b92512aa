"""Files of JSON objects, one a line (docs/events.md), as a crash may have left them. Reading never fails."""

import json
from pathlib import Path
from typing import Any


def objects(data: bytes) -> tuple[list[dict[str, Any]], int]:
    """(the JSON objects, how many lines were dropped) of a file's content.

    A last line without its newline was torn by a crash: it is dropped, parse or not, as is any that is no JSON object.
    """
    *lines, torn = data.split(b"\n")
    found, dropped = [], int(bool(torn))
    for line in lines:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            found.append(value)
        else:
            dropped += 1
    return found, dropped


def read(path: Path) -> tuple[list[dict[str, Any]], int]:
    """(the JSON objects, how many lines were dropped); a file that is not there is empty."""
    try:
        return objects(path.read_bytes())
    except OSError:
        return [], 0


def read_tail(path: Path, size: int) -> list[dict[str, Any]]:
    """The JSON objects in the last `size` bytes of a file, however long it is."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - size))
            return objects(file.read())[0]
    except OSError:
        return []


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object that a whole file is; {} where it is not there, or none."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
