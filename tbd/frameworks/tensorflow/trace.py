"""TensorFlow's profile as a trace: docs/trace.md."""

import contextlib

from tbd.frameworks.tensorflow import memory, xplane
from tbd.frameworks.xla import chrome


@contextlib.contextmanager
def tracing(path, training):
    """The profiler runs within; the gzipped trace is at `path` once the block is left."""
    with xplane.recording() as events:
        yield
    layers = training.layers()
    chrome.write(path, events, xplane.operation, lambda _, name: (memory.layer_of(layers, name), memory.phase(name)))
