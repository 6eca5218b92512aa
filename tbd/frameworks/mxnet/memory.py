"""Where the memory of one training step goes: docs/memory.md.

MXNet's profiler counts the bytes of all arrays, without telling what they are. Weights, gradients, optimizer state,
statistics and the batch are arrays of the adapter's own, known by their sizes. A bound graph keeps its arrays from step
to step; which of them are feature maps is read off the graph: results of the forward pass that a node of the backward
pass takes. What is left of the peak is workspace.
"""

import json
import os
import re
import tempfile

import mxnet
import numpy

METHOD = (
    "the peak by the counter of MXNet's profiler; weights, gradients, optimizer state, statistics and batch by the "
    "sizes of their arrays; feature maps inferred from the bound graph, as results of the forward pass that the "
    "backward pass takes; workspace is the rest. What oneDNN keeps within an operator is not counted"
)
COUNTER = "Memory: cpu/0"

# Results that are another name for their operator's first argument.
ALIASES = {"Reshape", "Flatten", "expand_dims", "squeeze", "BlockGrad", "_copy", "identity", "make_loss"}


class Counter:
    """The bytes of all arrays at each change, as the profiler writes them. It knows of no array made before itself."""

    def __init__(self):
        handle, self.path = tempfile.mkstemp(suffix=".json")
        os.close(handle)
        kinds = dict.fromkeys(("profile_symbolic", "profile_imperative", "profile_api"), False)
        mxnet.profiler.set_config(profile_memory=True, filename=self.path, **kinds)
        mxnet.profiler.set_state("run")
        self.domain = mxnet.profiler.Domain("tbd")
        self.last = 0  # bytes in use at the end of the recording before

    def during(self, work):
        """The bytes in use before work(), and after each change until it is done."""
        for name in ("begin", "end"):
            mxnet.profiler.Marker(self.domain, name).mark("process")
            if name == "begin":
                work()
                mxnet.nd.waitall()
        events = self.events()
        times = {event["name"]: event["ts"] for event in events if event["name"] in ("begin", "end")}
        changes = sorted((e["ts"], e["args"][COUNTER]) for e in events if e["name"] == COUNTER and e["ph"] == "C")
        before = [self.last, *(value for time, value in changes if time <= times["begin"])]
        within = [value for time, value in changes if times["begin"] < time <= times["end"]]
        self.last = changes[-1][1] if changes else self.last
        return [before[-1], *within]

    def events(self):
        """The profiler's events since the last call: it goes on with its file, whose end it writes when it stops."""
        mxnet.profiler.dump(finished=False)
        with open(self.path) as file:
            text = file.read()
        os.remove(self.path)
        return json.loads("[" + re.sub(r'^\s*{\s*"traceEvents": \[|^\s*,|,\s*$', "", text) + "]")


def record(training, arrays):
    """One step of an MXNetTraining recorded: a dict of docs/memory.md."""
    training.step(arrays)  # every graph bound, and its arrays made
    training.wait()
    live = training.counter.during(lambda: training.step(arrays))
    graphs = [
        training.graph(inputs, turn) for turn, inputs in zip(training.turns, training.inputs(arrays), strict=True)
    ]
    return description(live, persistent(training, graphs), max(map(feature_maps, graphs), key=total))


def persistent(training, graphs):
    """The buffers, other than those of the graphs, that are there before a step and after it."""
    found = []
    for p in training.parameters:
        kind = "other" if p.role == "statistic" else "weights"
        found.append(buffer(nbytes(training.arrays[p.name]), kind, p.name))
    for update in training.updates:
        found += [buffer(nbytes(a), "weight_gradients", name) for name, a in update.gradients.items()]
        for arrays in update.rule.state.values():
            for p, array in zip(update.rule.parameters, arrays, strict=True):
                found.append(buffer(nbytes(array), "optimizer_state", p.name))
    for graph in graphs:
        found += [buffer(nbytes(a), "input", name) for name, a in graph.inputs.items()]
        found += [buffer(nbytes(a), "other", "moved by an operator") for a in graph.scratch]
    return found


def description(live, known, maps):
    """docs/memory.md of a step: the bytes in use in the course of it, and the buffers that are known.

    The order axis has the step's begin, 1, and its highest point, 2.
    """
    workspace = live[0] - total(known) - total(maps)
    rest = [
        buffer(workspace, "workspace", "kept by the graphs"),
        dict(buffer(max(live) - live[0], "workspace", "made within the step"), born=2, died=3),
    ]
    return {
        "schema": 1,
        "buffers": known + maps + [one for one in rest if one["bytes"]],
        "steps": [1, 3],
        "phases": {},
        "allocator": {"name": "MXNet storage", "peak_bytes": max(live), "slack_bytes": 0},
        "method": METHOD,
    }


def feature_maps(graph):
    """The buffers of a Graph that the forward pass makes and the backward pass takes."""
    nodes = json.loads(graph.symbol.tojson())["nodes"]
    operations = {node["name"]: node for node in nodes if node["op"] != "null"}
    variables = {node["name"] for node in nodes if node["op"] == "null"}
    sizes = sizes_of(graph.symbol)
    kept = set()
    for name, taken in taken_by(graph.executor.debug_str()):
        if name in operations or name in variables:
            continue
        for source, number in taken:
            while source in operations and operations[source]["op"] in ALIASES:
                source, number = nodes[operations[source]["inputs"][0][0]]["name"], operations[source]["inputs"][0][1]
            if source in operations:
                kept.add((source, number))
    return [buffer(size_of(operations[name], number, nodes, sizes), "feature_maps", name) for name, number in kept]


def taken_by(text):
    """(node's name, [(the node that it takes something of, which of its results)]) of a graph's debug_str()."""
    for node in re.split(r"^-+$", text, flags=re.MULTILINE)[1:]:
        name = re.search(r"^Op:\S+, Name=(.*)$", node, re.MULTILINE)[1]
        yield name, [(source, int(n)) for source, n in re.findall(r"^\targ\[\d+\]=(.*)\((\d+)\)", node, re.MULTILINE)]


def sizes_of(symbol):
    """{(node's name, which of its results): bytes} of all results that can be seen."""
    inside = symbol.get_internals()
    _, shapes, _ = inside.infer_shape()
    _, types, _ = inside.infer_type()
    found, counts = {}, {}
    for one, shape, kind in zip(inside, shapes, types, strict=True):
        number = counts.get(one.name, 0)
        counts[one.name] = number + 1
        found[one.name, number] = int(numpy.prod(shape)) * numpy.dtype(kind).itemsize
    return found


def size_of(node, number, nodes, sizes):
    """Bytes of a result; operators have some that can't be seen."""
    name = node["name"]
    if (name, number) in sizes:
        return sizes[name, number]
    if node["op"] in ("Pooling", "Dropout"):  # where the maximum is; the mask
        return sizes[name, 0]
    if node["op"] == "BatchNorm":  # mean, 1 / deviation: a number a channel
        weight, which = node["inputs"][1][:2]
        return sizes[nodes[weight]["name"], which]
    raise ValueError(f"the size of result {number} of {node['op']} is not known")


def total(buffers):
    return sum(one["bytes"] for one in buffers)


def nbytes(array):
    return array.size * numpy.dtype(array.dtype).itemsize


def buffer(size, category, name):
    return {"bytes": size, "born": 0, "died": None, "category": category, "name": name}
