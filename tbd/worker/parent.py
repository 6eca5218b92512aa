"""A process that does not outlive the one that started it."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_parent():
    """Have the kernel kill this process when its parent dies (Linux). Call first thing."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died between the two calls
        sys.exit("the process that started this one is gone")
