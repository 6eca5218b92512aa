"""The parity ladder at full size, which takes hours: python -m tests.parity.full [--output FILE] [NETWORK ...]

Writes a Markdown report: for each network in each framework and precision the largest errors against PyTorch in float64
on the CPU, by the rules of compare.py. It goes on where it was stopped: lines of FILE with figures stay, to be done
again they are deleted from it. PyTorch's observations of a network lie in runs/parity until all of its lines are there.
The exit code is 1 where a bound is broken or a cell did not run.
"""

import argparse
import collections
import datetime
import os
import shutil
import sys
from pathlib import Path

import numpy

from tbd import models
from tbd.frameworks import facts
from tbd.frameworks.base import cpu_name
from tests.models import known
from tests.parity import cells, compare

ROWS = 2  # of a batch: the fewest that have a variance, where every framework's memory and time is least
STEPS = 3  # of the optimizer: its state acts from the second on
FIRST = ("pytorch", "tensorflow", "jax")  # in all networks before the others
KEPT = Path("runs/parity")
NOT_RUN = "not run"
HEAD = """# Parity at full size

Every network at its full size in every framework against PyTorch in float64 on the CPU: the same canonical weights, one
batch of {rows} rows, its loss, every gradient, and {steps} steps of the optimizer. Written by `make parity-full`; what
is compared, and the bounds: `tests/parity/compare.py`. The network is whole; an input that changes no parameter may be
smaller than a run's: {inputs}.

Errors are relative. A gradient's and a drift's are of the parameter that is nearest to its bound, with that bound in
brackets. The losses: of the batch, and the worst of the steps.

| network | framework | precision | initial weights | losses | gradient | drift | verdict | on |
|---|---|---|---|---|---|---|---|---|
"""

Cell = collections.namedtuple("Cell", "network framework precision")


def plan(networks):
    """The cells in the order in which they are done: FIRST's frameworks in all networks before the others."""
    found = [
        Cell(network, framework, precision)
        for network, framework in cells.CELLS
        for precision in ("fp64", "fp32")
        if network in networks and precision in facts(framework).PRECISIONS["cpu"]
    ]
    late = len(FIRST)
    rank = {framework: FIRST.index(framework) if framework in FIRST else late for _, framework, _ in found}
    return sorted(found, key=lambda c: (rank[c.framework] == late, networks.index(c.network), rank[c.framework]))


def observed(cell, keep=False):
    """observe.py's arrays of a cell, as a file that is read array by array."""
    folder = KEPT / cell.network.replace(":", "-")
    done, begun = folder / f"{cell.framework}-{cell.precision}.npz", folder / "begun"
    if not (keep and done.exists()):
        shutil.rmtree(begun, ignore_errors=True)
        begun.mkdir(parents=True)
        options = known.count_options(cells.model_of(cell.network))
        request = cells.request(*cell, str(begun), rows=ROWS, size="full", **options)
        cells.observe(cells.framework_python(cell.framework), begun, request, "--steps", str(STEPS))
        (begun / "right.npz").replace(done)  # whole, or not there
        shutil.rmtree(begun)
    return numpy.load(done)


def of_pytorch(network, precision):
    return observed(Cell(network, "pytorch", precision), keep=True)


def compared(cell):
    """A cell's columns of the report."""
    try:
        reference = of_pytorch(cell.network, "fp64")
        own = [of_pytorch(cell.network, "fp32")] if cell.precision == "fp32" else []
        found = observed(cell, keep=cell.framework == "pytorch")
    except AssertionError as failure:
        return ["", "", "", "", f"{NOT_RUN}: " + str(failure).strip().splitlines()[-1].replace("|", "/")]
    columns = figures(found, reference, own)
    if cell.framework != "pytorch":
        Path(found.fid.name).unlink()
    return columns


def figures(found, reference, own):
    """[initial weights, losses, gradient, drift, verdict] of an observation."""
    wrong = compare.failures(found, reference, own)
    if compare.different_arrays(found, reference):
        return ["differ", "", "", "", f"{len(wrong)} arrays differ: {wrong[0]}"]
    errors, own_errors = compare.errors(found, reference), compare.largest_errors(own, reference)

    def worst(kind):
        of_kind = [key for key in errors if key.startswith(kind)]
        key = max(of_kind, key=lambda key: errors[key] / compare.bound(key, own_errors.get(key)))
        return f"{errors[key]:.1e} ({compare.bound(key, own_errors.get(key)):.1e})"

    verdict = "holds" if not wrong else f"{len(wrong)} bounds broken: {wrong[0]}"
    return ["the same bits", f"{worst('loss/')}, {worst('losses')}", worst("gradient/"), worst("trained/"), verdict]


def read(path):
    """{Cell: line} of the report's lines that have a result."""
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [(line, [word.strip() for word in line.strip("|").split("|")]) for line in lines if line.startswith("| ")]
    return {Cell(*words[:3]): line for line, words in rows if NOT_RUN not in words[-2]}


def write(path, lines):
    """The report, with the cells that have no line as such."""
    smaller = {model: known.count_options(model) for model in models.names() if known.count_options(model)}
    inputs = "; ".join(f"{m} with " + ", ".join(f"`{k}={v}`" for k, v in of.items()) for m, of in smaller.items())
    rows = [lines.get(cell) or line(cell, ["", "", "", "", NOT_RUN], "") for cell in plan(cells.NETWORKS)]
    machine = f"Processor of the last run: {cpu_name()}, {os.cpu_count()} of it.\n"
    text = HEAD.format(rows=ROWS, steps=STEPS, inputs=inputs) + "\n".join(rows) + "\n\n" + machine
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").replace(path)


def line(cell, columns, day):
    return "| " + " | ".join([*cell, *columns, day]) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--output", default="docs/parity.md", type=Path)
    parser.add_argument("networks", nargs="*", default=cells.NETWORKS, metavar="NETWORK")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.networks) - set(cells.NETWORKS))
    if unknown:
        parser.error(f"{', '.join(unknown)}: not one of {', '.join(cells.NETWORKS)}")
    todo, lines = plan(arguments.networks), read(arguments.output)
    for cell in todo:
        if cell in lines:
            continue
        lines[cell] = line(cell, compared(cell), datetime.date.today().isoformat())
        print(lines[cell], flush=True)
        write(arguments.output, lines)
        if not any(other not in lines for other in todo if other.network == cell.network):
            shutil.rmtree(KEPT / cell.network.replace(":", "-"))
    write(arguments.output, lines)
    return 0 if all(" | holds | " in lines[cell] for cell in todo) else 1


if __name__ == "__main__":
    sys.exit(main())
