"""JAX's profiler, and the programs that ran under it."""

import contextlib

import jax

from tbd.frameworks.jax.hlo import Program
from tbd.frameworks.xla import xplane


@contextlib.contextmanager
def recording():
    """The profiler runs within; gives a list that holds the XSpace (tbd/frameworks/xla) once the block is left."""
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with xplane.recording(
        lambda folder: jax.profiler.start_trace(folder, profiler_options=options), jax.profiler.stop_trace
    ) as spaces:
        yield spaces


def ran(space, name):
    """The Program of every run of a function of that name, in order."""
    programs = xplane.programs(space)
    runs = {}
    for event in sorted(xplane.events(space), key=lambda event: event.begin_ns):
        if event.stats.get("hlo_module") == f"jit_{name}":
            number = event.stats["program_id"]
            runs.setdefault((number, event.stats.get("run_id")), number)
    made = {number: Program(programs[number]) for number in set(runs.values())}
    return [made[number] for number in runs.values()]
