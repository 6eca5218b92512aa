"""Reads XPlane, what TensorFlow's profiler writes: planes (devices) of lines (threads, streams) of events."""

import collections
import contextlib
import glob
import os
import tempfile

# One event: where it ran, when (nanoseconds on the profiler's clock), its name and its stats {name: value}.
Event = collections.namedtuple("Event", "plane line line_name begin_ns end_ns name stats")


@contextlib.contextmanager
def recording():
    """The profiler runs within; gives a list that holds the events once the block is left."""
    import tensorflow as tf

    found = []
    options = tf.profiler.experimental.ProfilerOptions(
        host_tracer_level=2, python_tracer_level=0, device_tracer_level=1
    )
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder, options)
        try:
            yield found
        finally:
            tf.profiler.experimental.stop()
        found.extend(events(space_of(folder)))


def space_of(folder):
    """The XSpace that the profiler left below `folder`."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    files = glob.glob(os.path.join(folder, "**", "*.xplane.pb"), recursive=True)
    if len(files) != 1:
        raise RuntimeError(f"TensorFlow's profiler left {len(files)} XPlane files in {folder} instead of 1")
    space = xplane_pb2.XSpace()
    with open(files[0], "rb") as file:
        space.ParseFromString(file.read())
    return space


def events(space):
    """Every Event of an XSpace, in the file's order. `line` is unique within its plane."""
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                begin = line.timestamp_ns + event.offset_ps / 1000
                yield Event(
                    plane.name,
                    line.id,
                    line.display_name or line.name,
                    begin,
                    begin + event.duration_ps / 1000,
                    plane.event_metadata[event.metadata_id].name,
                    stats(plane, event),
                )


def stats(plane, event):
    """{name: value} of an event; a reference is resolved to the string it stands for."""
    found = {}
    for stat in event.stats:
        kind = stat.WhichOneof("value")
        value = getattr(stat, kind) if kind else None
        if kind == "ref_value":
            value = plane.stat_metadata[value].name
        found[plane.stat_metadata[stat.metadata_id].name] = value
    return found


def operation(event):
    """(full name, type) of an operation's execution on the host, such as ("forward/Conv2D_3", "Conv2D"); else ("", "").

    TensorFlow names those events NAME:TYPE. "::" and ": " come in the names of its C++ functions.
    """
    name, colon, kind = event.name.rpartition(":")
    if event.plane != "/host:CPU" or not colon or not name or name.endswith(":") or not kind.isidentifier():
        return "", ""
    return name, kind
