"""The frameworks. A folder each: __init__.py holds plain facts, adapter.py is the adapter (tbd/frameworks/base.py).

The facts are read without importing the framework, which the controller doesn't have:

    DEVICES     what it trains on here, of "cpu" and "gpu"
    PRECISIONS  of those in tbd/frameworks/base.py
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


def create(request):
    """The Framework that the request names, imported and set up. Raises Unsupported for a precision it doesn't have."""
    from tbd.frameworks.base import Unsupported

    name, precision = request["framework"]["name"], request["precision"]
    known = facts(name).PRECISIONS
    if precision not in known:
        raise Unsupported("precision=%s: the networks here train in %s in %s" % (precision, name, ", ".join(known)))
    return importlib.import_module("tbd.frameworks.%s.adapter" % name).FRAMEWORK(request)
