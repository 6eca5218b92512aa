"""What profiling costs where it isn't asked for: steps of a timing pass with and without our marks, a ratio.

    ratio = time of a block of steps without the feature / time of one with it beside it

Without it, PyTorchTraining.train is its own source less the lines that tell the profiler's phases: the only code of
ours that a step runs for the sake of tracing and memory. The other frameworks' steps have none, since their phases are
scopes of the compiled graph. Both take turns in one process, in the order AB BA, on the same training; the network is
the small one, where a step is short and a constant cost weighs most.

    python benchmarks/overhead/profiling.py [pairs of blocks, default 400]
"""

import inspect
import json
import subprocess
import sys
import textwrap
import time
from pathlib import Path

BLOCK_STEPS = 8
FEATURE = ("entered(", "entered =")  # lines of the method that have it


def stripped(method):
    """The source of the method without the feature's lines; fails where it has none."""
    lines = textwrap.dedent(inspect.getsource(method)).splitlines()
    kept = [line for line in lines if not line.strip().startswith(FEATURE)]
    assert len(lines) - len(kept) >= 4, "PyTorchTraining.train tells no phases: this benchmark measures nothing"
    return "\n".join(kept)


def measure(pairs: int) -> list[tuple[float, float]]:
    """Seconds of neighbouring blocks (with, without), in the framework's own process."""
    import numpy

    from tbd import frameworks, models
    from tbd.frameworks.pytorch import training as module

    found: dict = {}
    exec(stripped(module.PyTorchTraining.train), vars(module), found)
    plain = found["train"]
    request = {
        "batch_size": 16, "precision": "fp32", "world_size": 1, "rank": 0, "seed": 1, "pass": "timing",
        "framework": {"name": "pytorch"}, "hardware": {"device": "cpu", "threads": 1},
    }  # fmt: skip
    specification = models.create("resnet50", {"size": "small"})
    training = frameworks.create(request).build(specification, specification.initial_weights(1))
    arrays = specification.synthetic_batch(16, numpy.random.RandomState(0))
    ways = {"with": module.PyTorchTraining.train, "without": plain}

    def block(way: str) -> float:
        module.PyTorchTraining.train = ways[way]
        begin = time.monotonic()
        for _ in range(BLOCK_STEPS):
            training.step(arrays)
        training.wait()
        seconds = time.monotonic() - begin
        training.losses()
        return seconds

    for way in ways:
        block(way)
    blocks = []
    for number in range(pairs):
        order = ("with", "without") if number % 2 == 0 else ("without", "with")
        seconds = {way: block(way) for way in order}
        blocks.append((seconds["with"], seconds["without"]))
    return blocks


def main() -> None:
    pairs = int(sys.argv[1]) if sys.argv[1:] else 400
    from compare import interval

    from tbd.launch import environments, project

    python = environments.ensure(project.load("pytorch")).python
    root = str(Path(__file__).parent.parent.parent)
    code = f"import sys; sys.path[:0] = {[root, str(Path(__file__).parent)]!r}; import json, profiling; "
    code += f"print(json.dumps(profiling.measure({pairs})))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    blocks = json.loads(done.stdout.splitlines()[-1])
    ratio, low, high = interval([without / with_it for with_it, without in blocks])
    print(f"ratio {ratio:.4f} (95 %: {low:.4f} to {high:.4f}, {pairs} pairs of blocks of {BLOCK_STEPS} steps)")


if __name__ == "__main__":
    main()
