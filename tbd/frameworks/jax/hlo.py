"""A program as XLA compiled it: its instructions in the order in which they run, and when its buffers are alive."""

import collections
import re

from tbd.frameworks import attribution
from tbd.frameworks.phases import ORDER

# One buffer that the program uses: its `allocation` (a BufferAllocation), `offset` within it and `size` in bytes, the
# `instructions` that write it in turn (several where a loop carries it), the `users` that read it, and the positions
# in the order between which it is alive.
Buffer = collections.namedtuple("Buffer", "allocation offset size instructions users born died")

NESTING = ("while", "call", "conditional", "async-start")  # their computations run one instruction after the other
PRODUCTS = ("convolution", "dot")


class Program:
    """What an HloProto (tbd/frameworks/xla/messages.py) says."""

    def __init__(self, proto):
        module, self.assignment = proto.hlo_module, proto.buffer_assignment
        self.computations = {c.id: c for c in module.computations}
        self.instructions = {i.id: i for c in module.computations for i in c.instructions}
        self.owner = {i.id: c for c in module.computations for i in c.instructions}
        self.schedule = {pair.key: pair.value.instruction_ids for pair in module.schedule.sequences}
        self.readers = collections.defaultdict(list)  # {instruction's id: those with it among their operands}
        self.callers = collections.defaultdict(list)  # {computation's id: those that call it}
        for instruction in self.instructions.values():
            for operand in set(instruction.operand_ids):
                self.readers[operand].append(instruction)
            for computation in instruction.called_computation_ids:
                self.callers[computation].append(instruction)
        self.arguments = [i for i in self.computations[module.entry_computation_id].instructions if is_parameter(i)]
        self.order = []  # ids of the instructions as they run, those of loops and calls before their own
        self.flatten(self.computations[module.entry_computation_id])
        self.position = {number: place for place, number in enumerate(self.order)}
        self.phases = self.phases_of()

    def flatten(self, computation):
        for number in self.schedule.get(computation.id) or [i.id for i in computation.instructions]:
            instruction = self.instructions[number]
            if instruction.opcode in NESTING:
                for called in instruction.called_computation_ids:
                    self.flatten(self.computations[called])
            self.order.append(number)

    def place(self, instruction):
        """Where an instruction runs: its own position, or that of the one that its computation is a part of."""
        while instruction.id not in self.position:
            instruction = self.callers[self.owner[instruction.id].id][0]
        return self.position[instruction.id]

    def within(self, instruction):
        """The instructions of the computations that an instruction calls."""
        return [i for called in instruction.called_computation_ids for i in self.computations[called].instructions]

    def operation(self, instruction):
        """The JAX operation that the instruction comes from, such as jit(applied)/jvp(forward)/dot_general, or ""."""
        return instruction.metadata.op_name

    def kind(self, instruction):
        """The instruction's name without its number, with the product where it is a fusion of one."""
        name = re.sub(r"(\.\d+)+$", "", instruction.name)
        if instruction.opcode != "fusion":
            return name
        return ":".join([name, *sorted({i.opcode for i in self.within(instruction)}.intersection(PRODUCTS))])

    def phases_of(self):
        """{instruction's id: forward, backward, update or None} of those in the order.

        Told by the operation's name; where there is none, the latest phase of the operands and the fused instructions.
        """
        found = {}
        for number in self.order:
            instruction = self.instructions[number]
            fused = [phase(self.operation(i)) for i in self.within(instruction) if i.opcode != "constant"]
            others = [one for one in [*fused, *map(found.get, instruction.operand_ids)] if one]
            found[number] = phase(self.operation(instruction)) or max(others, key=ORDER.index, default=None)
        return found

    def layers(self):
        """{instruction's id: its layer} (tbd/frameworks/attribution.py). What a loop does is of the loop's layer."""
        weights = {a.id: re.fullmatch(r"(?:trained|rest)\[.*'(.*)'\]", self.operation(a)) for a in self.arguments}
        found = attribution.Layers({number: match[1] for number, match in weights.items() if match})
        for number in self.order:
            if number not in weights:
                sources = [self.instructions[operand] for operand in self.instructions[number].operand_ids]
                found.add(number, [source.id for source in sources if source.opcode != "constant"])
        for number in reversed(self.order):  # a loop comes after its own
            callers = self.callers[self.owner[number].id]
            if callers and callers[0].id in found.layers:
                found.layers.setdefault(number, found.layers[callers[0].id])
        return found.layers

    def users(self, instruction, index):
        """The instructions that read the part at `index`, a tuple of numbers, of what an instruction gives.

        Followed through all that only hands it on, into loops and out of them.
        """
        found, seen, places = [], set(), [(instruction, tuple(index))]
        while places:
            place = places.pop()
            instruction, index = place
            if (instruction.id, index) in seen:
                continue
            seen.add((instruction.id, index))
            if instruction.id == self.owner[instruction.id].root_id:
                callers = self.callers[self.owner[instruction.id].id]
                found += callers
                places += [(caller, index) for caller in callers if caller.opcode in NESTING]
            for reader in self.readers[instruction.id]:
                if reader.opcode == "get-tuple-element":
                    if index[:1] == (reader.tuple_index,):
                        places.append((reader, index[1:]))
                elif reader.opcode == "tuple":
                    operands = enumerate(reader.operand_ids)
                    places += [(reader, (n, *index)) for n, operand in operands if operand == instruction.id]
                elif reader.opcode == "bitcast":
                    places.append((reader, index))
                else:
                    found.append(reader)
                    if reader.opcode in NESTING:
                        places += [(p, index) for p in self.parameters(reader, instruction)]
        return found

    def parameters(self, caller, operand):
        """The parameters of the computations that `caller` calls which stand for its operand."""
        numbers = [n for n, number in enumerate(caller.operand_ids) if number == operand.id]
        return [i for i in self.within(caller) if is_parameter(i) and i.parameter_number in numbers]

    def buffers(self):
        """Every Buffer of the program's allocations but constants and those of single threads."""
        logical = {one.id: one for one in self.assignment.logical_buffers}
        found = []
        for allocation in self.assignment.buffer_allocations:
            if allocation.is_thread_local or allocation.is_constant:
                continue
            made = []
            for assigned in allocation.assigned:
                defined = logical[assigned.logical_buffer_id].defined_at
                instruction = self.instructions[defined.instruction_id]
                users = self.users(instruction, defined.shape_index)
                born = self.place(instruction)
                died = max([born, *map(self.place, users)]) + 1
                made.append(Buffer(allocation, assigned.offset, assigned.size, [instruction], users, born, died))
            found += carried(overwritten(made))
        return found

    def sizes(self):
        """{instruction's id: bytes} of the instructions that give one array."""
        return {
            b.defined_at.instruction_id: b.size for b in self.assignment.logical_buffers if not b.defined_at.shape_index
        }


