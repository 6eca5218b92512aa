"""What the analysis of a large trace takes: seconds and the highest resident memory, of figures and trace.parquet.

    python benchmarks/trace.py [MB, default 200]

The trace has the form of PyTorch's profiler on a GPU: for each operator an event, a call of the driver and a kernel,
with their numbers, within marks of phases. It is written anew into a temporary folder, of the size asked for before
compression; the analysis runs in a process of its own.
"""

import gzip
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

LAYERS, STEPS = 50, 4


def write(path: Path, size: int) -> int:
    """A gzipped trace of about so many bytes; gives how many events it has."""
    number, written = 0, 0
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write('{"schemaVersion": 1, "traceEvents": [\n')
        while written < size:
            text = ",\n".join(json.dumps(event) for event in operator(number))
            written += file.write((",\n" if number else "") + text)
            number += 1
        end = number * 20.0
        for step in range(3 * STEPS):
            phase = ("forward", "backward", "update")[step % 3]
            span = event(f"tbd {phase}", "user_annotation", step * end / STEPS / 3, end / STEPS / 3)
            file.write(",\n" + json.dumps(span))
        file.write("\n]}\n")
    return 3 * number + 3 * STEPS


def operator(number: int) -> list[dict[str, Any]]:
    t, tie = 20.0 * number, {"External id": number + 1, "correlation": number + 1}
    shapes = {"Input Dims": [[32, 256, 56, 56], [64, 256, 1, 1], [], [], []], "Input type": ["float"] * 5}
    layer = f"layer{number % LAYERS}.conv"
    return [
        event(f"aten::operator_{number % 300}", "cpu_op", t, 18.0, layer=layer, **tie, **shapes),
        event("cudaLaunchKernel", "cuda_runtime", t + 5, 4.0, cbid=211, **tie),
        event(
            f"void cutlass_tensorop_{number % 400}<float, 4, 128, 256>(Params)", "kernel", t + 12, 17.0,
            tid=7, device=0, stream=7, grid=[128, 4, 1], block=[256, 1, 1], **tie,
        ),
    ]  # fmt: skip


def event(name: str, category: str, begin: float, duration: float, tid: int = 1, **args: Any) -> dict[str, Any]:
    return {
        "ph": "X", "cat": category, "name": name, "pid": 0 if category == "kernel" else 77, "tid": tid, "ts": begin,
        "dur": duration, "args": args,
    }  # fmt: skip


def analyse(path: Path) -> None:
    """What the record of a run makes of its trace; prints events, seconds and MB."""
    from tbd.measure.garbage import without_collecting
    from tbd.worker.passes import peak_rss_bytes

    with without_collecting():  # as where it is recorded
        told = analysis(path)
    # ru_maxrss would begin with that of the process that wrote the trace
    print(told.format(mb=peak_rss_bytes() / 1e6))


def analysis(path: Path) -> str:
    from tbd.measure import breakdown, idle, trace
    from tbd.tracking import events_table

    begun, begun_cpu = time.monotonic(), time.process_time()
    recording = trace.read(path)
    timed = breakdown.timed(recording.events)
    trace.table(trace.operators(recording.events), STEPS)
    breakdown.by_layer(timed, STEPS)
    breakdown.longest(timed, STEPS)
    breakdown.by_operator(timed, STEPS)
    breakdown.phase_share(timed, "forward")
    idle.step(recording.events, 3600.0)
    table = events_table.parquet(recording)
    seconds, cpu = time.monotonic() - begun, time.process_time() - begun_cpu
    return (
        f"{len(recording.events):,} events in {seconds:.1f} s ({cpu:.1f} s of CPU), at most {{mb:,.0f}} MB of memory, "
        f"trace.parquet {len(table) / 1e6:.1f} MB"
    )


def main() -> None:
    if sys.argv[1:2] == ["--analyse"]:
        analyse(Path(sys.argv[2]))
        return
    size = float(sys.argv[1]) if sys.argv[1:] else 200.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json.gz"
        events = write(path, int(size * 1e6))
        print(f"a trace of {size:g} MB, {path.stat().st_size / 1e6:.0f} MB gzipped, {events:,} events")
        subprocess.run([sys.executable, __file__, "--analyse", str(path)], check=True)


if __name__ == "__main__":
    main()
