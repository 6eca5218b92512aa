"""The contract of a framework's adapter: tbd/frameworks/<name>/__init__.py defines FRAMEWORK, a subclass of Framework.

An adapter knows its framework and no model; a model's network in that framework is tbd/models/<model>/<name>.py.
Only the adapter's own modules may import the framework, and only inside the worker's process.
"""


class Unsupported(Exception):
    """This framework can't do what is asked, here. The message says why and what would work."""


class Framework(object):
    """One framework, imported when the object is made, with the threads and the device that the request asks for."""

    name = None

    def __init__(self, request):
        """Imports the framework and sets `request["hardware"]["threads"]`; raises Unsupported where it can't run."""
        self.request = request

    def version(self):
        """The framework's version, such as "2.13.0+cpu"."""
        raise NotImplementedError

    def devices(self):
        """What the run computes on: a list of {"kind": "cpu" or "gpu", "name": model name, "uuid": of a GPU}."""
        raise NotImplementedError

    def build(self, specification, weights):
        """The Training of `specification` from `weights` ({name: array} in canonical layouts)."""
        raise NotImplementedError

    def out_of_memory(self, error):
        """True where the exception means that the device's or the host's memory ran out."""
        return isinstance(error, MemoryError)

    def matrix_product(self, size):
        """A function without arguments that multiplies two (size, size) matrices of the run's precision and waits.

        What the device's measured peak comes from: 2 size^3 operations a call.
        """
        raise NotImplementedError


class Training(object):
    """One network with its optimizer, built on its device. `arrays` are batches as the specification gives them."""

    def step(self, arrays):
        """Enqueue one optimizer step. Need not wait, but stays at most a few steps ahead of the device."""
        raise NotImplementedError

    def wait(self):
        """Return when all enqueued work is done."""
        raise NotImplementedError

    def losses(self):
        """The losses, as floats, of all steps since the last call. Waits."""
        raise NotImplementedError

    def weights(self):
        """{canonical name: array in its canonical layout}, statistics included."""
        raise NotImplementedError

    def gradients(self, arrays):
        """(loss, {canonical name: gradient in its canonical layout}) of one batch, before clipping and weight decay.

        Changes no trainable weight. For the parity tests.
        """
        raise NotImplementedError

    def tracing(self, path):
        """A context manager: the steps within are recorded by the framework's profiler into `path`.

        The file is gzipped Chrome trace JSON ({"traceEvents": [...]}) that Perfetto opens. Complete events (ph "X", ts
        and dur in microseconds) whose cat is "cpu_op", "kernel", "gpu_memcpy" or "gpu_memset" are what figures are made
        of: docs/trace.md.
        """
        raise NotImplementedError

    def record_memory(self, arrays):
        """One training step with every allocation recorded: a dict of docs/memory.md, `buffers` and `allocator`."""
        raise NotImplementedError
