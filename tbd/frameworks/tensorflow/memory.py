"""Where the memory of one training step goes: docs/memory.md from the allocation events of TensorFlow's profiler.

A buffer is known by the operation that allocated it and the one that was running where it was freed; the operations'
names tell the phase (update.py puts them in the scopes `forward`, `backward` and `optimizer`):

    allocated   freed        category
    forward     after        feature_maps
    backward    optimizer    weight_gradients
    the same phase           workspace

Casts of weights to the type of products are workspace: copies, not the feature maps that they look like by their lives.
What was there before the step is known by its size: the variables and the batch.
"""

import bisect
import collections
import os

from tbd.frameworks.tensorflow import xplane

METHOD = (
    "allocation events of TensorFlow's profiler, by the phases of the operations that allocated and freed; "
    "variables and batch by their sizes"
)
ORDER = ("forward", "backward", "update")
CAST = "cast_weights"  # the scope in which update.py casts weights to the type of products

# One allocator event: `allocated` is True or False, `address` as given, `requested` and `size` (what the allocator
# handed out) in bytes, `in_use` the bytes then in use, `operation` the full name of the one that was running.
Event = collections.namedtuple("Event", "allocated address requested size in_use operation")


def in_use(device):
    """Bytes that the device's allocator has handed out now."""
    import tensorflow as tf

    return tf.config.experimental.get_memory_info(device)["current"]


def reserve(device):
    """Makes the CPU's best-fit allocator take one region of a quarter of the machine's memory; none of it is touched.

    A region that grows bit by bit leaves pieces that are handed out whole to requests of more than half their size
    (10 % of seq2seq's peak). One region is what the allocator has on a GPU, and makes the peak the same in every run.
    """
    import tensorflow as tf

    size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
    with tf.device(device):
        tf.raw_ops.Empty(shape=[size], dtype=tf.uint8)


def record(training, arrays):
    """One step of a TensorFlowTraining recorded: a dict of docs/memory.md."""
    import tensorflow as tf

    training.step(arrays)  # compiled, and every constant in its place
    training.wait()
    device = training.device
    with tf.device(device):
        # a tensor made from a numpy array may share its memory, which the allocator then knows nothing of
        inputs = [{name: tf.raw_ops.DeepCopy(x=t) for name, t in one.items()} for one in training.inputs(arrays)]
    training.wait()
    begin = in_use(device)
    tf.config.experimental.reset_memory_stats(device)
    with xplane.recording() as events:
        training.train(inputs)
        training.wait()
    peak = tf.config.experimental.get_memory_info(device)["peak"]
    found = allocator_events(events, "GPU_0_bfc" if device.startswith("GPU") else "bfc_cpu_allocator_for_gpu")
    if not found:
        raise RuntimeError("the profiler recorded no allocation: the memory pass needs TF_CPU_ALLOCATOR_USE_BFC=1")
    persistent = training.persistent() + [
        buffer(t.dtype.size * int(tf.size(t)), 0, None, "input", name) for one in inputs for name, t in one.items()
    ]
    described = description(found, persistent, begin, peak, training.gradient_names(), training.layers())
    return described if len(inputs) == 1 else dict(described, phases={})


def description(events, persistent, begin, peak, gradient_names, layers=None):
    """docs/memory.md of a step from its Events in order.

    `persistent` are the buffers from before the step, `begin` the bytes in use then, `peak` the allocator's own peak;
    `gradient_names` is {operation: canonical parameter's name}, `layers` {operation: layer}.
    """
    made, slack_at = followed(events, [b for b in persistent if b["category"] == "other"])
    for made_buffer, allocated_by, freed_by in made:
        is_cast = phase(allocated_by) == "forward" and CAST in allocated_by.split("/")
        made_buffer["category"] = "workspace" if is_cast else category(phase(allocated_by), phase(freed_by))
        is_gradient = made_buffer["category"] == "weight_gradients"
        made_buffer["name"] = gradient_names.get(allocated_by, allocated_by) if is_gradient else allocated_by
        if layer := layer_of(layers or {}, allocated_by):
            made_buffer["layer"] = layer
    buffers = persistent + [made_buffer for made_buffer, _, _ in made]
    # of the persistent buffers the allocator tells only the sum: what is beyond their sizes is its rounding
    slack = begin - sum(b["bytes"] for b in persistent)
    top = max(range(len(events)), key=lambda n: events[n].in_use)
    return {
        "schema": 1,
        "buffers": buffers,
        "steps": [1, len(events) + 1],
        "phases": phases(events),
        "allocator": {
            "name": "TensorFlow BFC",
            "peak_bytes": peak,
            "peak_at": top + 1,
            "slack_bytes": slack + slack_at[top],
        },
        "method": METHOD,
    }


