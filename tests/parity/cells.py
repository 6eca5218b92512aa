"""The cells, the frameworks' interpreters and the requests that the tests give them."""

import os

from tbd import models
from tbd.launch import environments

# Every model in every framework in which it is written.
CELLS = [(model, framework) for model in models.names() for framework in models.frameworks(model)]


def models_in(framework):
    """The models that are written in a framework."""
    return [model for model, of in CELLS if of == framework]


def framework_python(name):
    """The interpreter of a framework's environment, which is made where there is none.

    The environment variable TBD_TEST_PYTHON_<NAME> names a ready one instead.
    """
    return os.environ.get("TBD_TEST_PYTHON_" + name.upper()) or str(environments.ensure(name).python)


def request(model, framework, precision, output, batch_size=8):
    """A request (docs/request.md) for the model's small size on the CPU."""
    return {
        "schema": 1,
        "spool_id": "0" * 32,
        "output": output,
        "seed": 1,
        "batch_size": batch_size,
        "precision": precision,
        "model": dict(models.create(model, {"size": "small"}).options, name=model, size="small"),
        "framework": {"name": framework},
        "hardware": {"name": "cpu", "device": "cpu", "devices": 1, "nodes": 1, "threads": 1},
        "data": {"name": "synthetic"},
        "measure": {},
        "rank": 0,
        "world_size": 1,
    }
