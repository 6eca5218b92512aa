"""The data sources: one file each, all behind tbd/data/source.py."""

import collections
import importlib

from tbd.data.source import BadData

# What is known of a source before it is opened: the models that its batches are for (None: every one), and its options,
# {name: (type, least value or None, greatest value or None)}.
Kind = collections.namedtuple("Kind", "models options")

TEXT = (str, None, None)
SOURCES = {
    "gettext": Kind(
        ("seq2seq",),
        {"language": TEXT, "catalogues": (list, None, None), "root": TEXT, "max_length": (int, 1, None)},
    ),
    "imagenet": Kind(
        ("resnet50",),
        {"root": TEXT, "split": TEXT, "workers": (int, 1, None), "max_broken_share": (float, 0.0, 1.0)},
    ),
    "iwslt15": Kind(
        ("seq2seq",),
        {"root": TEXT, "split": TEXT, "source": TEXT, "target": TEXT, "max_length": (int, 1, None)},
    ),
    "synthetic": Kind(None, {}),
}
WORDS = {str: "text", list: "a list", int: "a whole number", float: "a number"}


def names():
    """Every data source, sorted."""
    return sorted(SOURCES)


def serves(data, model):
    """True where the source named `data` gives batches of the model named `model`. KeyError for an unknown source."""
    return SOURCES[data].models is None or model in SOURCES[data].models


def check(options):
    """Raises ValueError where an option of {"name": source, option: value or None} isn't the source's, or its value."""
    known = SOURCES[options["name"]].options
    for option, value in options.items():
        if option == "name":
            continue
        if option not in known:
            text = ", ".join(sorted(known)) or "none"
            raise ValueError("data=%s has no option %s; it has %s" % (options["name"], option, text))
        kind, least, greatest = known[option]
        kinds = (int, float) if kind is float else kind
        if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
            raise ValueError("data.%s=%s is not %s" % (option, value, WORDS[kind]))
        if value is not None and least is not None and not value >= least:
            raise ValueError("data.%s=%s is less than %s" % (option, value, least))
        if value is not None and greatest is not None and value > greatest:
            raise ValueError("data.%s=%s is more than %s" % (option, value, greatest))


def open_source(specification, request):
    """The Source that the request names. Raises BadData where the data can't be used, for this model or at all."""
    options = request["data"]
    name = options["name"]
    if name not in SOURCES:
        raise BadData("data=%s is not one of %s" % (name, ", ".join(names())))
    if not serves(name, specification.name):
        fitting = [other for other in names() if serves(other, specification.name)]
        message = "data=%s has no batches for model=%s: use data=%s"
        raise BadData(message % (name, specification.name, " or data=".join(fitting)))
    missing = sorted(option for option in SOURCES[name].options if options.get(option) is None)
    if missing:
        raise BadData("data=%s needs a value for data.%s" % (name, " and data.".join(missing)))
    try:
        check(options)
    except ValueError as error:
        raise BadData(str(error))
    return importlib.import_module("tbd.data." + name).open_source(specification, request)
