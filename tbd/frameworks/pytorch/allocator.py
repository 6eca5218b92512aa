"""What PyTorch's own allocators say of a step: its peak, and the scratch memory within each operator."""

import contextlib
import gzip
import json
import os
import tempfile

import torch
from torch.profiler import ProfilerActivity, profile, record_function

MARK = "tbd operator "


class CpuAllocator(contextlib.ExitStack):
    """A context manager over one step. `persistent`: the bytes known to be there before.

    The CPU allocator keeps no peak, but the profiler notes every allocation and every free, operators' scratch memory
    included: the peak is `persistent` and the highest sum of the changes.
    """

    name = "DefaultCPUAllocator, by torch.profiler's memory events"
    slack_bytes = 0  # it hands out what is asked for
    library_bytes = 0  # and libraries keep nothing of it between steps

    def __init__(self, device, persistent):
        super().__init__()
        self.persistent = persistent
        self.peak_bytes = None
        self.scratch = []  # [(operator's number, bytes)], after the step

    def __enter__(self):
        self.profiler = self.enter_context(profile(activities=[ProfilerActivity.CPU], profile_memory=True))
        return self

    def __exit__(self, *error):
        super().__exit__(*error)
        if error[0] is None:
            self.read()

    def operator(self, number):
        """A context manager for one operator, by which its own allocations are found again."""
        return record_function(MARK + str(number))

    def read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "memory.json.gz")
            self.profiler.export_chrome_trace(path)
            with gzip.open(path, "rt") as file:
                events = json.load(file)["traceEvents"]
        changes = sorted(
            (event["args"]["Ev Idx"], event["ts"], event["args"]["Bytes"])
            for event in events
            if event["name"] == "[memory]"
        )
        marks = sorted(
            (event["ts"], event["ts"] + event["dur"], int(event["name"][len(MARK) :]))
            for event in events
            if event["name"].startswith(MARK) and event.get("ph") == "X"
        )
        live, highest = 0, 0
        at = 0
        for begin, end, number in marks:
            while at < len(changes) and changes[at][1] < begin:
                live += changes[at][2]
                at += 1
            before, within = live, live
            while at < len(changes) and changes[at][1] <= end:
                live += changes[at][2]
                within = max(within, live)
                at += 1
            self.scratch.append((number, within - max(before, live)))
            highest = max(highest, within)
        self.peak_bytes = self.persistent + highest


class CudaAllocator:
    """The same for the CUDA caching allocator, whose counters move as operators are enqueued: nothing waits."""

    name = "CUDA caching allocator"

    def __init__(self, device, persistent):
        self.device = device
        self.persistent = persistent
        self.peak_bytes = self.slack_bytes = 0
        self.scratch = []

    def __enter__(self):
        torch.cuda.synchronize(self.device)
        # what cuBLAS and cuDNN keep for themselves from step to step
        requested = torch.cuda.memory_stats(self.device)["requested_bytes.all.current"]
        self.library_bytes = requested - self.persistent
        return self

    def __exit__(self, *error):
        torch.cuda.synchronize(self.device)

    @contextlib.contextmanager
    def operator(self, number):
        before = torch.cuda.memory_allocated(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        yield
        within = torch.cuda.max_memory_allocated(self.device)
        self.scratch.append((number, within - max(before, torch.cuda.memory_allocated(self.device))))
        if within > self.peak_bytes:
            self.peak_bytes = within
            # blocks are rounded up to 512 bytes; requested_bytes are what was asked for
            requested = torch.cuda.memory_stats(self.device)["requested_bytes.all.peak"]
            self.slack_bytes = within - requested
