"""PyTorch's profiler as the trace contract wants it: docs/trace.md."""

import contextlib

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from tbd.frameworks import attribution

MARK = "tbd "


@contextlib.contextmanager
def tracing(path, training):
    """Record what runs within into `path`, gzipped Chrome trace JSON.

    Kineto's categories are already the contract's: cpu_op, kernel, gpu_memcpy and gpu_memset. Marks around the
    operators tell the phases of the step, and the layers of those modules that hold parameters of their own; the shapes
    of operators' inputs tell what work they have.
    """
    if not path.endswith(".gz"):
        raise ValueError(f"{path}: a trace's name must end in .gz, PyTorch compresses it by that")
    device = training.device
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with marked(training), profile(activities=activities, record_shapes=True) as profiler:
        yield
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    profiler.export_chrome_trace(path)


@contextlib.contextmanager
def marked(training):
    """The training's steps within mark their phases and layers for the profiler."""
    before, training.entered = training.entered, Phases()
    # hooks would make torch.compile compile anew
    hooks = [] if training.compiled else [hook for one in layers(training) for hook in hooked(*one)]
    try:
        yield
    finally:
        training.entered = before
        for hook in hooks:
            hook.remove()


class Phases:
    """Called with each phase as it begins, "" after the last: a mark from one call to the next."""

    def __init__(self):
        self.mark = None

    def __call__(self, phase):
        if self.mark:
            self.mark.__exit__(None, None, None)
        self.mark = record_function(MARK + phase) if phase else None
        if self.mark:
            self.mark.__enter__()


def layers(training):
    """[(module, its layer)] of the modules that hold parameters, by the canonical names of these."""
    names = {id(tensor): name for name, tensor in training.tensors.items()}
    found = []
    for module in training.network.modules():
        own = [names[id(p)] for p in module.parameters(recurse=False) if id(p) in names]
        layer = attribution.common([attribution.layer_of(name) for name in own])
        if layer:
            found.append((module, layer))
    return found


def hooked(module, layer):
    """A module's hooks that put a mark around its forward pass."""
    open_marks = []

    def enter(*_):
        open_marks.append(record_function(f"{MARK}layer {layer}"))
        open_marks[-1].__enter__()

    def leave(*_):
        open_marks.pop().__exit__(None, None, None)

    return module.register_forward_pre_hook(enter), module.register_forward_hook(leave)
