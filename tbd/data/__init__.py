"""The data sources: one file each, all behind tbd/data/source.py."""

import collections
import importlib

from tbd import models
from tbd.data import kinds
from tbd.data.options import Option, checked
from tbd.data.source import BadData

# What is known of a source before it is opened: the kind of its samples (None: batches of whatever a model takes), its
# options {name: Option}, and where it runs a program in an environment of its own, that project's folder below
# entrypoints/data: the launcher makes the environment and fills in the options `python` and `program`.
Entry = collections.namedtuple("Entry", "kind options project")
Entry.__new__.__defaults__ = (None,)

SOURCES = {
    "atari": Entry(
        kinds.SEGMENTS,
        {
            "game": Option(str),
            "actors_per_row": Option(int, 1),
            "processes": Option(int, 1),
            "python": Option(str),
            "program": Option(str),
        },
        project="atari",
    ),
    "gettext": Entry(
        kinds.SENTENCE_PAIRS,
        {"language": Option(str), "catalogues": Option(list), "root": Option(str), "max_length": Option(int, 1)},
    ),
    "imagenet": Entry(
        kinds.LABELLED_PICTURES,
        {
            "root": Option(str),
            "split": Option(str),
            "workers": Option(int, 1),
            "max_broken_share": Option(float, 0.0, 1.0),
        },
    ),
    "imagenet64": Entry(
        kinds.SMALL_PICTURES,
        {"root": Option(str), "split": Option(str)},
    ),
    "iwslt15": Entry(
        kinds.SENTENCE_PAIRS,
        {
            "root": Option(str),
            "split": Option(str),
            "source": Option(str),
            "target": Option(str),
            "max_length": Option(int, 1),
        },
    ),
    "librispeech": Entry(
        kinds.UTTERANCES,
        {
            "root": Option(str),
            "split": Option(str),
            "workers": Option(int, 1),
            "max_broken_share": Option(float, 0.0, 1.0),
            "max_seconds": Option(float, 0.1),
        },
    ),
    "synthetic": Entry(None, {}),
    "voc": Entry(
        kinds.BOXED_PICTURES,
        {
            "root": Option(str),
            "split": Option(str),
            "workers": Option(int, 1),
            "max_broken_share": Option(float, 0.0, 1.0),
        },
    ),
}


def names():
    """Every data source, sorted."""
    return sorted(SOURCES)


def serves(data, model):
    """True where the source named `data` has what `model`, a Specification or a model's name, trains on.

    KeyError for an unknown source.
    """
    kind = SOURCES[data].kind
    takes = (models.specification_class(model) if isinstance(model, str) else model).takes
    return kind is None or kind in takes


def check(options):
    """{"name": source, option: value or None} with floats for whole numbers where floats are wanted.

    Raises ValueError, with the key and what is allowed, where an option isn't the source's or its value can't be.
    """
    name = options["name"]
    own = {option: value for option, value in options.items() if option != "name"}
    return dict(checked("data=%s" % name, SOURCES[name].options, own), name=name)


def resolve(options, cache):
    """`options`, checked, with the source's own defaults and absolute paths; `cache` is a folder for what it makes.

    Raises ValueError as `check` does.
    """
    options = check(options)
    module = module_of(options["name"])
    return module.resolve(options, cache) if hasattr(module, "resolve") else options


def open_source(specification, request):
    """The Source that the request names. Raises BadData where the data can't be used, for this model or at all."""
    options = request["data"]
    name = options["name"]
    if name not in SOURCES:
        raise BadData("data=%s is not one of %s" % (name, ", ".join(names())))
    if not serves(name, specification):
        fitting = [other for other in names() if serves(other, specification)]
        message = "data=%s has no batches for model=%s: use data=%s"
        raise BadData(message % (name, specification.name, " or data=".join(fitting)))
    missing = sorted(option for option in SOURCES[name].options if options.get(option) is None)
    if missing:
        raise BadData("data=%s needs a value for data.%s" % (name, " and data.".join(missing)))
    try:
        check(options)
    except ValueError as error:
        raise BadData(str(error))
    return module_of(name).open_source(specification, request)


def module_of(name):
    return importlib.import_module("tbd.data." + name)
