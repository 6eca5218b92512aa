"""What can go wrong between a run and the server, brought about for real, each followed by what mends it.

A fault is a function of a Scene; when it returns, everything that it had broken works again and everything that waited
was sent by what a user would do: the next run, or `python -m tbd.sync`.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tbd.server import processes
from tbd.server.settings import free_ports
from tests import commands
from tests.commands import SLEEP, in_phase, options, wait_until
from tests.faults import proxy
from tests.faults.server_accounts import account
from tests.server.stack import Stack, User, open_folder
from tests.tracking import spools

LARGE = 80 * 2**20  # bytes: more than goes up in one piece


@dataclass(frozen=True)
class Scene:
    """A user's folder, with an experiment of its own on the server."""

    stack: Stack
    user: User
    folder: Path

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    def overrides(self, *more: str) -> list[str]:
        paced = options(step_s=0.02, phase_s={"build": 0.4, "finish": 0.3}, warmup_s=[0.02] * 20, trace_s=0.2)
        name = f"tracking.experiment={self.folder.name}"
        return [*SLEEP, *paced, "measure.steps=40", "tracking=server", name, *more]

    def start(self, *more: str, **variables: str) -> "subprocess.Popen[str]":
        return commands.start(self.folder, *self.overrides(*more), **{**self.user.variables, **variables})

    def ends_ok(self, process: "subprocess.Popen[str]") -> str:
        """Whatever the server does, the run completes; gives what was printed."""
        out, error = process.communicate(timeout=300)
        assert process.returncode == 0, error
        assert "Traceback" not in out + error
        return out

    def run(self, *more: str, **variables: str) -> str:
        return self.ends_ok(self.start(*more, **variables))

    def syncing(self, *arguments: str, **variables: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "tbd.sync", *arguments],
            cwd=self.folder,
            env=commands.environment(**{**self.user.variables, **variables}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def sync(self, *arguments: str, **variables: str) -> str:
        """Bring up all that waits, which must succeed."""
        process = self.syncing(*arguments, **variables)
        out, error = process.communicate(timeout=300)
        assert process.returncode == 0, out + error
        return out

    def restart_database(self) -> None:
        """As an administrator does: it ends all connections at once ("fast shutdown")."""
        process = self.stack.process("postgresql")
        process.send_signal(signal.SIGINT)
        while processes.running(self.stack.home, "postgresql") is not None:
            time.sleep(0.02)
        self.stack.start()

    def waiting_run(self, *files: int) -> Path:
        """The spool of a run that was made without the server, with further files of so many random bytes."""
        self.run("tracking.mode=offline")
        spool = commands.spools(self.folder)[-1]
        for number, size in enumerate(files):
            (spool / f"trace-{number}.bin").write_bytes(os.urandom(size))
        return spool

    def sent_some(self) -> bool:
        """Whether part of a run's files is on the server, and part is not."""
        return any((spool / "synced.json").exists() for spool in commands.spools(self.folder))

    def has_end(self) -> bool:
        return any(
            event["event"] == "end"
            for spool in commands.spools(self.folder)
            for event in commands.events(spool, "controller.jsonl")
        )


def server_killed_in(phase: str) -> Callable[[Scene], None]:
    def fault(scene: Scene) -> None:
        process = scene.start()
        wait_until(in_phase(scene.folder, phase), process)
        scene.stack.kill("mlflow")
        out = scene.ends_ok(process)
        assert "python -m tbd.sync brings it up later" in out, out
        scene.stack.start()
        scene.sync()

    return fault


def server_away_from_the_start(scene: Scene) -> None:
    scene.stack.kill("mlflow")
    assert "python -m tbd.sync brings it up later" in scene.run()
    assert scene.syncing("--status").wait(timeout=60) == 1
    scene.stack.start()
    scene.sync()


def server_away_until_the_next_run(scene: Scene) -> None:
    scene.stack.kill("mlflow")
    scene.run()
    scene.stack.start()
    assert "earlier runs that waited and are there now: 1" in scene.run()


def server_killed_while_it_is_sent_to(scene: Scene) -> None:
    process = scene.start()
    wait_until(scene.sent_some, process)
    scene.stack.kill("mlflow")
    scene.ends_ok(process)
    scene.stack.start()
    scene.sync()


def database_restarted_in(phase: str) -> Callable[[Scene], None]:
    def fault(scene: Scene) -> None:
        process = scene.start()
        wait_until(in_phase(scene.folder, phase), process)
        scene.restart_database()
        scene.ends_ok(process)
        scene.sync()

    return fault


def database_restarted_while_it_is_sent_to(scene: Scene) -> None:
    process = scene.start()
    wait_until(scene.sent_some, process)
    scene.restart_database()
    scene.ends_ok(process)
    scene.sync()


def storage_refuses(scene: Scene) -> None:
    scene.stack.kill("seaweedfs")
    assert "python -m tbd.sync brings it up later" in scene.run()
    scene.stack.start()
    scene.sync()


def storage_is_slow(scene: Scene) -> None:
    """It stands still for a while in the middle of what is sent."""
    process = scene.start()
    wait_until(scene.sent_some, process)
    group = scene.stack.process("seaweedfs").pid
    os.killpg(group, signal.SIGSTOP)
    time.sleep(15)
    os.killpg(group, signal.SIGCONT)
    scene.ends_ok(process)
    scene.sync()


def storage_fails_half_way(scene: Scene) -> None:
    """It is killed while a large file goes up."""
    scene.waiting_run(LARGE // 2, LARGE)
    process = scene.syncing()
    wait_until(scene.sent_some, process)
    scene.stack.kill("seaweedfs")
    assert process.wait(timeout=300) == 1
    scene.stack.start()
    scene.sync()


def disk_full_on_the_client(scene: Scene) -> None:
    disk = scene.folder / "runs"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tbd-test", str(disk)], check=True)
    try:
        process = scene.start("measure.steps=200")
        wait_until(in_phase(scene.folder, "timed"), process)
        fill(disk / "filler")
        process.communicate(timeout=300)
        (disk / "filler").unlink()
        scene.sync()
        kept = scene.folder / "kept"
        shutil.copytree(disk, kept)
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
    shutil.copytree(kept, disk, dirs_exist_ok=True)


def disk_full_on_the_server(scene: Scene) -> None:
    """The file system that database and object store are on, of a server of its own, is filled while a run goes on."""
    image, disk = scene.folder / "image", open_folder()
    with open(image, "wb") as file:
        file.truncate(2**30)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(disk)], check=True)
    own = Stack(disk / "server")
    try:
        own.start("--port", str(free_ports(1)[0]))
        user = own.new_user()
        there = replace(scene, stack=own, user=user)
        process = there.start()
        wait_until(in_phase(scene.folder, "timed"), process)
        left = shutil.disk_usage(disk).free
        with open(disk / "filler", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, left - 2**20)
            fill(disk / "filler")
        out = there.ends_ok(process)
        assert "python -m tbd.sync brings it up later" in out, out
        (disk / "filler").unlink()
        own.start()
        deadline = time.monotonic() + 300
        while there.syncing().wait(timeout=300):  # SeaweedFS looks for room once a minute
            assert time.monotonic() < deadline
        found = account(scene.runs, user)
        assert found.clean, found
    finally:
        own.serve("stop")
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
    # what was right there is brought to the common server too, for the table's count
    for spool in commands.spools(scene.folder):
        (spool / "mlflow.json").unlink()
    scene.sync()


