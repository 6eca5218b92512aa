"""A child process that can't be lost: in a session of its own, watched, its output kept, ended with all it started."""

import collections
import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

TAIL_LINES = 50
LONGEST_LINE = 4096  # bytes of one line kept in memory: a progress bar may never end its line

# Reads the child's process group, then waits. A second line means that the child has ended; the end of the pipe without
# one, that the controller died, however suddenly: then the whole group is told to end, and after 5 s made to.
# A shell, not Python: it starts in a millisecond and holds a megabyte. PR_SET_PDEATHSIG would be no substitute: it
# reaches only the child itself, not what that started, and fires as well when the *thread* that started it ends.
WATCHDOG = """
read -r group || exit 0
read -r over && exit 0
kill -s TERM -- "-$group"; kill -s CONT -- "-$group"
sleep 5
kill -s KILL -- "-$group"
"""


class Process:
    """A running command. `returncode` is None until it, and all that it started in its session, has ended."""

    def __init__(self, command: Sequence[str], cwd: Path, variables: Mapping[str, str], log: Path):
        """Starts `command` with exactly these environment `variables`; its output is appended to `log`.

        Raises OSError where it can't be started. A log that can't be written stops nothing: see `log_error`.
        """
        self.log = log
        self.log_error: OSError | None = None
        self.returncode: int | None = None
        self.started = time.monotonic()
        self._tail: collections.deque[bytes] = collections.deque(maxlen=TAIL_LINES)
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._watchdog = subprocess.Popen(
            ["sh", "-c", WATCHDOG], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            cwd="/", env={"PATH": os.environ.get("PATH", os.defpath)}, start_new_session=True,
        )  # fmt: skip
        try:
            self._child = subprocess.Popen(
                command, cwd=cwd, env=dict(variables), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        except BaseException:
            self._watchdog.communicate()  # the end of its pipe before any line: there is nothing to watch
            raise
        self._tell_watchdog(b"%d\n" % self._child.pid)
        self._pump_thread = threading.Thread(target=self._pump, name="output", daemon=True)
        self._pump_thread.start()
        threading.Thread(target=self._reap, name="reaper", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def tail(self) -> list[str]:
        """The last lines that it printed, at most 50."""
        return [line.decode("utf-8", "replace").rstrip() for line in list(self._tail)]

    def poll(self) -> int | None:
        """The return code as subprocess gives it (negative: killed by that signal), None while it runs."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int | None:
        """Sleep until it has ended, or for `timeout` seconds; gives poll()'s value."""
        self._ended.wait(timeout)
        return self.returncode

    def terminate(self, grace: float = 10.0) -> None:
        """End it and everything below it: SIGTERM, and after `grace` seconds SIGKILL. Returns when it is gone."""
        below = self._descendants()
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)  # a stopped process gets its SIGTERM only when it goes on
        try:
            self._ended.wait(grace)
        finally:  # a second Ctrl-C cuts the grace short and nothing more
            self._signal(signal.SIGKILL)
            for process in below:  # those that left the session
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            self._ended.wait()

    def _descendants(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def _signal(self, number: int) -> None:
        # The lock and the return code keep this from a group number that the system has given to somebody else.
        with self._lock, contextlib.suppress(ProcessLookupError):
            if self.returncode is None:
                os.killpg(self.pid, number)

    def _pump(self) -> None:
        """Everything that the child prints goes to the log and to the tail. The pipe is emptied whatever happens to the
        log: a full disk must not block the child."""
        log = None
        with contextlib.ExitStack() as stack:
            try:
                log = stack.enter_context(open(self.log, "ab", buffering=0))
            except OSError as error:
                self.log_error = error
            line = b""
            while chunk := os.read(self._child.stdout.fileno(), 65536):  # type: ignore[union-attr]
                if log is not None and self.log_error is None:
                    try:
                        log.write(chunk)
                    except OSError as error:
                        self.log_error = error
                *lines, line = re.split(rb"[\r\n]+", line + chunk)
                self._tail.extend(whole[:LONGEST_LINE] for whole in lines if whole.strip())
                line = line[:LONGEST_LINE]
            if line.strip():
                self._tail.append(line)

    def _reap(self) -> None:
        # WNOWAIT leaves the child a zombie, so that its group number stays its own while the rest of the group is ended
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with self._lock:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            returncode = self._child.wait()
            self._pump_thread.join(2)  # what left the session may hold the pipe open
            self._release_watchdog()
            self.returncode = returncode
        self._ended.set()

    def _tell_watchdog(self, line: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._watchdog.stdin.write(line)  # type: ignore[union-attr]
            self._watchdog.stdin.flush()  # type: ignore[union-attr]

    def _release_watchdog(self) -> None:
        self._tell_watchdog(b"over\n")
        with contextlib.suppress(BrokenPipeError):
            self._watchdog.stdin.close()  # type: ignore[union-attr]
        self._watchdog.wait()
