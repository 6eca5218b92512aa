"""What became of a sweep's jobs, from their spools alone: whatever launcher ran them, on whatever machine."""

from pathlib import Path
from typing import NamedTuple

from tbd.measure.jsonl import read_object
from tbd.tracking import derived
from tbd.tracking.follower import follow
from tbd.tracking.reaper import cause_of_death
from tbd.tracking.spool import Spool, spools
from tbd.tracking.store import Settings
from tbd.worker import status

SIGNATURE = "tbd.signature"  # the tag of runs and sweeps: tbd/config/signature.py
# ends that are results: the same job would end so again
RESULTS = (status.OK, status.OUT_OF_MEMORY, status.DIVERGED, status.UNSUPPORTED)


class Job(NamedTuple):
    """One job. `throughput`: items per second of `unit`, None where it has none; `cause`: "" where it ended ok."""

    overrides: str
    status: str
    cause: str
    throughput: float | None
    unit: str
    exit_code: int
    warnings: list[str]
    signature: str = ""
    path: Path = Path()


def jobs_of(sweep: Spool) -> list[Job]:
    """The sweep's jobs, in the order in which they began; of one that was run again, the last time.

    One without an end counts as interrupted where its controller is known to be dead, else as lost.
    """
    found = [_job(spool) for spool in spools(sweep.path.parent) if spool.run.get("parent_spool_id") == sweep.id]
    last = {job.signature or str(job.path): job for job in found}
    return [job for job in found if last[job.signature or str(job.path)] is job]


def results(sweep: Spool) -> dict[str, Job]:
    """The jobs that need not be run again, by signature."""
    return {job.signature: job for job in jobs_of(sweep) if job.signature and job.status in RESULTS}


def earlier(root: Path, signature: str) -> Spool | None:
    """The newest sweep of the same jobs under `root` that no process is at any more; None where there is none."""
    for sweep in reversed([spool for spool in spools(root) if spool.run.get("kind") == "sweep"]):
        over = sweep.ended() is not None or cause_of_death(sweep) is not None
        if over and (sweep.run.get("tags") or {}).get(SIGNATURE) == signature:
            return sweep
    return None


def revise(sweep: Spool, settings: Settings) -> None:
    """Work out again what compares a job with another of the sweep, now that all are there, and send it."""
    for spool in spools(sweep.path.parent):
        if spool.run.get("parent_spool_id") != sweep.id or spool.ended() is None:
            continue
        absent = read_object(spool.path / "figures.json").get("absent", {})
        several = read_object(spool.path / "request.json").get("world_size", 1) != 1
        if several and "scaling_efficiency" in absent:
            follow(spool, settings, derived.write(spool))


def _job(spool: Spool) -> Job:
    end = spool.ended()
    if end is None:
        dead = cause_of_death(spool)
        lost = f"it has no end: it still runs on {spool.run.get('host')}, or was lost"
        end = {"status": status.INTERRUPTED if dead else status.LOST_NODE, "cause": dead or lost}
    name = str(end.get("status"))
    code = end.get("exit_code")
    figures = read_object(spool.path / "figures.json")
    return Job(
        overrides=str((spool.run.get("tags") or {}).get("tbd.overrides", "")),
        status=name,
        cause=str(end.get("cause") or ""),
        throughput=figures.get("metrics", {}).get("throughput"),
        unit=figures.get("tags", {}).get("tbd.throughput_unit", "items"),
        warnings=[str(warning) for warning in figures.get("warnings", [])],
        signature=str((spool.run.get("tags") or {}).get(SIGNATURE, "")),
        path=spool.path,
        exit_code=code if isinstance(code, int) else status.EXIT_CODES.get(name, status.EXIT_CODES[status.CRASHED]),
    )
