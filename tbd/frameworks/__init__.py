"""The frameworks: one adapter each, all behind tbd/frameworks/base.py."""

import importlib
import os


def names():
    """Every framework that has an adapter here, sorted."""
    here = os.path.dirname(os.path.abspath(__file__))
    return sorted(name for name in os.listdir(here) if os.path.isfile(os.path.join(here, name, "__init__.py")))


def create(request):
    """The Framework that the request names, imported and set up."""
    module = importlib.import_module("tbd.frameworks." + request["framework"]["name"])
    return module.FRAMEWORK(request)
