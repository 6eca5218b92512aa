"""One run, from its configuration to its record: plan -> launch -> watch -> measure -> record."""

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from tbd.config.plan import GO, Plan, passes_of, plan
from tbd.config.signature import signature
from tbd.display import Progress, summary
from tbd.launch import engines, environments, job, programs, project, scheduler
from tbd.launch.hub import Hub
from tbd.launch.join import alike, join
from tbd.launch.variables import visible_gpus
from tbd.launch.watch import phase_of, watch
from tbd.measure.figures import Figures, compute
from tbd.tracking import derived, follower, reaper
from tbd.tracking.redaction import harmless
from tbd.tracking.sampler import Sampler
from tbd.tracking.spool import Spool, spools
from tbd.tracking.store import Settings, chosen_uri
from tbd.tracking.stream import Stream
from tbd.tracking.sweeps import SIGNATURE
from tbd.worker import status
from tbd.worker.status import Ended

ROOM_FOR_AN_EVENT = 4096  # bytes; a file system with less can't take a worker's next line


def run_job(config: DictConfig, overrides: str = "", parent: Spool | None = None) -> int:
    """Run one composed configuration and record it; gives the exit code of its status.

    `overrides` are what it was asked with, `parent` the sweep that it belongs to. Raises KeyboardInterrupt, after the
    recording, where the user ended it. Of a command that a scheduler started several times, one process does this; the
    first of each other node joins it, and the rest have nothing to do.
    """
    planned = plan(config)
    if (elsewhere := run_elsewhere(planned)) is not None:
        return elsewhere
    try:
        spool = open_spool(planned, overrides, parent)
    except OSError as error:
        print(f"tbd: {error.filename}: {error.strerror}: tracking.runs=FOLDER names another place", file=sys.stderr)
        return status.EXIT_CODES[status.CRASHED]
    with (
        Progress(expected_steps(planned)) as progress,
        ThreadPoolExecutor(max_workers=1) as background,
        contextlib.ExitStack() as recorded,
    ):
        # in a thread, so that Ctrl-C does not reach into the middle of MLflow's import or its store's first migration
        opened = background.submit(open_record, spool, settings(planned))
        ending = train(planned, spool, progress, recorded)
        with unhurried(progress):
            keep_going(lambda: spool.end(ending.status, ending.cause, status.EXIT_CODES[ending.status]))
            progress.phase("record")
            opened.result()
            figures, notes = record(spool, settings(planned))
    if planned.engine is not None:
        where = f"{hardware_of(planned)}, started by {planned.engine.name} ({planned.engine.why})"
        notes.insert(0, f"ranks    {where}")
    summary(planned.title, ending.status, ending.cause, figures, notes)
    if ending.status == status.INTERRUPTED:
        raise KeyboardInterrupt
    return status.EXIT_CODES[ending.status]


def run_elsewhere(planned: Plan) -> int | None:
    """The exit code of this process where another one has the run; None where it is this one's."""
    engine = planned.config["hardware"]["engine"]
    if engine == engines.PROCESSES:
        return None
    place = scheduler.place() if engine != engines.SLURM else None
    task = scheduler.later_task() if place is None else None
    if task is not None or (place and place.local_rank > 0):
        who = f"task {task}: the first of this step" if place is None else f"rank {place.rank}: the first of this node"
        print(f"tbd: {who} starts all ranks (hardware.engine=processes: each a run of its own)", file=sys.stderr)
        return 0
    return join(planned, place) if place and place.node > 0 else None


def open_spool(planned: Plan, overrides: str, parent: Spool | None) -> Spool:
    """The run's folder, with what is to be done in it."""
    tracking = planned.config["tracking"]
    spool = Spool.create(
        Path(tracking["runs"]),
        planned.title,
        experiment=tracking["experiment"],
        tags={"tbd.overrides": overrides, SIGNATURE: signature(planned.config), **planned.tags},
        parent=parent,
        tracking={**tracking, "uri": chosen_uri(tracking["uri"])},
    )
    spool.write_config(OmegaConf.to_yaml(OmegaConf.create(planned.config)))
    spool.write_request(planned.request(spool.id, spool.path))
    return spool


