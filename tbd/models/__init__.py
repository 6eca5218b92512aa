"""The models. One folder each: specification.py (framework-free) and one file a framework, named as the framework.

Other modules may lie beside them: what several frameworks share, such as the anchors of a detector.
"""

import importlib
import os

from tbd.frameworks import names as known_frameworks


def names():
    """Every model, sorted."""
    here = os.path.dirname(os.path.abspath(__file__))
    return sorted(name for name in os.listdir(here) if os.path.isfile(os.path.join(here, name, "specification.py")))


def frameworks(model):
    """The frameworks in which a model is written, sorted: the files beside its specification that are named so."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), model)
    return [name for name in known_frameworks() if os.path.isfile(os.path.join(folder, name + ".py"))]


def specification_class(model):
    """The class of a model's Specification."""
    return importlib.import_module("tbd.models.%s.specification" % model).SPECIFICATION


def create(model, options):
    """The Specification of `model` with `options` ({"size": ..., option: value or None}).

    Raises ValueError where an option or its value is not the model's.
    """
    return specification_class(model)(**options)


def network(model, framework):
    """The module tbd.models.<model>.<framework>, which holds the model's network in that framework."""
    return importlib.import_module("tbd.models.%s.%s" % (model, framework))
