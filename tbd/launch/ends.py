"""How a worker ended, from its return code: for a worker that couldn't say so itself in an `end` event."""

import signal
from pathlib import Path

from tbd.worker import status

BY_EXIT_CODE = {code: name for name, code in status.EXIT_CODES.items()}


def end_of(returncode: int, tail: list[str], oom_kills: int = 0) -> tuple[str, str]:
    """(status, cause) of a return code: negative or above 128 is a signal, as subprocess and shells have it.

    `tail`: the last lines that it printed; `oom_kills`: processes that the kernel ended for lack of memory meanwhile.
    """
    last = next((line.strip() for line in reversed(tail) if line.strip()), "it printed nothing")
    if returncode in BY_EXIT_CODE:
        name = BY_EXIT_CODE[returncode]
        return name, "" if name == status.OK else last
    if returncode < 0 or returncode > 128:
        return end_by_signal(-returncode if returncode < 0 else returncode - 128, oom_kills)
    if returncode in (126, 127):  # the shell's codes for a command that can't be run and one that isn't there
        return status.ENVIRONMENT_FAILED, last
    return status.CRASHED, f"exit status {returncode}: {last}"


def end_by_signal(number: int, oom_kills: int) -> tuple[str, str]:
    """(status, cause) of a worker that a signal ended."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    if number == signal.SIGKILL and oom_kills > 0:
        return status.OUT_OF_MEMORY, "the host's memory ran out: the kernel killed the worker"
    if number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        return status.INTERRUPTED, f"ended by {name}"
    return status.CRASHED, f"killed by {name}"


def oom_kills_so_far() -> int:
    """How many processes the kernel has ended for lack of memory since the machine's start (0 where it doesn't say).

    The counter `oom_kill` of /proc/vmstat (Linux 4.13) counts the limits of control groups too.
    """
    try:
        for line in Path("/proc/vmstat").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    except (OSError, ValueError):
        pass
    return 0
