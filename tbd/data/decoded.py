"""What the sources whose files are decoded have in common: processes that read ahead, and a count of broken files."""

import itertools
import logging

from tbd.data.prefetch import InProcesses, InThread
from tbd.data.source import BadData, Share, Source

AHEAD = 2  # batches that wait for the loop, beside the one or two that each process has ready or in hand
SPARES = 9  # files that may take a broken one's place, one after another

logger = logging.getLogger(__name__)


class Decoded(Source):
    """Batches that `read` makes of the subclass's `requests()` in data.workers processes, the same for any number.

    A subclass sets `files`, how many files there are, `noun`, what they are, and has

        requests()              what read(request) takes, batch after batch, without end
        batch(number, answer)   the Batch of that number of what read gave
    """

    files = 0
    noun = "pictures"

    def __init__(self, specification, request, read):
        self._specification, self._share, self._read = specification, Share(request), read
        self._workers, self._broken_share = request["data"]["workers"], request["data"]["max_broken_share"]
        self._broken = {}  # {path: what is wrong}, as far as found
        self._processes = self._thread = None

    def batches(self):
        self.close()
        self._processes = InProcesses(self._read, self.requests(), self._workers)
        self._thread = InThread(itertools.starmap(self.batch, enumerate(self._processes)), AHEAD)
        return self._thread

    def close(self):
        if self._thread is not None:
            self._processes.close()
            self._thread.close()
            self._processes = self._thread = None

    def skipped(self):
        """{why: 1} of the broken files."""
        return {"%s is broken (%s)" % (path, why): 1 for path, why in sorted(self._broken.items())}

    def note_broken(self, found):
        """Note [(path, what is wrong)]. Raises BadData where too many files are broken."""
        most = int(self._broken_share * self.files)
        for path, why in found:
            if path not in self._broken:
                self._broken[path] = why
                logger.warning("skipped %s, which is broken (%s)", path, why)
                if len(self._broken) > most:
                    message = "%s is broken (%s): that makes %d of %d %s, but data.max_broken_share=%g allows %d"
                    counts = len(self._broken), self.files, self.noun, self._broken_share, most
                    raise BadData(message % ((path, why) + counts))


def first_readable(candidates, read, broken):
    """read(candidate) of the first candidate, each with a `path`, that can be read; None where none can.

    Appends (path, what is wrong) of those before it to `broken`.
    """
    for candidate in candidates:
        try:
            return read(candidate)
        except MemoryError:
            raise
        except Exception as error:  # Pillow raises OSError, SyntaxError, ValueError, struct.error, ...: broken
            broken.append((candidate.path, "%s: %s" % (type(error).__name__, error)))
    return None


def import_pictures(name):
    """The module tbd.data.pictures for the source of that name. Raises BadData where Pillow is missing."""
    try:
        from tbd.data import pictures
    except ImportError as error:
        raise BadData("data=%s needs Pillow in the framework's environment: %s" % (name, error))
    return pictures
