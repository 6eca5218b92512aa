"""Observations of the models in the frameworks' own environments, each made once a session."""

import json
import os
import pathlib
import subprocess

import numpy
import pytest

from tbd import models
from tbd.launch import environments

HERE = pathlib.Path(__file__).parent
BATCH_SIZE = 8


@pytest.fixture(scope="session")
def framework_python():
    """A function: the interpreter of a framework's environment, which is made where there is none.

    The environment variable TBD_TEST_PYTHON_<NAME> takes a ready one instead.
    """

    def python(name):
        return os.environ.get("TBD_TEST_PYTHON_" + name.upper()) or str(environments.ensure(name).python)

    return python


@pytest.fixture(scope="session")
def observation(framework_python, tmp_path_factory):
    """A function: observe.py's arrays of a model at its small size in a framework, with or without a planted fault."""
    folders = {}

    def observe(model, framework, precision, fault="right"):
        cell = (model, framework, precision)
        if cell not in folders:
            folder = tmp_path_factory.mktemp("-".join(cell))
            run(framework_python(framework), folder, *cell)
            folders[cell] = folder
        with numpy.load(folders[cell] / (fault + ".npz")) as found:
            return dict(found)

    return observe


def run(python, folder, model, framework, precision):
    (folder / "request.json").write_text(json.dumps(request(model, framework, precision, str(folder))))
    command = [python, str(HERE / "observe.py"), str(folder / "request.json"), str(folder)]
    command += ["--faults"] if precision == "fp32" else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stderr[-4000:]}"


def request(model, framework, precision, output):
    """A request (docs/request.md) for the model's small size on the CPU."""
    return {
        "schema": 1,
        "spool_id": "0" * 32,
        "output": output,
        "seed": 1,
        "batch_size": BATCH_SIZE,
        "precision": precision,
        "model": dict(models.create(model, {"size": "small"}).options, name=model, size="small"),
        "framework": {"name": framework},
        "hardware": {"name": "cpu", "device": "cpu", "devices": 1, "nodes": 1, "threads": 1},
        "data": {"name": "synthetic"},
        "measure": {},
        "rank": 0,
        "world_size": 1,
    }
