"""Where the memory of one training step goes: docs/memory.md.

MXNet's profiler counts the bytes of all arrays, without telling what they are. Weights, gradients, optimizer state,
statistics and the batch are arrays of the adapter's own, known by their sizes. A bound graph keeps its arrays from
step to step; which of them are feature maps is read off the graph: what the forward pass makes of the batch and a node
of the backward pass takes. What is left of the peak is workspace.
"""

import json
import os
import re
import tempfile

import mxnet
import numpy

from tbd.frameworks import attribution

METHOD = (
    "the peak by the counter of MXNet's profiler; weights, gradients, optimizer state, statistics and batch by the "
    "sizes of their arrays; feature maps inferred from the bound graph, as what the forward pass makes of the "
    "batch and the backward pass takes; workspace is the rest. What oneDNN keeps within an operator is not counted"
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
    """The buffers of a Graph that the forward pass makes of its inputs and that the backward pass takes."""
    nodes = json.loads(graph.symbol.tojson())["nodes"]
    by_name, of_input = {}, set()
    for node in nodes:  # each after those that it takes something of
        by_name[node["name"]] = node
        sources = {nodes[source[0]]["name"] for source in node["inputs"]}
        if node["name"].startswith("input.") or not of_input.isdisjoint(sources):
            of_input.add(node["name"])
    kept = set()
    for name, taken in taken_by(graph.executor.debug_str()):
        for source, number in taken if name not in by_name else ():
            while source in by_name and by_name[source]["op"] in ALIASES:
                place, number, *_ = by_name[source]["inputs"][0]
                source = nodes[place]["name"]
            if source in of_input and by_name[source]["op"] != "null":
                kept.add((source, number))
    results, layers = results_of(graph.symbol), layers_of(nodes)
    return [
        dict(buffer(size_of(by_name[n], number, nodes, results), "feature_maps", n), layer=layers.get(n, ""))
        for n, number in sorted(kept)
    ]


def layers_of(nodes):
    """{node's name: its layer} of a graph's nodes, by tbd/frameworks/attribution.py."""
    names = [node["name"] for node in nodes if node["name"].startswith("parameter.")]
    found = attribution.Layers({name: name[len("parameter.") :] for name in names})
    for node in nodes:
        if node["op"] != "null":
            found.add(node["name"], [nodes[source[0]]["name"] for source in node["inputs"]])
    return found.layers


def taken_by(text):
    """(node's name, [(the node that it takes something of, which of its results)]) of a graph's debug_str()."""
    for node in re.split(r"^-+$", text, flags=re.MULTILINE)[1:]:
        name = re.search(r"^Op:\S+, Name=(.*)$", node, re.MULTILINE)[1]
        yield name, [(source, int(n)) for source, n in re.findall(r"^\targ\[\d+\]=(.*)\((\d+)\)", node, re.MULTILINE)]


def results_of(symbol):
    """{(node's name, which of its results): (shape, bytes of a number)} of all results that can be seen."""
    inside = symbol.get_internals()
    _, shapes, _ = inside.infer_shape()
    _, types, _ = inside.infer_type()
    found, counts = {}, {}
    for one, shape, kind in zip(inside, shapes, types, strict=True):
        number = counts.get(one.name, 0)
        counts[one.name] = number + 1
        found[one.name, number] = shape, numpy.dtype(kind).itemsize
    return found


# The shapes of results that can't be seen, by those of the one that can and of the operator's first argument.
HIDDEN = {
    "Pooling": lambda shape, first: shape,  # where the maximum is
    "Dropout": lambda shape, first: shape,  # the mask
    "BatchNorm": lambda shape, first: shape[1:2],  # mean, 1 / deviation
    "LayerNorm": lambda shape, first: shape[:-1],  # mean, deviation
    "CTCLoss": lambda shape, first: first,  # the gradient, worked out with the loss
}


def size_of(node, number, nodes, results):
    """Bytes of a node's result."""
    name = node["name"]
    shape, itemsize = results.get((name, number)) or results[name, 0]
    if (name, number) not in results:
        if node["op"] not in HIDDEN:
            raise ValueError(f"the size of result {number} of {node['op']} is not known")
        place, which, *_ = node["inputs"][0]
        shape = HIDDEN[node["op"]](shape, results[nodes[place]["name"], which][0])
    return int(numpy.prod(shape)) * itemsize


def total(buffers):
    return sum(one["bytes"] for one in buffers)


def nbytes(array):
    return array.size * numpy.dtype(array.dtype).itemsize


def buffer(size, category, name):
    return {"bytes": size, "born": 0, "died": None, "category": category, "name": name}
