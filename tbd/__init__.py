"""tbd: a benchmark for training deep networks."""

__version__ = "0.1.0"
