"""Memory by category from allocation events, on constructed events."""

import pytest

from tbd.frameworks.tensorflow import memory
from tbd.frameworks.tensorflow.memory import Event
from tbd.frameworks.xla import xplane

FORWARD, BACKWARD, OPTIMIZER = "forward/MatMul", "gradient_tape/forward/MatMul", "optimizer/ResourceApplyAdam"


def allocation(address, requested, operation, in_use=0, size=None):
    return Event(True, address, requested, size or requested, in_use, operation)


def release(address, requested, operation, in_use=0, size=None):
    return Event(False, address, requested, size or requested, in_use, operation)


def described(events, persistent=(), begin=0, peak=0, names=None):
    return memory.description(events, list(persistent), begin, peak, names or {})


@pytest.mark.parametrize(
    ("operation", "phase"),
    [
        (FORWARD, "forward"),
        ("forward/while/body/_12/forward/while/MatMul", "forward"),
        (BACKWARD, "backward"),
        ("backward/while/body/_3/backward/while/Mul", "backward"),
        (OPTIMIZER, "update"),
        ("", None),
        ("Identity", None),
    ],
)
def test_the_phase_is_in_the_operations_name(operation, phase):
    assert memory.phase(operation) == phase


@pytest.mark.parametrize(
    ("allocated", "freed", "category"),
    [
        (FORWARD, BACKWARD, "feature_maps"),
        (FORWARD, OPTIMIZER, "feature_maps"),
        (FORWARD, FORWARD, "workspace"),
        (BACKWARD, BACKWARD, "workspace"),
        (OPTIMIZER, OPTIMIZER, "workspace"),
        (BACKWARD, OPTIMIZER, "weight_gradients"),
    ],
)
def test_the_category_follows_from_the_phases_of_birth_and_death(allocated, freed, category):
    found = described([allocation(1, 10, allocated), release(1, 10, freed)])["buffers"]
    assert [(b["bytes"], b["born"], b["died"], b["category"]) for b in found] == [(10, 1, 2, category)]


def test_a_gradient_has_its_parameters_name_and_others_their_operations():
    events = [
        allocation(1, 10, FORWARD),
        allocation(2, 20, BACKWARD),
        release(1, 10, BACKWARD),
        release(2, 20, OPTIMIZER),
    ]
    found = described(events, names={BACKWARD: "fc.weight"})["buffers"]
    assert [b["name"] for b in found] == [FORWARD, "fc.weight"]


def test_what_outlives_the_step_is_other():
    (found,) = described([allocation(1, 4, FORWARD)])["buffers"]
    assert (found["category"], found["died"]) == ("other", None)


def test_an_address_can_be_used_again():
    events = [
        allocation(1, 10, FORWARD),
        release(1, 10, BACKWARD),
        allocation(1, 30, BACKWARD),
        release(1, 30, OPTIMIZER),
    ]
    assert [(b["bytes"], b["category"]) for b in described(events)["buffers"]] == [
        (10, "feature_maps"),
        (30, "weight_gradients"),
    ]


def test_replaced_running_statistics_are_not_counted_twice():
    old = memory.buffer(64, 0, None, "other", "bn1.running_mean")
    kept = memory.buffer(64, 0, None, "weights", "bn1.weight")
    events = [allocation(5, 64, FORWARD), release(9, 64, FORWARD)]
    found = described(events, [kept, old], begin=128)["buffers"]
    assert [(b["category"], b["born"], b["died"]) for b in found] == [
        ("weights", 0, None),
        ("other", 0, 2),
        ("other", 1, None),
    ]


def test_slack_is_what_the_allocator_hands_out_beyond_the_request_at_the_peak():
    weights = memory.buffer(100, 0, None, "weights", "w")
    events = [
        allocation(1, 10, FORWARD, in_use=384, size=256),
        allocation(2, 300, FORWARD, in_use=896, size=512),
        release(1, 10, BACKWARD, in_use=640, size=256),
        release(2, 300, BACKWARD, in_use=128, size=512),
    ]
    found = described(events, [weights], begin=128, peak=896)
    assert found["allocator"]["slack_bytes"] == 28 + 246 + 212
    assert 100 + 10 + 300 + found["allocator"]["slack_bytes"] == found["allocator"]["peak_bytes"]


def test_the_peak_is_where_the_allocators_is():
    """Many small buffers with much slack may be more than fewer large ones that sum to more."""
    many = [allocation(n, 1, FORWARD, in_use=256 * n, size=256) for n in (1, 2, 3)]
    events = [*many, *(release(n, 1, FORWARD, in_use=768 - 256 * n, size=256) for n in (1, 2, 3))]
    events.append(allocation(9, 500, FORWARD, in_use=512, size=512))
    allocator = described(events, peak=768)["allocator"]
    assert (allocator["peak_at"], allocator["slack_bytes"]) == (3, 3 * 255)


def test_what_was_there_before_and_is_freed_leaves_the_slack():
    """Say, a result of the step before that another thread still held when this one began."""
    events = [release(7, 300, FORWARD, in_use=0, size=512), allocation(1, 1000, FORWARD, in_use=1024, size=1024)]
    allocator = described(events, begin=512, peak=1024)["allocator"]
    assert (allocator["peak_at"], allocator["slack_bytes"]) == (2, 24)


def test_phases_are_cut_where_the_fewest_events_are_on_the_wrong_side():
    order = [
        FORWARD,
        BACKWARD,
        FORWARD,
        FORWARD,
        BACKWARD,
        BACKWARD,
        OPTIMIZER,
        BACKWARD,
        BACKWARD,
        OPTIMIZER,
        OPTIMIZER,
    ]
    events = [allocation(n, 1, operation) for n, operation in enumerate(order)]
    found = described(events)
    assert found["phases"] == {"forward": [1, 5], "backward": [5, 10], "update": [10, 12]}
    assert found["steps"] == [1, 12]


def test_where_an_event_names_no_operation_the_thread_tells_which_was_running():
    stats = {"allocator_name": "bfc", "addr": 1, "requested_bytes": 8, "allocation_bytes": 256, "bytes_allocated": 256}

    def event(name, begin, line=1, **stats):
        return xplane.Event("/host:CPU", line, "", begin, begin + 5, name, stats)

    events = [
        event("forward/Conv2D:Conv2D", 10),
        event("MemoryAllocation", 12, **stats),
        event("backward/Mul:Mul", 11, line=2),
        event("MemoryDeallocation", 30, **stats),
        event("backward/AddN:AddN", 20),
        event("MemoryAllocation", 13, **dict(stats, allocator_name="other")),
    ]
    found = memory.allocator_events(events, "bfc")
    assert [(e.allocated, e.operation) for e in found] == [(True, "forward/Conv2D"), (False, "backward/AddN")]


@pytest.mark.parametrize(
    ("operation", "category"),
    [
        ("forward/train/cast_weights/Cast_3", "workspace"),
        ("gradient_tape/forward/train/cast_weights/Cast_3/Cast", None),
    ],
)
def test_weights_in_the_type_of_products_are_copies_and_their_gradients_are_gradients(operation, category):
    (found,) = described([allocation(1, 10, operation), release(1, 10, OPTIMIZER)])["buffers"]
    assert found["category"] == (category or "weight_gradients")
