"""Memory by category from XLA's buffer assignment, on constructed programs."""

from tbd.frameworks.jax import memory
from tbd.frameworks.jax.hlo import Program
from tbd.frameworks.xla.messages import HloProto

FORWARD, BACKWARD, UPDATE = "jit(f)/jvp(forward)/", "jit(f)/transpose(jvp(forward))/", "jit(f)/optimizer/"
ENTRY = 1


class Written:
    """A program as it is written down: instructions of the entry in the order in which they run, and their buffers."""

    def __init__(self):
        self.proto = HloProto()
        self.module, self.assignment = self.proto.hlo_module, self.proto.buffer_assignment
        self.module.entry_computation_id = ENTRY
        self.computation = self.module.computations.add(id=ENTRY)
        self.number = 0

    def add(self, name, opcode="fusion", operands=(), operation="", called=(), **more):
        """An instruction of the present computation; gives its id."""
        self.number += 1
        self.computation.instructions.add(
            id=self.number,
            name=name,
            opcode=opcode,
            operand_ids=operands,
            called_computation_ids=called,
            metadata={"op_name": operation},
            **more,
        )
        return self.number

    def argument(self, name, size):
        count = sum(i.opcode == "parameter" for i in self.computation.instructions)
        number = self.add(name, "parameter", operation=name, parameter_number=count)
        self.allocation(size, [(number, 0, size)], is_entry_computation_parameter=True, parameter_number=count)
        return number

    def allocation(self, size, buffers, **more):
        """An allocation that holds [(instruction's id, offset, bytes)] or [(..., index in a tuple)]."""
        assigned = []
        for instruction, offset, of_buffer, *index in buffers:
            number = len(self.assignment.logical_buffers) + 1
            self.assignment.logical_buffers.add(
                id=number, size=of_buffer, defined_at={"instruction_id": instruction, "shape_index": index}
            )
            assigned.append({"logical_buffer_id": number, "offset": offset, "size": of_buffer})
        index = len(self.assignment.buffer_allocations)
        self.assignment.buffer_allocations.add(index=index, size=size, assigned=assigned, **more)

    def described(self, persistent=()):
        return memory.description([Program(self.proto)], list(persistent))


def made(description):
    """{name: (category, bytes, born, died)} of the buffers that the program makes."""
    return {
        b["name"]: (b["category"], b["bytes"], b["born"], b["died"]) for b in description["buffers"] if b["born"] > 0
    }


def one_layer():
    """x and a weight, forward to h and y, backward to a gradient, and the update of the weight in place."""
    program = Written()
    x, weight = program.argument("inputs['x']", 40), program.argument("trained['w']", 80)
    rate = program.argument("scalars[0]", 4)
    h = program.add("h", operands=[x, weight], operation=FORWARD + "dot")
    y = program.add("y", operands=[h], operation=FORWARD + "exp")
    dy = program.add("dy", operands=[y, h], operation=BACKWARD + "mul")
    gradient = program.add("gradient", operands=[x, dy], operation=BACKWARD + "transpose")
    new = program.add("new", operands=[weight, gradient, rate], operation=UPDATE + "sub")
    return program, {"h": h, "y": y, "dy": dy, "gradient": gradient, "new": new}


def test_buffers_have_categories_by_the_phases_that_make_and_read_them():
    program, ids = one_layer()
    program.allocation(240, [(ids["h"], 0, 100), (ids["y"], 100, 60), (ids["dy"], 160, 60), (ids["gradient"], 0, 80)])
    found = program.described()
    assert made(found) == {
        FORWARD + "dot": ("feature_maps", 100, 4, 7),
        FORWARD + "exp": ("feature_maps", 60, 5, 7),
        BACKWARD + "mul": ("workspace", 60, 6, 8),
        "w": ("weight_gradients", 80, 7, 9),
    }
    assert found["phases"] == {"forward": [1, 6], "backward": [6, 8], "update": [8, 9]}
    assert found["steps"] == [1, 9]


def test_the_peak_is_what_is_allocated_and_the_slack_the_gaps_at_the_peak():
    program, ids = one_layer()
    program.allocation(250, [(ids["h"], 0, 100), (ids["y"], 110, 60), (ids["dy"], 170, 60), (ids["gradient"], 0, 80)])
    weights = memory.buffer(80, 0, None, "weights", "w")
    allocator = program.described([weights])["allocator"]
    assert (allocator["peak_bytes"], allocator["slack_bytes"]) == (80 + 4 + 250, 10)


