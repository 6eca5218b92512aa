"""The parity ladder at full size, which takes hours: python -m tests.parity.full [--output FILE] [NETWORK ...]

Writes a Markdown report: for each network in each framework the largest errors against PyTorch in float64 on the CPU,
by the rules of compare.py, in float64 and in float32. A network's lines that are in FILE already are replaced. The exit
code is 1 where a bound is broken.
"""

import argparse
import datetime
import os
import sys
import tempfile
from pathlib import Path

import numpy

from tbd.frameworks import facts
from tbd.frameworks.base import cpu_name
from tests.parity import cells, compare

ROWS = 2  # of a batch: the fewest that have a variance, where every framework's memory and time is least
HEAD = """# Parity at full size

Every network at its full size in every framework against PyTorch in float64 on the CPU: the same canonical weights, one
batch of {rows} rows, 10 steps. Written by `make parity-full`; what is compared, and the bounds:
`tests/parity/compare.py`.
Errors are relative; a gradient's and a drift's are those of the worst parameter, with the bound of that parameter.

| network | framework | precision | initial weights | loss | worst gradient (bound) | worst drift (bound) | verdict |
|---|---|---|---|---|---|---|---|
"""


def observed(network, framework, precision, folder):
    """observe.py's arrays of the network at its full size, as a file that is read array by array."""
    place = Path(folder) / f"{framework}-{precision}"
    place.mkdir()
    request = cells.request(network, framework, precision, str(place), rows=ROWS, size="full")
    cells.observe(cells.framework_python(framework), place, request)
    return numpy.load(place / "right.npz")


def line(network, framework, precision, found, reference, own=None):
    """(a line of the report, whether every bound is held)."""
    wrong = compare.failures(found, reference, own)
    errors, own_errors = compare.errors(found, reference), compare.errors(own, reference) if own is not None else {}
    same = "differ" if compare.different_arrays(found, reference) else "the same bits"
    loss = max(error for key, error in errors.items() if compare.is_loss(key))
    cells_of_line = [network, framework, precision, same, f"{loss:.1e}"]
    for kind in ("gradient/", "trained/"):
        of_kind = [key for key in errors if key.startswith(kind)]
        worst = max(of_kind, key=lambda key: errors[key] / compare.bound(key, own_errors.get(key)))
        cells_of_line.append(f"{errors[worst]:.1e} ({compare.bound(worst, own_errors.get(worst)):.1e})")
    cells_of_line.append("holds" if not wrong else f"{len(wrong)} bounds broken: {wrong[0]}")
    return "| " + " | ".join(cells_of_line) + " |", not wrong


def compared(network):
    """([lines], whether all hold) of a network in every framework."""
    lines, good = [], True
    with tempfile.TemporaryDirectory() as folder:
        reference = observed(network, "pytorch", "fp64", folder)
        own = observed(network, "pytorch", "fp32", folder)
        frameworks = [framework for of, framework in cells.CELLS if of == network]
        for framework in frameworks:
            if "fp64" in facts(framework).PRECISIONS["cpu"]:
                found = reference if framework == "pytorch" else observed(network, framework, "fp64", folder)
                text, holds = line(network, framework, "fp64", found, reference)
                lines.append(text)
                good &= holds
            found = own if framework == "pytorch" else observed(network, framework, "fp32", folder)
            text, holds = line(network, framework, "fp32", found, reference, own)
            lines.append(text)
            good &= holds
    return lines, good


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--output", default="docs/parity.md", type=Path)
    parser.add_argument("networks", nargs="*", default=cells.NETWORKS, metavar="NETWORK")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.networks) - set(cells.NETWORKS))
    if unknown:
        parser.error(f"{', '.join(unknown)}: not one of {', '.join(cells.NETWORKS)}")
    good = True
    for network in arguments.networks:
        lines, holds = compared(network)
        good &= holds
        print("\n".join(lines), flush=True)
        write(arguments.output, network, lines)
    return 0 if good else 1


def write(path, network, lines):
    """The report with these lines for the network, in the order of cells.NETWORKS."""
    before = path.read_text().splitlines() if path.exists() else []
    of = {n: [row for row in before if row.startswith(f"| {n} | ")] for n in cells.NETWORKS}
    of[network] = lines
    when = datetime.date.today().isoformat()
    versions = f"Last run: {when}, {cpu_name()}, {os.cpu_count()} processors.\n"
    rows = "\n".join(row for n in cells.NETWORKS for row in of[n])
    path.write_text(HEAD.format(rows=ROWS) + rows + "\n\n" + versions)


if __name__ == "__main__":
    sys.exit(main())