def followed(events, replaceable):
    """([(buffer, allocated by, freed by or None)], [slack after each event]) of the buffers that the events make.

    The order axis is the event's number, from 1. What is freed without having been made here was there before: one of
    the `replaceable` buffers of its size (a step replaces the running statistics), which then dies there.
    """
    made, living, slack, slack_at = [], {}, 0, []
    by_size = collections.defaultdict(list)
    for old in replaceable:
        by_size[old["bytes"]].append(old)
    for order, event in enumerate(events, 1):
        if event.allocated:
            new = [buffer(event.requested, order, None, "other", ""), event.operation, None]
            made.append(new)
            living[event.address] = (new, event.size - event.requested)
            slack += event.size - event.requested
        elif event.address in living:
            old, beyond = living.pop(event.address)
            old[0]["died"], old[2] = order, event.operation
            slack -= beyond
        elif by_size[event.requested]:
            by_size[event.requested].pop()["died"] = order
            slack -= event.size - event.requested
        else:  # nothing of ours: it was in the bytes in use at the begin, and so in the slack
            slack -= event.size
        slack_at.append(slack)
    return [tuple(one) for one in made], slack_at


def category(allocated, freed):
    """The category of a buffer by the phases in which it was allocated and freed (None: neither phase is known)."""
    if allocated is None or freed is None:
        return "other"
    if allocated == freed:
        return "workspace"
    if allocated == "forward":
        return "feature_maps"
    return "weight_gradients" if (allocated, freed) == ("backward", "update") else "workspace"


def phase(operation):
    """forward, backward or update, from an operation's full name; None for one in none of the scopes."""
    if not operation:
        return None
    parts = operation.split("/")
    if "gradient_tape" in parts or parts[0] == "backward":
        return "backward"
    return {"forward": "forward", "optimizer": "update"}.get(parts[0])


def layer_of(layers, operation):
    """The layer of an operation, or of the loop that it is within, whose name its own begins with; "" for none."""
    while operation and operation not in layers:
        operation = operation.rpartition("/")[0]
    return layers.get(operation, "")


def phases(events):
    """{phase: [begin, end]} on the order axis.

    A few operations of a later phase (shapes, zeros) run early: the bounds are where the fewest events lie in the wrong
    phase.
    """
    found = [ORDER.index(name) if (name := phase(event.operation)) else None for event in events]
    bounds = [1, boundary(found, 1), boundary(found, 2), len(events) + 1]
    return {name: [bounds[n], bounds[n + 1]] for n, name in enumerate(ORDER)}


def boundary(found, later):
    """The order at which the phases numbered `later` and above begin."""
    place = 1
    misplaced = best = sum(1 for n in found if n is not None and n < later)
    for order, n in enumerate(found, 1):
        if n is not None:
            misplaced += 1 if n >= later else -1
        if misplaced < best:
            best, place = misplaced, order + 1
    return place


def allocator_events(events, allocator):
    """The allocator's Events in order of time, from the profiler's."""
    running = operations(events)
    found = []
    for event in sorted(events, key=lambda e: e.begin_ns):
        if event.name in ("MemoryAllocation", "MemoryDeallocation") and event.stats["allocator_name"] == allocator:
            stats = event.stats
            found.append(
                Event(
                    event.name == "MemoryAllocation",
                    stats["addr"],
                    stats["requested_bytes"],
                    stats["allocation_bytes"],
                    stats["bytes_allocated"],
                    stats.get("tf_op") or running(event.line, event.begin_ns),
                )
            )
    return found


def operations(events):
    """A function (thread, time in ns) -> the name of the operation that began last on that thread, or ""."""
    begun = collections.defaultdict(list)
    for event in events:
        operation, _ = xplane.operation(event)
        if operation:
            begun[event.line].append((event.begin_ns, operation))
    for line in begun.values():
        line.sort()

    def running(line, time_ns):
        place = bisect.bisect_right(begun[line], (time_ns, "\U0010ffff"))
        return begun[line][place - 1][1] if place else ""

    return running


def buffer(size, born, died, kind, name):
    return {"bytes": size, "born": born, "died": died, "category": kind, "name": name}
