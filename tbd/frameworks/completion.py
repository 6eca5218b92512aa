"""When an asynchronous device was done with each step, for frameworks that don't tell its own times."""

import contextlib
import queue
import threading
import time

from tbd.frameworks.base import RUN_AHEAD


class Completions:
    """A thread waits for one step after the other and notes when each was done.

    `wait(handle)` returns when the step of that handle is done. The loop that trains can't do it: where it is slower
    than the device, it would come to a step that has long been done, and note the time of its own coming.
    """

    def __init__(self, wait):
        self._wait = wait
        self._handles = queue.Queue()
        self._room = threading.Semaphore(RUN_AHEAD)
        self._ends = []
        threading.Thread(target=self._watch, name="completions", daemon=True).start()

    def add(self, handle):
        """Note a step that was enqueued; blocks while more than RUN_AHEAD are not done."""
        self._handles.put(handle)
        self._room.acquire()

    def take(self):
        """When each step since the last call was done, all of them being so by then."""
        self._handles.join()
        ends, self._ends = self._ends, []
        return ends

    def _watch(self):
        while True:
            handle = self._handles.get()
            with contextlib.suppress(Exception):  # whoever reads the step's loss meets the same error
                self._wait(handle)
            self._ends.append(time.monotonic())
            self._room.release()
            self._handles.task_done()
