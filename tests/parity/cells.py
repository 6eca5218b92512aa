"""The cells, the frameworks' interpreters and the requests that the tests give them."""

import functools
import json
import os
import pathlib
import subprocess

from tbd import frameworks, models
from tbd.launch import environments
from tbd.launch.variables import WAITING
from tests.models import known
from tests.parity import faults

# Every network: each model, and as "model:variant" those that its options make (tests/models/known).
NETWORKS = [
    f"{model}{variant}" for model in models.names() for variant in ("", *(":" + v for v in known.variants(model)))
]


def model_of(network):
    return network.partition(":")[0]


def options_of(network, size="small"):
    """{option: value} of a network."""
    model, _, variant = network.partition(":")
    return {**(known.variants(model)[variant] if variant else {}), "size": size}


def refused(network, framework):
    """Whether the framework says that it can't train it."""
    options = models.create(model_of(network), options_of(network)).options
    return any(
        model == model_of(network) and (option is None or options.get(option) == value)
        for model, option, value in frameworks.facts(framework).WITHOUT
    )


# Every network in every framework in which it is written.
CELLS = [(n, f) for n in NETWORKS for f in models.frameworks(model_of(n)) if not refused(n, f)]


def mixed(framework):
    """The framework's mixed precisions on the CPU."""
    return [precision for precision in ("bf16", "fp16") if precision in frameworks.facts(framework).PRECISIONS["cpu"]]


def planted(network, framework):
    """The faults that are planted in a cell.

    In PyTorch all that the network can have. In another framework those that change its own code, in the first of its
    networks that can have them; what is planted from outside, which makes every framework train the same other network,
    goes from its first network to the others in turn.
    """
    if framework == "pytorch":
        return sorted(faults_of(network))
    own = [name for n, f in CELLS[: CELLS.index((network, framework))] if f == framework for name in faults_of(n)]
    earlier = [name for n in NETWORKS[: NETWORKS.index(network)] for name in faults_of(n)]
    inside = [name for name, fault in faults_of(network).items() if faults.inside(fault)]
    outside = sorted(set(faults_of(network)) - set(inside) - set(earlier))
    others = [f for n, f in CELLS if n == network and f != "pytorch"]
    turn = NETWORKS.index(network) + others.index(framework)
    return sorted(set(inside) - set(own)) + outside[turn % len(others) :: len(others)]


@functools.cache
def faults_of(network):
    """{name: Fault class} of the faults that a network can have."""
    return faults.of_specification(models.create(model_of(network), options_of(network)))


def models_in(framework):
    """The models that are written in a framework."""
    return [model for model in models.names() if framework in models.frameworks(model)]


def framework_python(name):
    """The interpreter of a framework's environment, which is made where there is none.

    The environment variable TBD_TEST_PYTHON_<NAME> names a ready one instead.
    """
    return os.environ.get("TBD_TEST_PYTHON_" + name.upper()) or str(environments.ensure(name).python)


def request(network, framework, precision, output, rows=8, size="small", **options):
    """A request (docs/request.md) for a network on the CPU, in batches of so many rows; `options` are the model's."""
    model = model_of(network)
    specification = models.create(model, {**options_of(network, size), **options})
    return {
        "schema": 1,
        "spool_id": "0" * 32,
        "output": output,
        "seed": 1,
        "batch_size": known.batch_size(specification, rows),
        "precision": precision,
        "model": dict(specification.options, name=model, size=size),
        "framework": {"name": framework},
        "hardware": {"name": "cpu", "device": "cpu", "devices": 1, "nodes": 1, "threads": 1},
        "data": {"name": "synthetic"},
        "measure": {},
        "rank": 0,
        "world_size": 1,
    }


def observe(python, folder, request, *flags):
    """Run observe.py on a request in the environment of `python`, into the folder."""
    (folder / "request.json").write_text(json.dumps(request))
    command = [python, str(pathlib.Path(__file__).parent / "observe.py"), str(folder / "request.json"), str(folder)]
    # what a network and its faults have in common, JAX compiles once
    cache = {"JAX_COMPILATION_CACHE_DIR": str(folder / "jax"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    environment = dict(os.environ, **WAITING, **cache)
    done = subprocess.run([*command, *flags], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stderr[-4000:]}"
