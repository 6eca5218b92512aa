"""The ends of a run: a status each, with its exit code, the same for worker, controller and documentation."""

OK = "ok"
BAD_CONFIG = "bad_config"
BAD_DATA = "bad_data"
UNSUPPORTED = "unsupported"
ENVIRONMENT_FAILED = "environment_failed"
OUT_OF_MEMORY = "out_of_memory"
DIVERGED = "diverged"
TIMED_OUT = "timed_out"
CRASHED = "crashed"
LOST_NODE = "lost_node"
INTERRUPTED = "interrupted"

# 2 is what command lines use for wrong usage, 130 what shells give for Ctrl-C; 1 is left to Python's own tracebacks.
EXIT_CODES = {
    OK: 0,
    BAD_CONFIG: 2,
    BAD_DATA: 3,
    UNSUPPORTED: 4,
    ENVIRONMENT_FAILED: 5,
    OUT_OF_MEMORY: 6,
    DIVERGED: 7,
    TIMED_OUT: 8,
    CRASHED: 9,
    LOST_NODE: 10,
    INTERRUPTED: 130,
}


class Ended(Exception):
    """Ends the run with `status` and its one-line `cause`, in the user's words."""

    def __init__(self, status, cause):
        # type: (str, str) -> None
        super(Ended, self).__init__(cause)
        self.status = status
        self.cause = cause
