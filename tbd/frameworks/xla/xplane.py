"""Reads XPlane, what XLA's profiler writes: planes (devices) of lines (threads, streams) of events."""

import collections
import contextlib
import glob
import os
import tempfile

from tbd.frameworks.xla.messages import HloProto, XSpace

# One event: where it ran, when (nanoseconds on the profiler's clock), its name and its stats {name: value}.
Event = collections.namedtuple("Event", "plane line line_name begin_ns end_ns name stats")


@contextlib.contextmanager
def recording(start, stop):
    """The profiler runs within, from start(folder) to stop(); gives a list that holds the XSpace after the block."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        start(folder)
        try:
            yield found
        finally:
            stop()
        found.append(space_of(folder))


def space_of(folder):
    """The XSpace that the profiler left below `folder`."""
    files = glob.glob(os.path.join(folder, "**", "*.xplane.pb"), recursive=True)
    if len(files) != 1:
        raise RuntimeError(f"the profiler left {len(files)} XPlane files in {folder} instead of 1")
    space = XSpace()
    with open(files[0], "rb") as file:
        space.ParseFromString(file.read())
    return space


def events(space):
    """Every Event of an XSpace, in the file's order. `line` is unique within its plane."""
    for plane in space.planes:
        names = {pair.key: pair.value.name for pair in plane.event_metadata}
        stat_names = {pair.key: pair.value.name for pair in plane.stat_metadata}
        for line in plane.lines:
            for event in line.events:
                begin = line.timestamp_ns + event.offset_ps / 1000
                yield Event(
                    plane.name,
                    line.id,
                    line.display_name or line.name,
                    begin,
                    begin + event.duration_ps / 1000,
                    names[event.metadata_id],
                    stats(stat_names, event),
                )


def stats(stat_names, event):
    """{name: value} of an event or its metadata; a reference is resolved to the string it stands for."""
    found = {}
    for stat in event.stats:
        value = None
        for field, of_field in stat.ListFields():
            if field.name == "ref_value":
                value = stat_names[of_field]
            elif field.name != "metadata_id":
                value = of_field
        found[stat_names[stat.metadata_id]] = value
    return found


def programs(space):
    """{program's id: HloProto} of the compiled programs that ran, which the profiler keeps as metadata."""
    found = {}
    for plane in space.planes:
        if plane.name == "/host:metadata":
            stat_names = {pair.key: pair.value.name for pair in plane.stat_metadata}
            for pair in plane.event_metadata:
                of_program = stats(stat_names, pair.value)
                if "Hlo Proto" in of_program:
                    found[of_program["program_id"]] = HloProto.FromString(of_program["Hlo Proto"])
    return found
