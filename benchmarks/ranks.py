"""What collecting the figures of many ranks takes, by their number: python -m benchmarks.ranks [--steps 10000].

A run of the most ranks by the sleep framework on a scripted clock; fewer are its first ones, as a run of their own. CPU
seconds, and the resident memory of a process that does nothing else.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.commands import SLEEP, environment, only_spool, options, train

COUNTS = (8, 16, 32, 64)
COLLECT = """
import sys, time
from pathlib import Path
from tbd.measure import figures
from tbd.worker.passes import peak_rss_bytes  # its own: ru_maxrss begins with that of the process that started it
begin = time.process_time()
found = figures.compute(Path(sys.argv[1]))
assert found.metrics["throughput"] > 0 and len(found.tables["ranks"]) == int(sys.argv[2])
print(time.process_time() - begin, peak_rss_bytes() / 1e6)
"""


class Cost(NamedTuple):
    cpu_s: float
    peak_mb: float


def recorded(folder: Path, ranks: int, steps: int) -> Path:
    """The spool of a run in `folder`."""
    scripted = options(mode="scripted", step_s=0.001, warmup_s=[0.001])
    sizes = [f"hardware.devices={ranks}", "hardware.threads=1", f"measure.steps={steps}", "measure.passes=[timing]"]
    done = train(folder, *SLEEP, "tracking=offline", *sizes, *scripted)
    assert done.returncode == 0, done.stdout + done.stderr
    return only_spool(folder)


def first_of(spool: Path, ranks: int, folder: Path) -> Path:
    """The first ranks of a run on one node as a run of their own, in `folder`."""
    (folder / "ranks").mkdir(parents=True)
    for rank in range(ranks):
        (folder / "ranks" / str(rank)).symlink_to(spool / "ranks" / str(rank))
    for name in ("nodes", "run.json", "controller.jsonl"):
        (folder / name).symlink_to(spool / name)
    request = json.loads((spool / "request.json").read_text())
    request["world_size"] = request["hardware"]["devices"] = ranks
    (folder / "request.json").write_text(json.dumps(request))
    return folder


def cost(spool: Path, ranks: int) -> Cost:
    """Of working out the figures of a run of so many ranks."""
    command = [sys.executable, "-c", COLLECT, spool, str(ranks)]
    out = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True).stdout
    return Cost(*map(float, out.split()))


def costs(folder: Path, steps: int, counts: tuple[int, ...] = COUNTS) -> dict[int, Cost]:
    spool = recorded(folder, max(counts), steps)
    return {ranks: cost(first_of(spool, ranks, folder / str(ranks)), ranks) for ranks in counts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=10000, help="timed steps of each rank")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for ranks, found in costs(Path(folder), arguments.steps).items():
            print(f"{ranks:3d} ranks  {found.cpu_s:6.2f} s CPU  {found.peak_mb:6.1f} MB")


if __name__ == "__main__":
    main()
