"""Several ranks: torch.distributed joins them, DistributedDataParallel takes the mean of their gradients."""

import os
import time

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from tbd.worker import network


def join(request, device):
    """Make this process a rank of torch.distributed's default group: by gloo on CPUs, by NCCL on GPUs."""
    peers, address = request["peers"], request["address"]
    interface = network.interface_of(address)
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        if interface:
            os.environ.setdefault(name, interface)
    if peers.rank == 0:  # the store takes a free port itself: nobody can take it in between
        store = distributed.TCPStore(address, 0, peers.world_size, is_master=True, wait_for_workers=False)
        peers.gather((address, store.port))
    else:
        host, port = peers.gather(None)[0]
        store = distributed.TCPStore(host, port, peers.world_size, is_master=False)
    backend = "nccl" if device.type == "cuda" else "gloo"
    distributed.init_process_group(backend, store=store, rank=peers.rank, world_size=peers.world_size)


def lost(error):
    """Whether an exception is of torch.distributed: gloo's are RuntimeErrors that name its source file."""
    return isinstance(error, distributed.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error))


class Exchange:
    """What several ranks exchange in the steps of a training, and how long that takes.

    On CPUs each bucket of gradients is handed to gloo here, as DistributedDataParallel would do it itself, so that its
    times are seen; on GPUs DistributedDataParallel does it, and the times are in the trace.
    """

    def __init__(self, device):
        self.device, self.ranks = device, distributed.get_world_size()
        self.spans = []  # [begin, end] of each exchange of the step
        self.ready = None  # when the last gradients of this rank's own were there
        self.waited = 0.0  # seconds of the step that stood still
        self.buckets = []  # of the step

    def wrap(self, model, tensors):
        """`model`, an nn.Module, so that its backward pass leaves the ranks' mean in the gradients of `tensors`.

        Every rank has the same weights to begin with. Batch norm's statistics stay each rank's own.
        """
        assert all(tensor.requires_grad for tensor in tensors)
        wrapped = DistributedDataParallel(model, broadcast_buffers=False, init_sync=False, gradient_as_bucket_view=True)
        if self.device.type == "cpu":
            wrapped.register_comm_hook(None, self.average)
        return wrapped

    def average(self, _, bucket):
        """DistributedDataParallel's communication hook: a future of the bucket's mean over the ranks."""
        tensor = bucket.buffer()
        self.buckets.append(tensor)
        span = [time.monotonic(), None]
        self.ready = span[0]
        self.spans.append(span)

        def done(future):
            span[1] = time.monotonic()
            return future.value()[0]

        return distributed.all_reduce(tensor.div_(self.ranks), async_op=True).get_future().then(done)

    def shares(self, weights):
        """A step begins, by finding out what this rank's losses count beside the others'.

        Gives a function that waits for that and gives for each turn of the step the factor, 1 where all ranks' rows
        count alike, by which its loss is to be multiplied. `weights`: what each loss is the mean of.
        """
        self.spans, self.ready, self.waited, self.buckets = [], None, 0.0, []
        own = torch.tensor(weights, dtype=torch.float64, device=self.device)
        total = own.clone()
        work = distributed.all_reduce(total, async_op=True)

        def factors():
            begin = time.monotonic()
            work.wait()
            self.waited += time.monotonic() - begin
            return own * self.ranks / total

        return factors

    def end_of_backward(self):
        """A backward pass is over, all gradients there."""
        if self.ready is not None:
            self.waited += time.monotonic() - self.ready
            self.ready = None

    def seconds(self):
        """Training.exchanged of the step."""
        if self.device.type != "cpu":
            return None
        covered, last = 0.0, float("-inf")
        for begin, end in sorted(self.spans):
            covered += max(0.0, end - max(begin, last))
            last = max(last, end)
        return {"exchange_wait_s": self.waited, "exchange_s": covered}
