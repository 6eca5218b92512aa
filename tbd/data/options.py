"""What an option of a model or of a data source may be: declared once as an Option, checked by `checked`."""

import collections
import math

WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", list: "a list"}


class Option(collections.namedtuple("Option", "type least greatest choices")):
    """The type (bool, int, float, str or list) of an option's value, the bounds that it includes, or all its values."""

    __slots__ = ()

    def __new__(cls, type, least=None, greatest=None, choices=None):
        return super(Option, cls).__new__(cls, type, least, greatest, choices)

    def __str__(self):
        """What is allowed, in words."""
        if self.choices is not None:
            return "one of %s" % ", ".join(str(choice) for choice in self.choices)
        words = WORDS[self.type]
        if self.least is not None and self.greatest is not None:
            return "%s from %s to %s" % (words, self.least, self.greatest)
        if self.least is not None:
            return "%s of at least %s" % (words, self.least)
        if self.greatest is not None:
            return "%s of at most %s" % (words, self.greatest)
        return words

    def allows(self, value):
        """True where `value` is of the type, or a whole number for a float, and within what is allowed."""
        if isinstance(value, bool) and self.type is not bool:  # Python counts True as a whole number
            return False
        if not isinstance(value, (int, float) if self.type is float else self.type):
            return False
        if isinstance(value, float) and not math.isfinite(value):
            return False
        return (
            (self.choices is None or value in self.choices)
            and (self.least is None or value >= self.least)
            and (self.greatest is None or value <= self.greatest)
        )


def checked(group, known, options):
    """`options` {name: value or None} by the Options `known`, whole numbers made floats where floats are wanted.

    None, which stands for a default, passes. Raises ValueError, whose one line names the key, such as model.width, the
    value and what is allowed.
    """
    found = {}
    for name, value in options.items():
        if name not in known:
            have = ", ".join(sorted(known)) or "none"
            raise ValueError("%s has no option %s; it has %s" % (group, name, have))
        if value is not None:
            if not known[name].allows(value):
                raise ValueError("%s.%s=%s must be %s" % (group.split("=")[0], name, value, known[name]))
            if known[name].type is float:
                value = float(value)
        found[name] = value
    return found
