"""A configuration that can't be run, in the user's words."""


class BadConfig(Exception):
    """The message is one line: the cause, the offending value and the way out."""