def overwritten(buffers):
    """The Buffers of one allocation by birth, each ending, at the latest, where a later one is written over it."""
    buffers = sorted(buffers, key=lambda b: b.born)
    found = []
    for place, one in enumerate(buffers):
        over = (
            b.born for b in buffers[place + 1 :] if b.offset < one.offset + one.size and one.offset < b.offset + b.size
        )
        found.append(one._replace(died=min(one.died, next((born for born in over if born > one.born), one.died))))
    return found


def carried(buffers):
    """The Buffers, with those made one that a loop carries: what goes in, what each step writes, what comes out."""
    found, last = [], {}  # the last one at each place, by its number in `found`
    for one in buffers:
        place = one.offset, one.size
        before = found[last[place]] if place in last else None
        if before and before.died >= one.born and (is_carrier(one) or is_carrier(before)):
            found[last[place]] = before._replace(
                instructions=before.instructions + one.instructions, users=before.users + one.users, died=one.died
            )
        else:
            last[place] = len(found)
            found.append(one)
    return found


def is_carrier(buffer):
    """Whether a loop's own bookkeeping wrote the buffer last."""
    return buffer.instructions[-1].opcode in ("parameter", "while")


def is_parameter(instruction):
    return instruction.opcode == "parameter"


def phase(operation):
    """The phase of a JAX operation by its name, whose scopes update.py sets; None where it names none.

    A network's own use of gradients, such as a penalty on them, lies within the scope `forward`.
    """
    if "/optimizer/" in operation:
        return "update"
    if "transpose(jvp(forward))" in operation:
        return "backward"
    return "forward" if "jvp(forward)" in operation else None
