"""The models. One folder each: specification.py (framework-free) and one file a framework, named as the framework."""

import importlib
import os


def names():
    """Every model, sorted."""
    here = os.path.dirname(os.path.abspath(__file__))
    return sorted(name for name in os.listdir(here) if os.path.isfile(os.path.join(here, name, "specification.py")))


def frameworks(model):
    """The frameworks in which a model is written, sorted: the files beside its specification."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), model)
    return sorted(
        name[:-3]
        for name in os.listdir(folder)
        if name.endswith(".py") and name not in ("__init__.py", "specification.py")
    )


def create(model, options):
    """The Specification of `model` with `options` ({"size": ..., option: value or None}).

    Raises ValueError where an option or its value is not the model's.
    """
    module = importlib.import_module("tbd.models.%s.specification" % model)
    return module.SPECIFICATION(**options)


def network(model, framework):
    """The module tbd.models.<model>.<framework>, which holds the model's network in that framework."""
    return importlib.import_module("tbd.models.%s.%s" % (model, framework))
