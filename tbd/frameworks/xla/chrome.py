"""A profile of XLA's as Chrome trace JSON (docs/trace.md), which Perfetto opens."""

import gzip
import json
import re

GPU = "/device:GPU:"
DRIVER = re.compile(r"cu(da)?[A-Z]\w+$")  # calls of the driver and of its runtime: cuLaunchKernel, cudaMemcpyAsync


def write(path, events, operation, place):
    with gzip.open(path, "wt", encoding="utf-8") as file:
        json.dump(chrome_trace(events, operation, place), file, separators=(",", ":"))


def chrome_trace(events, operation, place=lambda event, full_name: ("", "")):
    """{"traceEvents": [...]} of the profiler's events (xplane.py).

    operation(event) gives (full name, type) where the event is an operation's execution, on the host or a GPU, else
    ("", ""). Operations on the host's threads are "cpu_op", named by their type (Conv2D) with the full name in args;
    kernels, copies and fills on a GPU's streams are "kernel", "gpu_memcpy" and "gpu_memset", the driver's calls on the
    host "cuda_driver". place(event, full name) gives the operation's (layer, phase), "" or None where not known. Times
    are microseconds from the first.
    """
    kept = [(event, *kind) for event in events if (kind := described(event, operation))]
    start = min((event.begin_ns for event, *_ in kept), default=0)
    processes = numbered(event.plane for event, *_ in kept)
    threads = numbered((event.plane, event.line, event.line_name) for event, *_ in kept)
    found = [
        {"ph": "M", "name": "process_name", "pid": number, "args": {"name": plane}}
        for plane, number in processes.items()
    ] + [
        {"ph": "M", "name": "thread_name", "pid": processes[plane], "tid": number, "args": {"name": thread_name(name)}}
        for (plane, _, name), number in threads.items()
    ]
    for event, category, name, full_name in sorted(kept, key=lambda one: one[0].begin_ns):
        layer, phase = place(event, full_name) if full_name else ("", "")
        args = {"op": full_name, "layer": layer, "phase": phase, "correlation": event.stats.get("correlation_id")}
        if event.plane.startswith(GPU):
            args["device"] = event.plane[len(GPU) :]
        found.append(
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "pid": processes[event.plane],
                "tid": threads[event.plane, event.line, event.line_name],
                "ts": round((event.begin_ns - start) / 1000, 3),
                "dur": round((event.end_ns - event.begin_ns) / 1000, 3),
                "args": {key: value for key, value in args.items() if value},
            }
        )
    return {"traceEvents": found, "displayTimeUnit": "ms"}


def described(event, operation):
    """(category, name, full name) of an event that the trace keeps, else None."""
    full_name, kind = operation(event)
    if not event.plane.startswith(GPU):
        if full_name:
            return "cpu_op", kind, full_name
        return ("cuda_driver", event.name, "") if DRIVER.match(event.name) else None
    if not event.line_name.startswith("Stream"):
        return None  # lines that the profiler derives from the streams: modules, operations, steps
    lower = event.name.lower()
    return {"memcpy": "gpu_memcpy", "memset": "gpu_memset"}.get(lower[:6], "kernel"), event.name, full_name


def thread_name(name):
    """tf_Compute/4392355462739808411 -> tf_Compute."""
    return name.split("/")[0]


def numbered(keys):
    """{key: 1, 2, ... in order of appearance}."""
    found = {}
    for key in keys:
        found.setdefault(key, len(found) + 1)
    return found
