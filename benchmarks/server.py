"""The shared server under load: many controllers at once, and many runs brought up by `python -m tbd.sync`.

    python benchmarks/server.py controllers --count 50 --minutes 10
    python benchmarks/server.py sync --runs 1000 --points 1000

Both start a server of their own (PostgreSQL, SeaweedFS, MLflow with authentication; `make server-setup` first), or use
the one that MLFLOW_TRACKING_URI names. `controllers`: each is `python -m tbd.train` with the framework that sleeps,
again and again; afterwards all that they left is held against the server, the times of the batches that they sent are
stated, and the throughput that they measured with what as many controllers measure that log nothing. `sync`: points a
second. Needs the checkout (tests/).
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tbd.tracking.spool import Spool  # noqa: E402
from tests import commands  # noqa: E402
from tests.faults.server_accounts import account  # noqa: E402
from tests.server.stack import Stack, User, open_folder  # noqa: E402

STEP_S = 0.05
STEPS = 40


@contextmanager
def server() -> Iterator[User]:
    """A user of a server of its own, or of the one that is named."""
    if "MLFLOW_TRACKING_URI" in os.environ:
        names = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_URI")
        yield User(*(os.environ[name] for name in names))
        return
    from tbd.server.settings import free_ports

    folder = open_folder()
    stack = Stack(folder / "server")
    try:
        stack.start("--port", str(free_ports(1)[0]))
        yield stack.new_user()
    finally:
        stack.stop()
        shutil.rmtree(folder)


def controllers(count: int, minutes: float) -> int:
    """`count` controllers log at once for so long; gives the exit code."""
    with server() as user, tempfile.TemporaryDirectory() as folder:
        results = {}
        for name, tracking in (("unlogged", "offline"), ("logged", "server")):
            home = Path(folder) / name
            times = home / "batches"
            times.mkdir(parents=True)
            until = time.monotonic() + 60 * minutes
            with ThreadPoolExecutor(count) as pool:
                jobs = [pool.submit(again_and_again, home / str(n), tracking, user, until, times) for n in range(count)]
                failed = sum(job.result() for job in jobs)
            rates = [rate for n in range(count) for rate in throughputs(home / str(n) / "runs")]
            results[name] = statistics.median(rates)
            print(
                f"{name}: {len(rates)} runs of {count} controllers, {failed} failed, median {results[name]:.3f} steps/s"
            )
        print(f"throughput, logged / unlogged: {results['logged'] / results['unlogged']:.4f}")
        batches = sorted(float(line) for file in times.iterdir() for line in file.read_text().split())
        median, nearly_all = quantile(batches, 0.5), quantile(batches, 0.99)
        print(f"batches: {len(batches)}, median {median:.3f} s, 99 % within {nearly_all:.3f} s")
        clean = True
        for n in range(count):
            found = account(home / str(n) / "runs", user)
            clean = clean and found.clean
            if not found.clean:
                print(f"controller {n}: {found}")
        print("nothing lost, nothing twice" if clean else "NOT all is there")
        return 0 if clean and not failed else 1


def again_and_again(folder: Path, tracking: str, user: User, until: float, times: Path) -> int:
    """Run after run until then; gives how many failed."""
    folder.mkdir(parents=True)
    failed = 0
    overrides = [*commands.SLEEP, *commands.options(step_s=STEP_S), f"measure.steps={STEPS}", "measure.passes=[timing]"]
    overrides += [f"tracking={tracking}", "tracking.experiment=load"]
    log = f"{times}/{folder.name}"
    while time.monotonic() < until:
        process = subprocess.run(
            [sys.executable, str(Path(__file__)), "timed", log, *overrides],
            cwd=folder,
            env=commands.environment(**user.variables),
            capture_output=True,
            text=True,
        )  # fmt: skip
        failed += process.returncode != 0
        if process.returncode:
            print(process.stderr[-500:], file=sys.stderr)
    return failed


def timed(log: str, arguments: list[str]) -> int:
    """`python -m tbd.train`, with a line in `log` for each batch that it sends: seconds."""
    from tbd import train
    from tbd.tracking import sender

    def timing(send: Callable[..., bool]) -> Callable[..., bool]:
        def sent(call: Callable[[object], object], *rest: object) -> bool:
            def measured(batch: object) -> None:
                began = time.monotonic()
                call(batch)
                with open(log, "a") as file:
                    file.write(f"{time.monotonic() - began:.4f}\n")

            return send(measured, *rest)

        return sent

    sender.in_batches = timing(sender.in_batches)
    return train.main(arguments)


def throughputs(runs: Path) -> Iterator[float]:
    for file in runs.glob("*/figures.json"):
        yield json.loads(file.read_text())["metrics"]["throughput"]


def quantile(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(share * len(values)))]


def sync(runs: int, points: int) -> int:
    """Bring up runs that wait; gives the exit code."""
    with server() as user, tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "runs"
        for _ in range(runs):
            waiting(root, points)
        began = time.monotonic()
        command = [sys.executable, "-m", "tbd.sync", "--runs", str(root)]
        done = subprocess.run(command, cwd=folder, env=commands.environment(**user.variables), capture_output=True)
        seconds = time.monotonic() - began
        found = account(root, user)
        print(f"{found.runs} runs, {found.points} points in {seconds:.1f} s: {found.points / seconds:,.0f} points/s")
        print("nothing lost, nothing twice" if found.clean else f"NOT all is there: {found}")
        return done.returncode or int(not found.clean)


def waiting(root: Path, points: int) -> Spool:
    """A run of a trained network's losses and nothing else, as an ended worker leaves it."""
    spool = Spool.create(root, "load", experiment="load of sync")
    spool.write_request(
        {"model": {"name": "resnet50"}, "framework": {"name": "sleep"}, "measure": {"passes": ["timing"]}}
    )
    begin = spool.controller_events()[0]["t"]
    ends = [begin + 0.1 * step for step in range(1, points + 1)]
    lines = [
        {"event": "header", "schema": 1, "rank": 0, "wall_time": time.time(), "host": "h", "pid": 1, "t": begin},
        {"event": "phase", "name": "timed", "t": begin},
        {"event": "steps", "phase": "timed", "first": 0, "end": ends, "items": {"samples": [1] * points},
         "flops": [1] * points, "data_wait_s": [0.0] * points, "t": ends[-1]},
        {"event": "window", "begin": begin, "end": ends[-1], "steps": points, "cpu_s": 0.0, "t": ends[-1]},
        {"event": "losses", "phase": "timed", "first": 0, "values": [1 / step for step in range(1, points + 1)],
         "t": ends[-1]},
        {"event": "end", "status": "ok", "cause": "", "t": ends[-1]},
    ]  # fmt: skip
    text = "".join(json.dumps({"pass": "timing", **line}) + "\n" for line in lines)
    (spool.path / "events.jsonl").write_text(text)
    spool.end("ok", t=ends[-1])
    return spool


def main() -> int:
    if sys.argv[1:2] == ["timed"]:
        return timed(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands_ = parser.add_subparsers(dest="command", required=True)
    load = commands_.add_parser("controllers")
    load.add_argument("--count", type=int, default=50)
    load.add_argument("--minutes", type=float, default=10.0)
    many = commands_.add_parser("sync")
    many.add_argument("--runs", type=int, default=1000)
    many.add_argument("--points", type=int, default=1000)
    options = parser.parse_args()
    if options.command == "controllers":
        return controllers(options.count, options.minutes)
    return sync(options.runs, options.points)


if __name__ == "__main__":
    sys.exit(main())
