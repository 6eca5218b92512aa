"""Observations of the models in the frameworks' own environments, each made once a session."""

import json
import pathlib
import subprocess

import numpy
import pytest

from tests.parity import cells

HERE = pathlib.Path(__file__).parent


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
            run(framework_python(framework), folder, *cell)
            folders[cell] = folder
        with numpy.load(folders[cell] / (fault + ".npz")) as found:
            return dict(found)

    return observe


def run(python, folder, network, framework, precision):
    (folder / "request.json").write_text(json.dumps(cells.request(network, framework, precision, str(folder))))
    command = [python, str(HERE / "observe.py"), str(folder / "request.json"), str(folder)]
    command += ["--faults", "--learn"] if precision == "fp32" else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stderr[-4000:]}"
