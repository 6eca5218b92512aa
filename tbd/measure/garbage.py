"""The interpreter's search for garbage, where there is none to be found."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_collecting() -> Iterator[None]:
    """No looking for garbage in cycles: of a million objects, none of them in one, that takes most of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
