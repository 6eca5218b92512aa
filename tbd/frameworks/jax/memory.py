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
    """The buffers that a program makes outside of its arguments' memory; `used` are all its Buffers.

    XLA may copy an argument and put a gradient into its place. So that the argument's own buffer, which is there before
    and after the step, keeps its category, the copy then counts as what displaced the argument.
    """
    kind = Kind(program)
    made, copies, guests = [], [], collections.defaultdict(list)
    for one in used:
        if one.allocation.is_entry_computation_parameter:
            guests[one.allocation.parameter_number].append(one)
        elif (copied := kind.copied(one)) is None:
            made.append(buffer(one.size, one.born, one.died, *kind(one)))
        else:
            copies.append((one, copied))
    for one, copied in copies:
        made += pieces(one, [(guest, *kind(guest)) for guest in guests[copied]])
    return made


def pieces(copy, guests):
    """An argument's copy as buffers: what displaced the argument, [(Buffer, category, name)], while it is there."""
    found, at = [], copy.born
    for guest, category, name in sorted(guests, key=lambda one: one[0].born):
        begin, end = max(guest.born, at), min(guest.died, copy.died)
        if category != "workspace" and guest.size == copy.size and begin < end:
            found.append(buffer(copy.size, at, begin, "workspace", "copy"))
            found.append(buffer(copy.size, begin, end, category, name))
            at = end
    return [one for one in [*found, buffer(copy.size, at, copy.died, "workspace", "copy")] if one["born"] < one["died"]]


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

    def copied(self, one):
        """The number of the argument of which a Buffer is a copy; None where it is none."""
        (first, *_) = one.instructions
        argument = self.program.instructions[first.operand_ids[0]] if first.opcode == "copy" else first
        return argument.parameter_number if argument in self.program.arguments else None


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
