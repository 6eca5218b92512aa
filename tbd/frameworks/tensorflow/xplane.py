"""TensorFlow's profiler, and which of its events (tbd/frameworks/xla/xplane.py) are operations."""

import contextlib

from tbd.frameworks.xla import xplane


@contextlib.contextmanager
def recording():
    """The profiler runs within; gives a list that holds the events once the block is left."""
    import tensorflow as tf

    profiler = tf.profiler.experimental
    options = profiler.ProfilerOptions(host_tracer_level=2, python_tracer_level=0, device_tracer_level=1)
    found = []
    with xplane.recording(lambda folder: profiler.start(folder, options), profiler.stop) as spaces:
        yield found
    found.extend(xplane.events(*spaces))


def operation(event):
    """(full name, type) of an operation's execution, such as ("forward/Conv2D_3", "Conv2D"); else ("", "").

    On the host TensorFlow names those events NAME:TYPE ("::" and ": " come in the names of its C++ functions). Work on
    a GPU has its operation in a stat.
    """
    if event.plane != "/host:CPU":
        return event.stats.get("tf_op", ""), ""
    name, colon, kind = event.name.rpartition(":")
    if not colon or not name or name.endswith(":") or not kind.isidentifier():
        return "", ""
    return name, kind
