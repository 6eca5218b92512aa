"""The frameworks. A folder each: __init__.py holds plain facts, adapter.py is the adapter (tbd/frameworks/base.py).

The facts are read without importing the framework, which the controller doesn't have:

    DEVICES     what it trains on, of "cpu" and "gpu"
    PRECISIONS  {device: what it trains in there, of those in tbd/frameworks/base.py}
    COMPILE     what `compile` may be, the framework's usual first
    NOT_ON      why not on a device that is missing there, {device: reason}; may be missing itself
    TOGETHER    devices of which several can train together, a rank each; may be missing, as ()
    WITHOUT     what it can't express faithfully, {(model, option, value): reason}; (model, None, None): the whole model
    UNCOMPILED  what it can't compile so, {one of COMPILE: as WITHOUT}; may be missing, as {}
"""

import importlib
import os

from tbd.frameworks import cuda


def names():
    """Every framework that has an adapter here, sorted."""
    here = os.path.dirname(os.path.abspath(__file__))
    return sorted(name for name in os.listdir(here) if os.path.isfile(os.path.join(here, name, "adapter.py")))


def facts(name):
    """The module of plain facts of a framework."""
    return importlib.import_module("tbd.frameworks." + name)


def together(name):
    """The devices of which several can train together in the framework."""
    return getattr(facts(name), "TOGETHER", ())


def without(name, model, options, compiler):
    """Why the framework can't express the model with these options, all of them given, or None where it can."""
    known = facts(name)
    parts = (known.WITHOUT, getattr(known, "UNCOMPILED", {}).get(compiler, {}))
    for (of_model, option, value), reason in (item for part in parts for item in part.items()):
        if of_model == model and (option is None or options.get(option) == value):
            return reason
    return None


def refusal(name, device, precision, compiler):
    """Why the framework doesn't train so, or None where it does. `compiler`: one of `compile`'s values."""
    known = facts(name)
    if device not in known.DEVICES:
        return not_on(known, name, device)
    offered = known.PRECISIONS[device]
    if precision not in offered:
        reason = "precision=%s: %s trains in %s on a %s" % (precision, name, ", ".join(offered), device)
        elsewhere = [other for other in known.DEVICES if precision in known.PRECISIONS[other]]
        return reason + "".join("; %s is for a %s" % (precision, other) for other in elsewhere)
    if compiler not in known.COMPILE:
        return "compile=%s: %s runs %s" % (compiler, name, " or ".join(known.COMPILE))
    return None


def not_on(known, name, device):
    """Why a framework with these facts doesn't train on the device, and what would."""
    reason = "hardware.device=%s: %s trains on %s here" % (device, name, " or ".join(known.DEVICES))
    why = getattr(known, "NOT_ON", {}).get(device)
    if why:
        reason += ": " + why
        capability = cuda.compute_capability(0) if device == "gpu" else None
        if capability:
            reason += "; this machine's GPU has compute capability %d.%d" % capability
    others = [other for other in names() if device in facts(other).DEVICES]
    if others:
        reason += ". Use hardware=cpu, or on a %s framework=%s" % (device, ", ".join(others))
    return reason


def create(request):
    """The Framework that the request names, imported and set up. Raises Unsupported for what it doesn't offer."""
    from tbd.frameworks.base import Unsupported

    name = request["framework"]["name"]
    request = dict(request, compile=request.get("compile") or facts(name).COMPILE[0])
    reason = refusal(name, request["hardware"]["device"], request["precision"], request["compile"])
    if reason:
        raise Unsupported(reason)
    return importlib.import_module("tbd.frameworks.%s.adapter" % name).FRAMEWORK(request)
