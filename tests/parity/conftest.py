"""Observations of the models in the frameworks' own environments, each made once a session."""

import numpy
import pytest

from tests.parity import cells


@pytest.fixture(scope="session")
def framework_python():
    """A function: the interpreter of a framework's environment."""
    return cells.framework_python


@pytest.fixture(scope="session")
def observation(framework_python, tmp_path_factory):
    """A function: observe.py's arrays of a network at its small size in a framework, with a planted fault or right."""
    folders = {}

    def observe(network, framework, precision, fault="right"):
        cell = (network, framework, precision)
        if cell not in folders:
            folder = tmp_path_factory.mktemp("-".join(cell).replace(":", "-"))
            # mixed precision in the same process as fp32: importing a framework takes longer than that
            of_fp32 = ("--learn", "--also", *cells.mixed(framework), "--faults", *cells.planted(network, framework))
            flags = of_fp32 if precision == "fp32" else ("--same",)
            flags += ("--own-kernels",) if framework == "pytorch" and precision == "fp32" else ()
            cells.observe(framework_python(framework), folder, cells.request(*cell, str(folder)), *flags)
            folders[cell] = folder
        with numpy.load(folders[cell] / (fault + ".npz")) as found:
            return dict(found)

    return observe
