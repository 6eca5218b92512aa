"""CNTK's own plan of a network's memory, as it prints it before the network's first minibatch.

Every node is listed with its operator and dimensions:

    Validating --> Plus12 = Plus (Times9, Parameter4) : ... -> [16 x __noSequenceAxis1]

and then the matrices that share a buffer, as the rest do not:

    { Plus12 : [16 x __noSequenceAxis1]
      Times9 : [16 x __noSequenceAxis1] (gradient) }

Axes with a name are dynamic: the batch's rows, of sequences the rows times the longest, and after C.to_batch the places
of the axis that is the batch from there on. Python 3.6 syntax.
"""

import collections
import contextlib
import re

from cntk import debugging

from tbd.frameworks.cntk import quiet

# `operators` {node: operator}; `longest` {axis of sequences: places of the static axis that it was made from};
# `batches` the same of C.to_batch; `groups` [[Matrix, ...]] of those that share one buffer
Plan = collections.namedtuple("Plan", "operators longest batches groups sources")
Matrix = collections.namedtuple("Matrix", "node dimensions gradient")

NODE = re.compile(r"Validating --> (\S+) = (\w+)")
SOURCES = re.compile(r"Validating --> (\S+) = \w+ \(([^)]*)\)")
MATRIX = re.compile(r"\{?\s*(\S+) : (\[[^\]]*\])\s*(\(gradient\))?\s*\}?\s*$")
SEQUENCE = re.compile(r"= ToSequence \(.* : \[[^\]]* x (\d+) x [^\]]*\].*-> \[[^\]]* x (\S+)\]")
BATCH = re.compile(r"= ToBatchAxisNode \(.* : \[(?:[^\]]* x )?(\d+)\] -> \[(?:[^\]]* x )?(\S+)\]")
UNPACKED = re.compile(r"Validating --> (\S+) = UnpackBatchAxis \([^)]*\) : (\[[^\]]*\]) ->")
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
            longest, batches = ({axis: int(n) for n, axis in made.findall(nodes)} for made in (SEQUENCE, BATCH))
            sources = [(name, taken.split(", ")) for name, taken in SOURCES.findall(nodes)]
            found.append(
                Plan(
                    dict(NODE.findall(nodes)), longest, batches, groups(listed, dict(UNPACKED.findall(nodes))), sources
                )
            )
    return found


def groups(listed, unpacked):
    """`unpacked`: {node: dimensions} of batches as arrays, of whose first axis CNTK's own figure is 1."""
    found = []
    for line in listed.splitlines():
        line = line.strip()
        if line.startswith("{"):
            found.append([])
        match = MATRIX.match(line)
        if found and match:
            node, dimensions, gradient = match.groups()
            found[-1].append(Matrix(node, unpacked.get(node, dimensions), gradient is not None))
    return [group for group in found if group]


def count(dimensions, rows, planned):
    """Numbers in a matrix of a Plan whose batch has so many rows.

    A dimension that is only known with the batch, of sequences that were unpacked, is as long as the longest.
    """
    product = 1
    for word in filter(None, (word.strip() for word in dimensions.strip("[]").split(" x "))):
        if word.isdigit():
            product *= int(word)
        elif word in planned.longest:
            product *= rows * planned.longest[word]
        elif word in planned.batches:
            product *= planned.batches[word]
        elif word.startswith("__noSequenceAxis"):
            product *= rows
        else:
            product *= max(planned.longest.values())
    return product