def hardware_of(planned: Plan) -> str:
    hardware = planned.config["hardware"]
    return f"{planned.world_size} on {hardware['nodes']} node(s), {hardware['devices']} each"


def settings(planned: Plan) -> Settings:
    return Settings.of(planned.config["tracking"])


def expected_steps(planned: Plan) -> dict[str, int]:
    """How many steps each phase has, as far as that is known beforehand."""
    measure = planned.config["measure"]
    return {"timed": measure["steps"], "trace": measure["trace_steps"]}


def open_record(spool: Spool, where: Settings) -> None:
    """Make the run visible in MLflow and close what killed controllers left open, while the worker gets ready.

    Then let the worker go on: from here to its end nothing is sent, and it is alone on the machine.
    """
    try:
        follower.open_run(spool, where)
        reaper.reap(spool.path.parent, where)
    finally:
        keep_going(lambda: (spool.path / GO).touch())


def train(planned: Plan, spool: Spool, progress: Progress, recorded: contextlib.ExitStack) -> Ended:
    """Launch the worker and watch it to its end, whatever that is. What `recorded` gets is done once it is recorded."""
    try:
        return launch(planned, spool, progress, recorded)
    except Ended as ending:
        return ending
    except KeyboardInterrupt:
        phase = phase_of(spool.events_path)
        return Ended(status.INTERRUPTED, f"interrupted by Ctrl-C or SIGTERM in the phase {phase}")
    except OSError as error:
        return Ended(status.CRASHED, f"{error.filename or spool.path}: {error.strerror or error}")


def launch(planned: Plan, spool: Spool, progress: Progress, recorded: contextlib.ExitStack) -> Ended:
    c = planned.config
    hub = open_hub(planned, spool)
    if hub is not None:
        recorded.callback(hub.recorded)
    if planned.unsupported:
        return Ended(status.UNSUPPORTED, planned.unsupported)
    framework, measure = c["framework"], c["measure"]

    enter(spool, progress, "environment")
    environment, found = environments.of_framework(framework, progress.note)
    write_environment(spool, environment)
    c["data"] = programs.provide(c["data"], progress.note)
    spool.write_request(planned.request(spool.id, spool.path))

    enter(spool, progress, "launch")
    passes = passes_of(measure)
    with contextlib.closing(Stream(progress, spool, settings(planned), spool.path / GO, passes)) as stream:
        if planned.world_size > 1:
            name, cause = launch_ranks(planned, spool, environment, found, stream, hub)
        else:
            name, cause = launch_one(planned, spool, environment, found, stream)
    if name == status.CRASHED and shutil.disk_usage(spool.path).free < ROOM_FOR_AN_EVENT:
        cause = f"the disk is full: {spool.path} ({cause})"
    return Ended(name, cause)


def launch_one(
    planned: Plan, spool: Spool, environment: environments.Environment, found: project.Project, stream: Stream
) -> tuple[str, str]:
    """(status, cause) of the one worker of a run on one device."""
    hardware, measure = planned.config["hardware"], planned.config["measure"]
    request = spool.path / "request.json"
    gpus = visible_gpus(hardware["devices"]) if hardware["device"] == "gpu" else None
    process = project.start(environment, found, request, hardware["threads"], spool.path / "worker.log", gpus)
    try:
        with Sampler(spool, process.pid, gpus=gpus is not None, visible_gpus=gpus):
            events, passes = spool.path / "events.jsonl", len(passes_of(measure))
            return watch(process, events, spool.path / GO, passes, measure["timeout_s"], stream)
    except BaseException:  # Ctrl-C before the watch has begun: the worker is there already
        process.terminate()
        raise


