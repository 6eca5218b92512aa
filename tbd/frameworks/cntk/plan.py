"""CNTK's own plan of a network's memory, as it prints it before the network's first minibatch.

Every node is listed with its operator and dimensions:

    Validating --> Plus12 = Plus (Times9, Parameter4) : ... -> [16 x __noSequenceAxis1]

and then the matrices that share a buffer, as the rest do not:

    { Plus12 : [16 x __noSequenceAxis1]
      Times9 : [16 x __noSequenceAxis1] (gradient) }

Axes with a name are dynamic: the batch's rows, and of sequences the rows times the longest. Python 3.6 syntax.
"""

import collections
import contextlib
import re

from cntk import debugging

from tbd.frameworks.cntk import quiet

# `operators` {node: operator}; `groups` [[Matrix, ...]] of those that share one buffer
Plan = collections.namedtuple("Plan", "operators groups")
Matrix = collections.namedtuple("Matrix", "node dimensions gradient")

NODE = re.compile(r"Validating --> (\S+) = (\w+)")
MATRIX = re.compile(r"\{?\s*(\S+) : (\[[^\]]*\])\s*(\(gradient\))?\s*\}?\s*$")
BEGIN, LISTED = "Post-processing network...", "Here are the ones that"


@contextlib.contextmanager
def printed():
    """Gives a list that at the end has the Plans of the networks whose first minibatch was within."""
    plans = []
    with quiet.held_stderr() as written:
        debugging.set_computation_network_trace_level(1)
        try:
            yield plans
        finally:
            debugging.set_computation_network_trace_level(0)
    plans += read(written[0])


def read(text):
    """The Plans in what CNTK printed, those of networks with a minibatch."""
    found = []
    for part in text.split(BEGIN)[1:]:
        if LISTED in part:
            nodes, listed = part.split(LISTED, 1)
            found.append(Plan(dict(NODE.findall(nodes)), groups(listed)))
    return found


def groups(listed):
    found = []
    for line in listed.splitlines():
        line = line.strip()
        if line.startswith("{"):
            found.append([])
        match = MATRIX.match(line)
        if found and match:
            node, dimensions, gradient = match.groups()
            found[-1].append(Matrix(node, dimensions, gradient is not None))
    return [group for group in found if group]


def count(dimensions, dynamic):
    """Numbers in a matrix: the product of its dimensions. `dynamic` gives the length of an axis by its name."""
    product = 1
    for word in dimensions.strip("[]").split(" x "):
        if word.strip():
            product *= int(word) if word.strip().isdigit() else dynamic(word.strip())
    return product
