"""The objects of a Chrome trace (the Trace Event Format), one after the other, whatever the file's size.

Read in pieces, since a whole trace as Python objects takes about six times its size: a few MB of text are in memory
at a time. orjson decodes each piece at once, up to where its last whole object ends.
"""

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import orjson

from tbd.measure.events import Absent

PIECE = 4 * 2**20  # characters
LARGEST_OBJECT = 4 * PIECE  # an event has a few hundred characters; without its end it is no event
LIST = re.compile(r'"traceEvents"\s*:\s*\[')
BETWEEN = re.compile(r"[\s,]*")
NEIGHBOURS = re.compile(r"\}\s*,\s*\{")  # between two objects of the list; it may stand within an object too
TAIL, TRIES = 2**16, 3  # characters at a piece's end in which an object's end is looked for; how many are tried


def objects(path: Path) -> Iterator[Any]:
    """What is in the list "traceEvents", or in the list that the file is. Gzipped or not.

    Raises Absent where the file is no whole trace, once it comes to that.
    """
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == b"\x1f\x8b"
        opened: Any = gzip.open if zipped else open
        with opened(path, "rt", encoding="utf-8") as text:
            yield from _objects(text, path.name)
    except (OSError, EOFError, zlib.error) as error:
        raise Absent(f"{path.name} can't be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise Absent(f"{path.name} is no JSON: it was cut off or is no trace") from error


def _objects(file: IO[str], name: str) -> Iterator[Any]:
    """Raises ValueError where the text is no JSON."""
    text, place, bare = _begin(file, name)
    decode = json.JSONDecoder().raw_decode
    several = True  # whether this piece is still to be tried at once
    while True:
        place = _end(BETWEEN.match(text, place))
        if place == len(text):
            text, place = _more(file, text, place)
            several = True
        elif text[place] == "]":
            break
        elif several:
            things, place = _several(text, place)
            yield from things
            several = False
        else:
            try:
                thing, place = decode(text, place)
            except ValueError:
                if len(text) - place > LARGEST_OBJECT:
                    raise
                text, place = _more(file, text, place)
                several = True
                continue
            yield thing
    rest = text[place + 1 :]
    while piece := file.read(PIECE):  # to the end: a gzipped file's checksum stands there
        rest = (rest + piece)[-PIECE:]
    if not rest.rstrip().endswith("}") and not bare:
        raise ValueError("the object has no end")


def _several(text: str, place: int) -> tuple[list[Any], int]:
    """(all objects up to one of the last that seem to end, where the next begins); none where that can't be decoded."""
    ends = [match.start() + 1 for match in NEIGHBOURS.finditer(text, max(place, len(text) - TAIL))]
    for end in ends[: -1 - TRIES : -1]:
        try:
            return orjson.loads(f"[{text[place:end]}]"), end
        except ValueError:  # it is within an object, or behind the list
            continue
    return [], place


def _begin(file: IO[str], name: str) -> tuple[str, int, bool]:
    """(the first pieces, where the list's first object may be, whether the file is the list)."""
    text = ""
    while piece := file.read(PIECE):
        text += piece
        if text.lstrip().startswith("["):
            return text, text.index("[") + 1, True
        if found := LIST.search(text):
            return text, found.end(), False
    json.loads(text)  # where it is whole, only the list is missing
    raise Absent(f"{name} is no Chrome trace: it has no traceEvents")


def _more(file: IO[str], text: str, place: int) -> tuple[str, int]:
    """The text from `place` on with the next piece behind it."""
    piece = file.read(PIECE)
    if not piece:
        raise ValueError("the text ends within the list")
    return text[place:] + piece, 0


def _end(match: re.Match[str] | None) -> int:
    assert match is not None
    return match.end()
