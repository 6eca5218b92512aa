"""The cells: which model runs in which framework on which hardware, and for those that don't, why.

Known without importing any framework: from the facts in tbd/frameworks/<name>/__init__.py and the models' files.
"""

from collections.abc import Mapping
from typing import Any

from tbd import data, frameworks, models


def unsupported(
    model: str,
    options: Mapping[str, Any],
    framework: str,
    device: str = "cpu",
    precision: str = "fp32",
    compiler: str | None = None,
) -> str | None:
    """Why this cell can't run, or None where it works.

    `options` are the model's, resolved; `framework` is one that comes with tbd; `device` is "cpu" or "gpu"; `compiler`
    is what `compile` says, None for the framework's usual.
    """
    if framework not in frameworks.names():
        return f"framework {framework} has no adapter: use {' or '.join(frameworks.names())}"
    compiler = compiler or frameworks.facts(framework).COMPILE[0]
    reason: str | None = frameworks.without(framework, model, options, compiler)
    if reason:
        return reason
    written = models.frameworks(model)
    if framework not in written:
        return f"{model} is not written in {framework}: it is in {', '.join(written)}"
    reason = frameworks.refusal(framework, device, precision, compiler)
    return reason


def alone(framework: str, device: str, devices: int) -> str | None:
    """Why the framework can't train on so many devices together, or None where it can."""
    if devices == 1 or device in frameworks.together(framework):
        return None
    able = [name for name in frameworks.names() if device in frameworks.together(name)]
    reason = f"{framework} trains on one {device} at a time here, not on {devices} together: hardware.devices=1"
    return reason + (f", or framework={' or '.join(able)}" if able else "")


def compilers() -> list[str]:
    """Every value that `compile` may have in some framework, sorted."""
    return sorted({name for framework in frameworks.names() for name in frameworks.facts(framework).COMPILE})


def table() -> list[dict[str, str | None]]:
    """Every model in every framework, the model at its full size, in fp32 on a CPU: status "works" or "unsupported"."""
    found: list[dict[str, str | None]] = []
    for model in models.names():
        options = models.create(model, {"size": "full"}).options
        for framework in frameworks.names():
            reason = unsupported(model, options, framework)
            status = "unsupported" if reason else "works"
            found.append({"model": model, "framework": framework, "status": status, "reason": reason})
    return found


def data_problem(model: str, source: str) -> str | None:
    """Why this data source can't feed this model, or None where it can."""
    if data.serves(source, model):
        return None
    fitting = [name for name in data.names() if data.serves(name, model)]
    return f"data={source} has nothing for model={model}: use {' or '.join('data=' + name for name in fitting)}"
