"""JAX's profile as a trace: docs/trace.md."""

import contextlib

from tbd.frameworks.jax import profiler
from tbd.frameworks.jax.hlo import Program
from tbd.frameworks.xla import chrome, xplane


@contextlib.contextmanager
def tracing(path):
    """The profiler runs within; the gzipped trace is at `path` once the block is left."""
    with profiler.recording() as spaces:
        yield
    (space,) = spaces
    operations = Operations(xplane.programs(space))
    chrome.write(path, xplane.events(space), operations, operations.place)


class Operations:
    """operation(event) for chrome.py: (JAX's operation, the instruction's kind) of an instruction's execution.

    `programs` is {program's id: HloProto}.
    """

    def __init__(self, programs):
        self.named, self.places = {}, {}
        for number, proto in programs.items():
            program = Program(proto)
            layers = program.layers()
            for instruction in program.instructions.values():
                found = program.operation(instruction) or instruction.name, program.kind(instruction)
                self.named[number, instruction.name] = found
                place = layers.get(instruction.id, ""), program.phases.get(instruction.id)
                self.places[number, instruction.name] = place

    def place(self, event, _):
        """(layer, phase) of an instruction's execution."""
        return self.places.get((event.stats.get("program_id"), event.stats.get("hlo_op")), ("", ""))

    def __call__(self, event):
        name = event.stats.get("hlo_op")
        if name is None:
            return "", ""
        return self.named.get((event.stats.get("program_id"), name), (name, name))
