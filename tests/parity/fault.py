"""What a deliberate mistake can change, to show that the parity gate finds it. Runs in every framework."""

import contextlib


class Fault:
    """No mistake at all: what a fault doesn't change passes through."""

    @classmethod
    def fits(cls, specification):
        """Whether a network of the specification can have this fault."""
        return True

    def __init__(self, framework):
        self.framework = framework

    @contextlib.contextmanager
    def planted(self):
        """Changes the framework itself within."""
        yield

    def specification(self, specification):
        return specification

    def batch(self, arrays):
        return arrays

    def weights_in(self, weights):
        return weights

    def weights_out(self, weights):
        return weights

    def observation(self, found, specification, arrays):
        return found
