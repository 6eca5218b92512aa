"""The frameworks. A folder each: __init__.py holds plain facts, adapter.py is the adapter (tbd/frameworks/base.py).

The facts are read without importing the framework, which the controller doesn't have:

    DEVICES     what it trains on, of "cpu" and "gpu"
    PRECISIONS  {device: what it trains in there, of those in tbd/frameworks/base.py}
    COMPILE     what `compile` may be, the framework's usual first
    WITHOUT     what it can't express faithfully, {(model, option, value): reason}; (model, None, None): the whole model
"""

import importlib
import os


def names():
    """Every framework that has an adapter here, sorted."""
    here = os.path.dirname(os.path.abspath(__file__))
    return sorted(name for name in os.listdir(here) if os.path.isfile(os.path.join(here, name, "adapter.py")))


def facts(name):
    """The module of plain facts of a framework."""
    return importlib.import_module("tbd.frameworks." + name)


def refusal(name, device, precision, compiler):
    """Why the framework doesn't train so, or None where it does. `compiler`: one of `compile`'s values."""
    known = facts(name)
    if device not in known.DEVICES:
        return "hardware.device=%s: %s trains on %s here" % (device, name, " or ".join(known.DEVICES))
    offered = known.PRECISIONS[device]
    if precision not in offered:
        reason = "precision=%s: %s trains in %s on a %s" % (precision, name, ", ".join(offered), device)
        elsewhere = [other for other in known.DEVICES if precision in known.PRECISIONS[other]]
        return reason + "".join("; %s is for a %s" % (precision, other) for other in elsewhere)
    if compiler not in known.COMPILE:
        return "compile=%s: %s runs %s" % (compiler, name, " or ".join(known.COMPILE))
    return None


def create(request):
    """The Framework that the request names, imported and set up. Raises Unsupported for what it doesn't offer."""
    from tbd.frameworks.base import Unsupported

    name = request["framework"]["name"]
    request = dict(request, compile=request.get("compile") or facts(name).COMPILE[0])
    reason = refusal(name, request["hardware"]["device"], request["precision"], request["compile"])
    if reason:
        raise Unsupported(reason)
    return importlib.import_module("tbd.frameworks.%s.adapter" % name).FRAMEWORK(request)
