"""TensorFlow's profile as a trace: docs/trace.md."""

import contextlib

from tbd.frameworks.tensorflow import xplane
from tbd.frameworks.xla import chrome


@contextlib.contextmanager
def tracing(path):
    """The profiler runs within; the gzipped trace is at `path` once the block is left."""
    with xplane.recording() as events:
        yield
    chrome.write(path, events, xplane.operation)
