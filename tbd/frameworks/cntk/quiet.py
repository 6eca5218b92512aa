"""What CNTK's libraries write to file descriptor 2, kept: notes that no level of logging silences, and memory plans."""

import contextlib
import os
import sys
import tempfile


@contextlib.contextmanager
def held_stderr():
    """Gives a list that at the end has what was written within; writes it out where an exception leaves the block."""
    sys.stderr.flush()
    original = os.dup(2)
    written = []
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        failed = True
        try:
            yield written
            failed = False
        finally:
            os.dup2(original, 2)
            os.close(original)
            held.seek(0)
            text = held.read()
            written.append(text.decode("utf-8", "replace"))
            if failed:
                os.write(2, text)