def fill(file: Path) -> None:
    with open(file, "ab", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(4096))
        except OSError:
            pass


def network_gone(scene: Scene) -> None:
    """The whole run in a network of its own, where there is nobody."""
    command = ["unshare", "--net", sys.executable, "-m", "tbd.train", *scene.overrides()]
    done = subprocess.run(
        command, cwd=scene.folder, env=commands.environment(**scene.user.variables), capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "python -m tbd.sync brings it up later" in done.stdout
    scene.sync()


def clock_jumps(by: str) -> Callable[[Scene], None]:
    """The controller's wall clock is set while it measures (libfaketime reads the file anew)."""

    def fault(scene: Scene) -> None:
        clock = scene.folder / "clock"
        clock.write_text("+0")
        library = next(Path("/usr/lib").rglob("libfaketime.so.1"))
        process = scene.start(
            LD_PRELOAD=str(library),
            FAKETIME_TIMESTAMP_FILE=str(clock),
            FAKETIME_NO_CACHE="1",
            FAKETIME_DONT_FAKE_MONOTONIC="1",
        )
        wait_until(in_phase(scene.folder, "timed"), process)
        clock.write_text(by)
        scene.ends_ok(process)
        scene.sync()

    return fault


def controller_killed_in(phase: str) -> Callable[[Scene], None]:
    def fault(scene: Scene) -> None:
        process = scene.start()
        wait_until(in_phase(scene.folder, phase), process)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        scene.run()

    return fault


def controller_killed_while_it_sends(scene: Scene) -> None:
    process = scene.start()
    wait_until(scene.sent_some, process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    scene.run()


def follower_killed_between_passes(scene: Scene) -> None:
    """It sends from the controller's process, while the next pass gets ready."""
    process = scene.start("measure.repeats=2", "+framework.options.phase_s.import=2")
    wait_until(lambda: any((spool / ".go").exists() for spool in commands.spools(scene.folder)), process)
    wait_until(in_phase(scene.folder, "finish"), process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    scene.run()


def sync_killed(scene: Scene) -> None:
    scene.waiting_run(LARGE // 8)
    process = scene.syncing()
    wait_until(scene.sent_some, process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    scene.sync()
    assert scene.sync().startswith("0 sent")


def synced_from_two_machines_at_once(scene: Scene) -> None:
    """Two copies of the same folders, which know nothing of each other; each sends several runs at a time."""
    for _ in range(8):
        spools.finished(scene.runs, experiment=scene.folder.name)
    shutil.copytree(scene.runs, scene.folder / "copy")
    both = [scene.syncing(), scene.syncing("--runs", "copy")]
    codes = [process.wait(timeout=300) for process in both]
    assert set(codes) <= {0, 1}
    for arguments in ([], ["--runs", "copy"]):
        scene.sync(*arguments)


def lines_are_torn(scene: Scene) -> None:
    spool = scene.waiting_run()
    for name in ("events.jsonl", "controller.jsonl"):
        with open(spool / name, "a") as file:
            file.write('{"event": "losses", "pass": "timing", "t": 1, "val')
    scene.sync()


def proxy_that_answers(**behaviour: int) -> Callable[[Scene], None]:
    """A proxy before the server that refuses every so many requests, or those that are too large."""

    def fault(scene: Scene) -> None:
        with proxy.before(scene.user.url, **behaviour) as (url, refused):
            scene.waiting_run()
            scene.sync(MLFLOW_TRACKING_URI=url)
        assert refused(), "it refused nothing"
        # known under the proxy's name alone, the run is sent to the server again: it finds it there
        scene.sync()

    return fault


# of the controller, and of the worker's passes; the last, in which the record is sent, has a fault of its own
PHASES = (
    "environment", "import", "data", "build", "compile", "warmup", "timed", "finish", "trace", "memory"
)  # fmt: skip
FAULTS: dict[str, Callable[[Scene], None]] = {
    "server away from the start": server_away_from_the_start,
    "server away until the next run": server_away_until_the_next_run,
    **{f"server killed in the phase {phase}": server_killed_in(phase) for phase in PHASES},
    "server killed while it is sent to": server_killed_while_it_is_sent_to,
    "database restarted in the phase timed": database_restarted_in("timed"),
    "database restarted while it is sent to": database_restarted_while_it_is_sent_to,
    "storage refuses": storage_refuses,
    "storage stands still for 15 s": storage_is_slow,
    "storage fails half-way through a file": storage_fails_half_way,
    "disk full on the client": disk_full_on_the_client,
    "disk full on the server": disk_full_on_the_server,
    "network gone for the whole run": network_gone,
    "clock set back during the run": clock_jumps("-3h"),
    "clock set forward during the run": clock_jumps("+3h"),
    **{f"controller killed in the phase {phase}": controller_killed_in(phase) for phase in ("build", "timed")},
    "controller killed while it sends": controller_killed_while_it_sends,
    "follower killed between passes": follower_killed_between_passes,
    "sync killed in the middle": sync_killed,
    "sync from two machines at once": synced_from_two_machines_at_once,
    "torn lines": lines_are_torn,
    "proxy answers 429 to every third request": proxy_that_answers(every=3, code=429),
    "proxy answers 503 to every third request": proxy_that_answers(every=3, code=503),
    "proxy answers 413 above 20 kB of metrics": proxy_that_answers(largest=20_000, code=413),
}
