"""The shared server under load: many controllers at once, and many runs brought up by `python -m tbd.sync`.

    python benchmarks/server.py controllers --count 50 --minutes 10
    python benchmarks/server.py sync --runs 1000 --points 1000

Both start a server of their own (PostgreSQL, SeaweedFS, MLflow with authentication; `make server-setup` first), or use
the one that MLFLOW_TRACKING_URI names. `controllers`: each is `python -m tbd.train` with the framework that sleeps, a
run of passes of ten seconds, after each of which it logs; afterwards all that they left is held against the server, the
times of the batches that they sent are stated, and the throughput that they measured with what as many controllers
measure that log nothing. `sync`: points a second, and how fast a browser shows the list of those runs. Needs the
checkout (tests/), and a browser.
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

from tbd.measure import jsonl  # noqa: E402
from tbd.tracking.spool import Spool  # noqa: E402
from tests import commands  # noqa: E402
from tests.faults.server_accounts import account  # noqa: E402
from tests.server.stack import Stack, User, open_folder  # noqa: E402

EXPERIMENT, RUN = "load of sync", "one that waited"
STEP_S = 0.5
STEPS = 20
UNLOGGED_PASSES = 30  # five minutes, of which to start fifty controllers takes half on two cores


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
        rates = {}
        for name, tracking, passes in (
            ("unlogged", "offline", UNLOGGED_PASSES),
            ("logged", "server", round(60 * minutes / (STEPS * STEP_S))),
        ):
            home = Path(folder) / name
            times = home / "batches"
            times.mkdir(parents=True)
            with ThreadPoolExecutor(count) as pool:
                jobs = [pool.submit(controller, home / str(n), tracking, user, passes, times) for n in range(count)]
                failed = sum(job.result() for job in jobs)
            found = list(throughputs(home))
            rates[name] = statistics.median(found)
            print(
                f"{name}: {count} controllers, {failed} failed; {len(found)} passes while all were at it, "
                f"median {rates[name]:.4f} steps/s",
                flush=True,
            )
        print(f"throughput, logged / unlogged: {rates['logged'] / rates['unlogged']:.4f}")
        batches = sorted(float(line) for file in times.iterdir() for line in file.read_text().split())
        median, nearly_all = quantile(batches, 0.5), quantile(batches, 0.99)
        print(f"batches: {len(batches)}, median {median:.3f} s, 99 % within {nearly_all:.3f} s", flush=True)
        clean = True
        for n in range(count):
            there = account(home / str(n) / "runs", user)
            clean = clean and there.clean
            if not there.clean:
                print(f"controller {n}: {there}")
        print("nothing lost, nothing twice" if clean else "NOT all is there")
        return 0 if clean and not failed else 1


def controller(folder: Path, tracking: str, user: User, passes: int, times: Path) -> bool:
    """A run of so many timing passes, after each of which it logs what it has; gives whether it failed.

    One long run: to start fifty controllers takes a small machine minutes, in which nothing else would be seen.
    """
    folder.mkdir(parents=True)
    overrides = [*commands.SLEEP, *commands.options(step_s=STEP_S), f"measure.steps={STEPS}", "measure.passes=[timing]"]
    overrides += [f"measure.repeats={passes}", f"tracking={tracking}", "tracking.experiment=load"]
    process = subprocess.run(
        [sys.executable, str(Path(__file__)), "timed", f"{times}/{folder.name}", *overrides],
        cwd=folder,
        env=commands.environment(**user.variables),
        capture_output=True,
        text=True,
    )
    if process.returncode or (tracking == "server" and "not recorded yet" in process.stdout):
        print(process.stdout[-500:], process.stderr[-500:], file=sys.stderr)
        return True
    return False


def timed(log: str, arguments: list[str]) -> int:
    """`python -m tbd.train`, with a line in `log` for each batch that it sends: seconds. Fails where the server once
    didn't take what the run had so far, which the run itself makes up for."""
    from tbd import train
    from tbd.tracking import follower, sender

    def timing(send: Callable[..., bool]) -> Callable[..., bool]:
        def sent(call: Callable[[object], object], *rest: object) -> bool:
            def measured(batch: object) -> None:
                began = time.monotonic()
                call(batch)
                with open(log, "a") as file:
                    file.write(f"{time.monotonic() - began:.4f}\n")

            return send(measured, *rest)

        return sent

    def watching(stream: Callable[..., follower.Outcome]) -> Callable[..., follower.Outcome]:
        def watched(*arguments: object) -> follower.Outcome:
            outcome = stream(*arguments)
            if outcome.state not in ("running", "offline"):
                refused.append(outcome.reason)
                print(outcome.reason, file=sys.stderr)
            return outcome

        return watched

    refused: list[str] = []
    sender.in_batches = timing(sender.in_batches)
    follower.stream = watching(follower.stream)
    return train.main(arguments) or len(refused)


def throughputs(home: Path) -> Iterator[float]:
    """Steps a second of each pass that began when all controllers had begun to measure, and ended before any was done.

    All of them are on this machine, and have one monotonic clock.
    """
    runs = [
        [line for line in jsonl.read(file)[0] if line["event"] == "window"]
        for file in home.glob("*/runs/*/events.jsonl")
    ]
    begin = max(windows[0]["begin"] for windows in runs)
    end = min(windows[-1]["end"] for windows in runs)
    for window in (window for windows in runs for window in windows):
        if window["begin"] >= begin and window["end"] <= end:
            yield window["steps"] / (window["end"] - window["begin"])


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
        print("nothing lost, nothing twice" if found.clean else f"NOT all is there: {found}", flush=True)
        print(f"the list of runs in a browser: {', '.join(f'{t:.2f} s' for t in run_list(user))}")
        return done.returncode or int(not found.clean)


def run_list(user: User) -> Iterator[float]:
    """Seconds from the address to the first runs in the list, in Chromium, three times; the first loads its code."""
    from mlflow import MlflowClient
    from playwright.sync_api import sync_playwright

    from tbd.tracking import access
    from tests import browser

    with access.environment(user.variables):
        experiment = MlflowClient(tracking_uri=user.url).get_experiment_by_name(EXPERIMENT).experiment_id
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser.program(), args=browser.ARGUMENTS)
        context = chromium.new_context(http_credentials={"username": user.name, "password": user.password})
        for _ in range(3):
            page = context.new_page()
            began = time.monotonic()
            page.goto(f"{user.url}/#/experiments/{experiment}/runs")
            page.get_by_role("link", name=RUN).first.wait_for(timeout=120_000)
            yield time.monotonic() - began
            page.close()
        chromium.close()


def waiting(root: Path, points: int) -> Spool:
    """A run of a trained network's losses and nothing else, as an ended worker leaves it."""
    spool = Spool.create(root, RUN, experiment=EXPERIMENT)
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
