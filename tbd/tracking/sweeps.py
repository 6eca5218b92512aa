"""What became of a sweep's jobs, from their spools alone: whatever launcher ran them, on whatever machine."""

from typing import NamedTuple

from tbd.measure.jsonl import read_object
from tbd.tracking import derived
from tbd.tracking.follower import follow
from tbd.tracking.reaper import cause_of_death
from tbd.tracking.spool import Spool, spools
from tbd.tracking.store import Settings
from tbd.worker import status


class Job(NamedTuple):
    """One job. `throughput`: items per second of `unit`, None where it has none; `cause`: "" where it ended ok."""

    overrides: str
    status: str
    cause: str
    throughput: float | None
    unit: str
    exit_code: int
    warnings: list[str]


def jobs_of(sweep: Spool) -> list[Job]:
    """The sweep's jobs, in the order in which they began. One without an end counts as interrupted."""
    return [_job(spool) for spool in spools(sweep.path.parent) if spool.run.get("parent_spool_id") == sweep.id]


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
        end = {
            "status": status.INTERRUPTED,
            "cause": cause_of_death(spool) or "it has no end: it still runs, or was lost",
        }
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
        exit_code=code if isinstance(code, int) else status.EXIT_CODES.get(name, status.EXIT_CODES[status.CRASHED]),
    )