def open_hub(planned: Plan, spool: Spool) -> Hub | None:
    """Where the other nodes of a run join it that a scheduler started on each; None where there are none."""
    if planned.engine is None or planned.engine.name != engines.VARIABLES:
        return None
    place = scheduler.place()
    if place is None or place.nodes == 1:
        return None
    known = {"spool_id": spool.id, "alike": alike(planned.request(spool.id, spool.path))}
    return Hub(place, spool.path, planned.config["hardware"]["devices"], known)


def launch_ranks(
    planned: Plan,
    spool: Spool,
    environment: environments.Environment,
    found: project.Project,
    stream: Stream,
    hub: Hub | None,
) -> tuple[str, str]:
    """(status, cause) of a run of several ranks, which agents on its nodes start and watch."""
    hardware, engine = planned.config["hardware"], planned.engine
    assert engine is not None
    others = hub.remotes() if hub is not None else []
    address = hub.address if hub is not None else None if engine.name == engines.SLURM else "127.0.0.1"
    job.write_launch(spool.path, job.launch_of(planned, environment, found, address))
    running = job.start(engine, hardware, spool.path, harmless(os.environ), others)
    return job.watch(running, job.Follower(spool.path, hardware["nodes"], planned.world_size), stream, spool.path)


def enter(spool: Spool, progress: Progress, phase: str) -> None:
    """Begin one of the controller's phases."""
    keep_going(lambda: spool.event("phase", name=phase))
    progress.phase(phase)


def write_environment(spool: Spool, environment: environments.Environment) -> None:
    """environment.txt: exactly what is installed where the run trains."""
    head = f"# {environment.name} {environment.framework_version}, Python {environment.python_version}\n"
    text = head + environment.lock_path.read_text()
    keep_going(lambda: (spool.path / "environment.txt").write_text(text))


def record(spool: Spool, where: Settings) -> tuple[Figures, list[str]]:
    """(figures, what to tell the user): work the figures out and bring MLflow up to date."""
    notes = [f"run      {os.path.relpath(spool.path)}"]
    try:
        figures = derived.write(spool)
    except OSError as error:
        notes.append(f"figures  not written: {error.strerror}: {error.filename}")
        figures = compute(spool.path)
    outcome = follower.follow(spool, where, figures)
    if outcome.state == "synced":
        notes.append(f"MLflow   experiment {spool.run['experiment']}, run {outcome.run_id}")
        at = str(outcome.tracking_uri)
        notes.append(
            f"open it  {at}" if at.startswith("http") else f"open it  make ui, or: mlflow ui --backend-store-uri {at}"
        )
        notes += catch_up(spool, where)
    elif outcome.state == "offline":
        notes.append("MLflow   not now (tracking=offline): python -m tbd.sync brings it up later")
    else:
        notes.append(f"MLflow   not recorded yet: {outcome.reason}. python -m tbd.sync brings it up later")
    return figures, notes


def catch_up(spool: Spool, where: Settings) -> list[str]:
    """Bring up earlier runs that wait for the same store, now that it answers; gives what to tell of it."""
    from tbd.sync import CATCH_UP_S, meant_for, send

    waiting = meant_for(chosen_uri(where.uri), [other for other in spools(spool.path.parent) if other.id != spool.id])
    done = send(waiting, lambda _: where, limit_s=CATCH_UP_S, turn_s=0.0)
    notes = [f"MLflow   earlier runs that waited and are there now: {done.sent}"] if done.sent else []
    if done.pending:
        notes.append(f"MLflow   earlier runs that still wait: {done.pending}. python -m tbd.sync brings them up")
    return notes


def keep_going(write: Callable[[], Any]) -> None:
    """Write to the spool; a disk that is full is told, and ends nothing that is being measured."""
    try:
        write()
    except OSError as error:
        print(f"tbd: {error.strerror}: {error.filename}", file=sys.stderr)


@contextlib.contextmanager
def unhurried(progress: Progress) -> Iterator[None]:
    """Let the recording finish on a first Ctrl-C; a second one leaves it to `python -m tbd.sync`."""

    def once(signum: int, frame: Any) -> None:
        progress.note("finishing the record; Ctrl-C again leaves it to python -m tbd.sync")
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, once)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
