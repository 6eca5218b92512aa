"""The contract of a framework's adapter: tbd/frameworks/<name>/adapter.py defines FRAMEWORK, a subclass of Framework.

An adapter knows its framework and no model; a model's network in that framework is tbd/models/<model>/<name>.py, whose
NETWORK is what the adapter's training.py says at its top. Only the adapter's own modules and the networks may import
the framework, and only inside the worker's process.

A framework draws nothing at random but dropout's masks, from a generator of its own that the run's seed decides: what
else is random in a step comes in its batch (tbd/models/specification.py).

Where a device works asynchronously, as a GPU does, step() returns before the step is done: the times that the worker's
loop sees are those of the dispatch. The window between two wait() is right all the same; when the device was done with
each step is what step_ends() tells.
"""

import collections
import platform
import zlib

# What a run's precision means. `storage`: the type of weights, gradients, optimizer state and statistics, and of all
# arithmetic that is no product. `products`: what the factors of matrix products and convolutions are rounded to; their
# sums are kept in at least float32. Where the two differ this is mixed precision (Micikevicius et al. 2018, arXiv
# 1710.03740), or for tfloat32 the tensor cores' own rounding of float32 factors to 10 bits of fraction (NVIDIA A100
# white paper, 2020). `itemsize`: bytes of a stored number.
Precision = collections.namedtuple("Precision", "storage products itemsize")
PRECISIONS = {
    "fp32": Precision("float32", "float32", 4),
    "fp64": Precision("float64", "float64", 8),
    "tf32": Precision("float32", "tfloat32", 4),
    "bf16": Precision("float32", "bfloat16", 4),
    "fp16": Precision("float32", "float16", 4),
}

# fp16 alone needs loss scaling, since small gradients vanish in it (the same paper, section 3.2): the backward pass
# goes down scale * loss, and the gradients are divided by scale. Where one of them is not finite the update is left out
# and the scale halved; after INTERVAL updates in a row without that it is doubled. The numbers are those of
# torch.amp.GradScaler. A step whose update is left out still counts as a step, for schedules too.
LOSS_SCALE, LOSS_SCALE_GROWTH, LOSS_SCALE_BACKOFF, LOSS_SCALE_INTERVAL = 2.0**16, 2.0, 0.5, 2000

RUN_AHEAD = 4  # steps enqueued before step() waits: enough to keep a device busy, few enough to bound the memory


class Unsupported(Exception):
    """This framework can't do what is asked, here. The message says why and what would work."""


class Framework(object):
    """One framework, imported when the object is made, with the threads and the device that the request asks for.

    `request` is docs/request.md with two keys more. request["pass"] is what this process does, "timing", "trace" or
    "memory". Settings that a pass needs before the import, such as an allocator that records, hang on it; it may be
    missing, and nothing may be set that a timing pass doesn't want. request["peers"] is the tbd.worker.peers.Peers of a
    run of several ranks, for what the framework's own runtime must be told before it joins them.

    Of several ranks each has its own rows of the batch. A step's gradients are those of the batch of all ranks: the
    mean of the ranks' own, each by its share of what the loss is a mean over (specification.loss_weight), and a loss is
    multiplied by that share too, so that the mean of the ranks' losses is the whole batch's. Statistics of batch norm
    are a rank's own. What a rank draws at random is its own too (random_seed).
    """

    name = None

    def __init__(self, request):
        """Imports the framework and sets `request["hardware"]["threads"]`; raises Unsupported where it can't run.

        The usual thread variables (OMP_NUM_THREADS and its like, tbd/launch/variables.py) already have that number.
        """
        self.request = request

    @property
    def global_batch_size(self):
        """The batch of all devices together, by which a specification chooses its optimizers."""
        return self.request["batch_size"] * self.request["world_size"]

    @property
    def random_seed(self):
        """The seed of what the framework itself draws, dropout's masks: another in each rank, the run's in rank 0."""
        if self.request["rank"] == 0:
            return self.request["seed"]
        mixed = zlib.crc32(("%d %d" % (self.request["seed"], self.request["rank"])).encode("ascii"))
        return mixed & 0x7FFFFFFF  # what every framework's generator takes

    def peer_lost(self, error):
        """True where the exception means that the exchange with the other ranks broke off."""
        return False

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
        """A function of `times` that multiplies two (size, size) matrices in the run's products' type so often, and
        then waits.

        What the device's measured peak comes from: 2 size^3 operations each time.
        """
        raise NotImplementedError

    def memory_copy(self, size):
        """A function of `times` that copies `size` bytes (a multiple of 4) within the device's memory so often, and
        then waits.

        What the device's measured memory bandwidth comes from: each time size bytes are read and as many written.
        """
        raise NotImplementedError


class Training(object):
    """One network with its optimizers, built on its device. `arrays` are batches as the specification gives them."""

    alike = False  # whether the batches of several ranks must have the same shapes in each step

    def step(self, arrays):
        """Enqueue one iteration: each of specification.updates() in order, `repeat` times, with its own arrays
        (specification.update_arrays) and the learning rate of this step, the first being step 0.

        Need not wait, but stays at most RUN_AHEAD steps ahead of the device.
        """
        raise NotImplementedError

    def wait(self):
        """Return when all enqueued work is done."""
        raise NotImplementedError

    def step_ends(self):
        """When the device was done with each step since the wait() before the last one: a list, in order, of seconds on
        the clock of time.monotonic(). Called after a wait(). None where a step is done when step() returns.
        """
        return None

    def exchanged(self):
        """Of the last step, {"exchange_s": seconds in which any exchange with other ranks was under way,
        "exchange_wait_s": seconds that the step stood still for one}. None where that isn't known, or with one rank.
        """
        return None

    def skipped(self):
        """How many updates the loss scaling of fp16 left out since the last call. Waits."""
        return 0

    def losses(self):
        """The losses, as floats, of all steps since the last call, one a step: that of its last update. Waits.

        Those from before record_memory stay readable after it, together with those of the steps that it makes itself.
        """
        raise NotImplementedError

    def outputs(self, arrays):
        """{name: float32 array}: what the network's own outputs() gives of `arrays`, at the present weights.

        For data that depend on what the network makes of earlier data. A network without outputs() needs none of it.
        """
        raise NotImplementedError

    def weights(self):
        """{canonical name: array in its canonical layout}, statistics included."""
        raise NotImplementedError

    def gradients(self, arrays):
        """{update's name: (loss, {canonical name: gradient in its canonical layout})} of one batch.

        Each update at the present weights, in its first repetition, by its own parameters alone; before clipping and
        weight decay. Changes no weight. For the parity tests.
        """
        raise NotImplementedError

    def tracing(self, path):
        """A context manager: the steps within are recorded by the framework's profiler into `path`.

        The file is gzipped Chrome trace JSON ({"traceEvents": [...]}) that Perfetto opens. Complete events (ph "X", ts
        and dur in microseconds) whose cat is "cpu_op", "kernel", "gpu_memcpy" or "gpu_memset" are what figures are made
        of: docs/trace.md. Raises Unsupported where the framework has no profiler: the run goes on without, and says so.
        """
        raise NotImplementedError

    def record_memory(self, arrays):
        """One training step with every allocation recorded: a dict of docs/memory.md, `buffers` and `allocator`.

        Raises Unsupported where the framework tells too little of its memory: no category is ever made up.
        """
        raise NotImplementedError


def cpu_name():
    """The processor's model name as Linux gives it, elsewhere as the platform does."""
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
