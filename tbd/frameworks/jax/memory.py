"""Where the memory of one training step goes: docs/memory.md from the buffers that XLA assigned in the compiled step.

A buffer is known by the phases of the instruction that makes it and of those that read it:

    made in     read in               category
    forward     backward or update    feature_maps, where it depends on the input
    backward    update                weight_gradients, where it has the size of the weight that the reader moves
    else                              workspace

What was there before the step is known by its name.
"""

import collections
import itertools
import re

from tbd.frameworks import phases

METHOD = (
    "XLA's buffer assignment of the compiled step, by the phases of the operations that make and read each buffer; "
    "weights, optimizer state and input by name. A gradient that is fused with its use has no buffer; scratch memory "
    "within library calls is not part of the assignment"
)


def record(training, arrays):
    """One step of a JaxTraining recorded: a dict of docs/memory.md."""
    from tbd.frameworks.jax import profiler

    training.step(arrays)  # compiled
    training.wait()
    inputs = training.inputs(arrays)
    persistent = training.persistent(inputs)
    with profiler.recording() as spaces:
        training.train(inputs)
        training.wait()
    programs = profiler.ran(*spaces, "applied")
    return description(programs, persistent)


def description(programs, persistent):
    """docs/memory.md of a step that ran the Programs in order; `persistent` are the buffers from before it."""
    persistent = persistent + [b for program in set(programs) for b in scalars(program)]
    buffers, begin, highest = list(persistent), 1, (0, 0)
    for program in programs:
        used = program.buffers()
        own = [one for one in used if not one.allocation.is_entry_computation_parameter]
        allocations = {one.allocation.index: one.allocation.size for one in own}
        highest = max(highest, (sum(allocations.values()), gaps(own)))
        for made in described(program, used):
            buffers.append(dict(made, born=made["born"] + begin, died=made["died"] + begin))
        begin += len(program.order)
    before = sum(b["bytes"] for b in persistent)
    return {
        "schema": 1,
        "buffers": buffers,
        "steps": [1, begin],
        "phases": phases.bounds(map(programs[0].phases.get, programs[0].order)) if len(programs) == 1 else {},
        "allocator": {"name": "XLA buffer assignment", "peak_bytes": before + highest[0], "slack_bytes": highest[1]},
        "method": METHOD,
    }


def gaps(buffers):
    """The bytes between the Buffers in their allocations where they hold the most in all."""
    changes = sorted([(b.born, b.size) for b in buffers] + [(b.died, -b.size) for b in buffers])
    held = list(itertools.accumulate(size for _, size in changes))
    at = changes[held.index(max(held))][0] if held else 0
    ends, live = {}, 0
    for one in buffers:
        if one.born <= at < one.died:
            ends[one.allocation.index] = max(ends.get(one.allocation.index, 0), one.offset + one.size)
            live += one.size
    return sum(ends.values()) - live


def scalars(program):
    """The arguments that are no arrays: learning rates and numbers of steps."""
    known, sizes = ("trained[", "statistics[", "rest[", "state[", "inputs["), program.sizes()
    names = {i.id: program.operation(i) for i in program.arguments}
    return [buffer(sizes[i], 0, None, "other", name) for i, name in names.items() if not name.startswith(known)]


def described(program, used):
    """The buffers that a program makes outside of its arguments' memory; `used` are all its Buffers."""
    kind, layers = Kind(program), program.layers()
    made, copies, guests = [], [], []
    for one in used:
        found = buffer(one.size, one.born, one.died, *kind(one))
        if layer := layers.get(one.instructions[-1].id):
            found["layer"] = layer
        if not one.allocation.is_entry_computation_parameter:
            (copies if kind.is_copy(one) else made).append(found)
        elif found["category"] != "workspace":
            guests.append(found)
    return made + displaced(copies, guests)


def displaced(copies, guests):
    """Buffers of as many bytes as `copies`, the copies of arguments; as far as these have room, they are `guests`.

    XLA may copy an argument elsewhere and put a gradient or a feature map, a guest, into its place. The arguments' own
    buffers, which are there before and after the step, keep their categories: so what displaced them counts here.
    """
    times = sorted({b[time] for b in copies + guests for time in ("born", "died")})
    spans = [*itertools.pairwise(times)]
    room = [sum(b["bytes"] for b in copies if b["born"] <= begin < b["died"]) for begin, _ in spans]
    found = []
    for guest in sorted(guests, key=lambda b: b["born"]):
        during = range(times.index(guest["born"]), times.index(guest["died"]))
        if all(room[n] >= guest["bytes"] for n in during):
            found.append(guest)
            for n in during:
                room[n] -= guest["bytes"]
    return found + [buffer(n, *span, "workspace", "copies") for n, span in zip(room, spans, strict=True) if n]


class Kind:
    """(category, name) of a Buffer of a program."""

    def __init__(self, program):
        self.program, self.of_input, self.moving = program, from_input(program), Moving(program)

    def __call__(self, one):
        program, last = self.program, one.instructions[-1]
        name = program.operation(last) or last.name
        read = {program.phases.get(user.id) for user in one.users}
        made = {program.phases.get(i.id) for i in one.instructions if i.id in self.of_input}
        if "backward" in made and "update" in read:
            weight = self.moving.weight(one)
            if weight:
                return "weight_gradients", weight
        if "forward" in made and read & {"backward", "update"}:
            return "feature_maps", name
        return "workspace", name

    def is_copy(self, one):
        """Whether a Buffer is a copy of an argument."""
        (first, *_) = one.instructions
        return first.opcode == "copy" and self.program.instructions[first.operand_ids[0]] in self.program.arguments


class Moving:
    """Which weight an instruction of the update moves."""

    def __init__(self, program):
        self.program, self.sizes = program, program.sizes()
        self.weights = collections.defaultdict(list)  # {id of an instruction of the update: [(weight, bytes)]}
        for argument in program.arguments:
            name = re.fullmatch(r"(?:trained|state)\[.*'(.*)'\]", program.operation(argument))
            if name:
                for user in self.readers(argument):
                    self.weights[user.id].append((name[1], self.sizes[argument.id]))

    def readers(self, instruction):
        """The users of what an instruction gives, and of copies of it."""
        for user in self.program.users(instruction, ()):
            yield user
            if user.opcode == "copy":
                yield from self.readers(user)

    def weight(self, gradient):
        """The name of the weight of a Buffer's size that one of its users in the update moves; None where none does."""
        for user in gradient.users:
            if self.program.phases.get(user.id) == "update":
                for name, size in self.weights[user.id]:
                    if size == gradient.size:
                        return name
        return None


def from_input(program):
    """The ids of the instructions that depend on the input."""
    found = set()
    for number in program.order:
        instruction = program.instructions[number]
        sources = list(instruction.operand_ids)
        if instruction.opcode == "parameter":
            sources += [o for caller in program.callers[program.owner[number].id] for o in caller.operand_ids]
        if program.operation(instruction).startswith("inputs[") or not found.isdisjoint(sources):
            found.add(number)
    return found


def buffer(size, born, died, category, name):
    return {"bytes": size, "born": born, "died": died, "category": category, "name": name}
