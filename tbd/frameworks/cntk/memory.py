"""Where the memory of one training step goes: docs/memory.md.

CNTK prints the plan by which the matrices of a network share buffers (plan.py), and keeps these buffers from step to
step. What a matrix is follows from its node and its direction:

    value of a Constant                           other
    value of an operator                          feature_maps
    gradient of a Parameter                       weight_gradients
    any other gradient, any matrix of a learner   workspace

A shared buffer is as large as its largest matrix. As much of it as its largest weight gradient takes counts as that,
what its largest feature map takes beyond as a feature map, the rest as workspace. Weights, optimizer state, the
learner's copies of the gradients and the batch are arrays of known sizes. What the process takes beyond all of these is
workspace that the plan doesn't list: that of convolutions, of batch norm, copies of the input, and sequences laid out
as one array (attention), whose length the plan doesn't have: it says 1. Python 3.6 syntax.
"""

import ctypes
import gc

import numpy

from tbd.frameworks import attribution
from tbd.frameworks.base import Unsupported
from tbd.frameworks.cntk import plan

METHOD = (
    "weights, optimizer state, statistics, the learner's copies of the gradients and the batch by their sizes; other "
    "gradients and feature maps by the memory plan that CNTK prints, where of a shared buffer so much counts as "
    "feature maps as the largest of them takes; the peak by what a second, fresh training adds to the process's "
    "resident memory in its first two steps; workspace is what the plan lists as such, and the rest up to that peak, "
    "in which is what attention keeps: the plan has no length of sequences that are laid out as one array"
)
RANKS = ("other", "weight_gradients", "feature_maps", "workspace")  # the most persistent first


def record(training, arrays):
    """Two steps of a fresh copy of a CntkTraining: a dict of docs/memory.md."""
    batch = [{name: array.copy() for name, array in one.items()} for one in training.inputs(arrays)]
    copy = training.copy()
    copy.make_graphs(batch)
    before = resident(forget=True)
    with plan.printed() as plans:
        copy.train(batch)
        copy.train(batch)
    grown = resident() - before
    training.unread += copy.losses()
    return description(copy, batch, plans, grown)


def description(training, batch, plans, grown):
    """docs/memory.md of a training whose `plans` CNTK printed, and which made the process grow by so many bytes."""
    known = persistent(training, batch)
    planned = [b for one in plans for b in buffers(training, one, batch)]
    listed = sum(b["bytes"] for b in planned)
    if grown > listed:
        planned.append(buffer(grown - listed, 1, 2, "workspace", "not in CNTK's plan"))
    return {
        "schema": 1,
        "buffers": known + planned,
        "steps": [1, 2],
        "phases": {},  # the plan has no order
        "allocator": {
            "name": "resident memory of the process",
            "peak_bytes": sum(b["bytes"] for b in known) + max(grown, listed),
            "slack_bytes": 0,
        },
        "method": METHOD,
    }


def persistent(training, batch):
    """The buffers that are there before a step over the `batch`."""
    found = []
    for p in training.parameters:
        kind = "other" if p.role == "statistic" else "weights"
        found.append(buffer(nbytes(training.variables[p.name]), 0, None, kind, p.name))
    for update in training.updates:
        for constants in update.rule.state.values():
            for p, constant in zip(update.parameters, constants):
                found.append(buffer(nbytes(constant), 0, None, "optimizer_state", p.name))
        for p, constant in zip(update.parameters, update.rule.copies):
            found.append(buffer(nbytes(constant), 0, None, "weight_gradients", p.name))
    return found + [buffer(a.nbytes, 0, None, "input", name) for one in batch for name, a in one.items()]


def buffers(training, planned, batch):
    """The buffers of a Plan that a step over the `batch` makes."""
    names = {variable.uid: name for name, variable in training.variables.items()}
    of_learner = any(c.uid in planned.operators for update in training.updates for c in update.rule.copies)
    own = {c.uid for u in training.updates for constants in u.rule.state.values() for c in constants}
    own.update(c.uid for u in training.updates for c in u.rule.copies)
    rows = len(next(iter(batch[0].values())))
    layers = attribution.Layers({node: name for node, name in names.items() if node in planned.operators})
    for node, sources in planned.sources:
        if node not in names:
            layers.add(node, sources)

    found = []
    for group in planned.groups:
        made = [m for m in group if m.gradient or not (m.node in names or m.node in own)]
        taken = 0
        for rank in RANKS:
            sizes = [
                (plan.count(m.dimensions, rows, planned), m.node)
                for m in made
                if kind(m, planned, names, of_learner) == rank
            ]
            count, node = max(sizes, default=(0, None))
            if count > taken:
                size = (count - taken) * numpy.dtype(training.dtype).itemsize
                layer = layers.layers.get(node, "")
                found.append(dict(buffer(size, 1, 2, rank, names.get(node, node)), layer=layer))
                taken = count
    return found


def kind(matrix, planned, names, of_learner):
    """The category of a Matrix that is no weight's and no state's value."""
    operator = planned.operators.get(matrix.node)
    if matrix.gradient and matrix.node in names:
        return "weight_gradients"
    if operator == "LearnableParameter" and not matrix.gradient:
        return "other"
    if matrix.gradient or of_learner or operator in (None, "InputValue", "SparseInputValue", "DynamicAxis"):
        return "workspace"
    return "feature_maps"


def resident(forget=False):
    """Bytes of resident memory: the highest since it was last forgotten, or with `forget`, from now on."""
    if forget:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # what is free is the system's: else it would be used again unseen
        try:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
        except OSError as error:
            raise Unsupported("the peak of resident memory can't be forgotten here: %s" % error)
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))


def nbytes(variable):
    return int(numpy.prod(variable.shape)) * numpy.dtype(variable.dtype).itemsize


def buffer(size, born, died, category, name):
    return {"bytes": size, "born": born, "died": died, "category": category, "name": name}
