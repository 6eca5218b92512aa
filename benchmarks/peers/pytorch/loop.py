"""The training loop of PyTorch's peers, with all that its tuning guide advises."""

import os

import torch


def set_up(device, precision):
    """(the torch.device, the autocast to compute in); sets threads and arithmetic."""
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    where = torch.device({"cpu": "cpu", "gpu": "cuda"}[device])
    arithmetic = "tf32" if precision == "tf32" else "ieee"
    torch.backends.cudnn.conv.fp32_precision = arithmetic
    torch.backends.cudnn.rnn.fp32_precision = arithmetic
    torch.backends.cuda.matmul.fp32_precision = arithmetic
    torch.backends.cudnn.benchmark = True
    if precision not in ("fp32", "tf32", "bf16"):
        raise ValueError(f"precision={precision}: peers train in fp32, tf32 and bf16")
    return where, torch.autocast(where.type, torch.bfloat16, enabled=precision == "bf16")


def wait(where):
    """Until the device has done all that was asked of it."""
    if where.type == "cuda":
        torch.cuda.synchronize(where)


def build(network, loss, optimizer, device, precision, compile, clip_norm=None, on_host=()):
    """(step, sync). loss(network, inputs) is of a batch of tensors on the device; optimizer(parameters) makes one.

    `on_host`: names of arrays that stay on the host.
    """
    where, autocast = set_up(device, precision)
    network.to(where, memory_format=torch.channels_last).train()
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = optimizer(parameters)
    called = torch.compile(network, dynamic=False) if compile == "inductor" else network

    def step(arrays):
        inputs = {name: torch.from_numpy(array) for name, array in arrays.items()}
        inputs.update({n: t.to(where, non_blocking=True) for n, t in inputs.items() if n not in on_host})
        with autocast:
            value = loss(called, inputs)
        value.backward()
        if clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(parameters, clip_norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step, lambda: wait(where)