def test_arguments_that_are_no_arrays_are_other():
    program, ids = one_layer()
    program.allocation(100, [(ids["h"], 0, 100)])
    others = [b for b in program.described()["buffers"] if b["born"] == 0]
    assert [(b["category"], b["bytes"], b["name"]) for b in others] == [("other", 4, "scalars[0]")]


def test_a_gradient_as_large_as_no_weight_that_its_reader_moves_is_workspace():
    program, ids = one_layer()
    program.allocation(100, [(ids["gradient"], 0, 90)])
    assert made(program.described())[BACKWARD + "transpose"][0] == "workspace"


def test_an_operation_without_a_name_is_of_its_operands_latest_phase():
    program, ids = one_layer()
    gradient = next(i for i in program.computation.instructions if i.id == ids["gradient"])
    gradient.metadata.op_name = ""
    gradient.operand_ids[:] = [ids["h"], ids["dy"]]
    program.allocation(80, [(ids["gradient"], 0, 80)])
    assert made(program.described())["w"][0] == "weight_gradients"


def test_a_buffer_ends_where_its_reader_writes_over_it():
    program = Written()
    x = program.argument("inputs['x']", 40)
    h = program.add("h", operands=[x], operation=FORWARD + "dot")
    y = program.add("y", operands=[h], operation=FORWARD + "exp")
    program.add("dy", operands=[y], operation=BACKWARD + "mul")
    program.allocation(100, [(h, 0, 100), (y, 0, 60)])
    found = program.described()
    assert made(found) == {
        FORWARD + "dot": ("workspace", 100, 2, 3),
        FORWARD + "exp": ("feature_maps", 60, 3, 5),
    }


def test_what_is_made_of_weights_alone_is_no_feature_map():
    program = Written()
    weight = program.argument("trained['w']", 80)
    turned = program.add("turned", operands=[weight], operation=FORWARD + "transpose")
    program.add("dx", operands=[turned], operation=BACKWARD + "dot")
    program.allocation(80, [(turned, 0, 80)])
    assert made(program.described())[FORWARD + "transpose"][0] == "workspace"


def test_a_gradient_in_the_place_of_a_weight_counts_where_the_weights_copy_is():
    program = Written()
    x, weight = program.argument("inputs['x']", 40), program.argument("trained['w']", 80)
    copy = program.add("copy", "copy", operands=[weight])
    h = program.add("h", operands=[x, copy], operation=FORWARD + "dot")
    gradient = program.add("gradient", operands=[x, h], operation=BACKWARD + "transpose")
    program.add("new", operands=[copy, gradient], operation=UPDATE + "sub")
    place = program.assignment.buffer_allocations[1]
    program.assignment.logical_buffers.add(id=99, size=80, defined_at={"instruction_id": gradient})
    place.assigned.add(logical_buffer_id=99, offset=0, size=80)
    program.allocation(80, [(copy, 0, 80)])
    found = [b for b in program.described()["buffers"] if b["born"] > 0]
    assert [(b["category"], b["name"], b["bytes"], b["born"], b["died"]) for b in found] == [
        ("weight_gradients", "w", 80, 5, 7),
        ("workspace", "copies", 80, 3, 5),
    ]


def test_what_a_loop_carries_is_one_buffer_that_the_backward_pass_reads():
    program = Written()
    x = program.argument("inputs['x']", 40)
    zeros = program.add("zeros", operation=FORWARD + "broadcast")
    start = program.add("start", "tuple", operands=[x, zeros])
    body = program.module.computations.add(id=2)
    entry, program.computation = program.computation, body
    carried = program.add("carried", "parameter")
    of_x = program.add("of_x", "get-tuple-element", operands=[carried], tuple_index=0)
    before = program.add("before", "get-tuple-element", operands=[carried], tuple_index=1)
    written = program.add("written", operands=[of_x, before], operation=FORWARD + "while/body/update_slice")
    body.root_id = program.add("next", "tuple", operands=[of_x, written])
    program.computation = entry
    loop = program.add("loop", "while", operands=[start], operation=FORWARD + "while", called=[2])
    result = program.add("result", "get-tuple-element", operands=[loop], tuple_index=1)
    program.add("dx", operands=[result], operation=BACKWARD + "mul")
    program.allocation(64, [(zeros, 0, 64), (carried, 0, 64, 1), (written, 0, 64), (loop, 0, 64, 1)])
    (found,) = made(program.described()).items()
    # x, zeros, start, the body's five, the loop, its result, dx
    assert found == (FORWARD + "while", ("feature_maps", 64, 2, 12))
