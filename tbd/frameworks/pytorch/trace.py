"""PyTorch's profiler as the trace contract wants it: docs/trace.md."""

import contextlib

import torch
from torch.profiler import ProfilerActivity, profile


@contextlib.contextmanager
def tracing(path, device):
    """Record what runs within into `path`, gzipped Chrome trace JSON.

    Kineto's categories are already the contract's: cpu_op, kernel, gpu_memcpy and gpu_memset.
    """
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities) as profiler:
        yield
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    if not path.endswith(".gz"):
        raise ValueError(f"{path}: a trace's name must end in .gz, PyTorch compresses it by that")
    profiler.export_chrome_trace(path)
