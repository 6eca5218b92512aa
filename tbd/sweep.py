"""A sweep: several jobs, planned first, then run as Hydra's launcher does; one spool is the parent of theirs.

The same command goes on where it stopped: a job that has a result (docs/sweeps.md) is not run again.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from tbd.worker import status

if TYPE_CHECKING:
    from tbd.config.grids import Asked, Job
    from tbd.tracking.spool import Spool
    from tbd.tracking.store import Settings

SWEEP_VARIABLE = "TBD_SWEEP"  # the sweep's folder, for its jobs, which a launcher may start in other processes
JOBS = "jobs.json"  # in it: the order of the jobs' signatures, and the folders of those that have a result
REPORT = Path("report", "report.html")  # in it: what its runs say together, with its data as JSON and CSV
STOPPED = ".stopped"  # there once a job failed, with sweep.fail_fast


@dataclass
class Sweep:
    """The sweep that this process runs. `jobs`: that it has, as far as that is known beforehand."""

    spool: "Spool"
    where: "Settings"
    jobs: "list[Job]"


_open: list[Sweep] = []


def begin(asked: "Asked", overrides: list[str]) -> int | None:
    """Show the plan and open the sweep's spool, or an earlier attempt's, with its parent run in MLflow, for the jobs to
    find. Where no job is to be run, gives the exit code of the sweep as it is; else None.
    """
    from tbd.config.grids import signature_of
    from tbd.display import sweep_plan
    from tbd.tracking import follower
    from tbd.tracking.durations import Durations
    from tbd.tracking.reaper import end_if_dead
    from tbd.tracking.spool import Spool, spools, write_json
    from tbd.tracking.store import Settings, chosen_uri
    from tbd.tracking.sweeps import SIGNATURE, earlier, results

    base = asked.base
    root, own = Path(base.tracking.runs), signature_of(asked)
    before = None if base.sweep.force else earlier(root, own)
    kept = results(before) if before else {}
    jobs = [job for grid in asked.grids for job in grid.jobs]
    times = Durations(root)
    expected = {job.signature: times.expected_s(job.planned.request("", Path())) for job in jobs}
    to_run = [job for job in jobs if job.signature not in kept and not left_out(job.planned.unsupported, base)]
    sweep_plan(jobs, kept, to_run, expected)
    if jobs and not to_run:
        return shown(before) if before else 0
    tracking: dict[str, Any] = OmegaConf.to_container(base.tracking, resolve=True)  # type: ignore[assignment]
    if before is None:
        tags = {"tbd.overrides": " ".join(overrides), SIGNATURE: own}
        uri = chosen_uri(tracking["uri"])
        spool = Spool.create(
            root,
            "sweep",
            experiment=base.tracking.experiment,
            tags=tags,
            kind="sweep",
            tracking={**tracking, "uri": uri},
        )
    else:
        for spool in spools(root):
            if spool.run.get("parent_spool_id") == before.id:
                end_if_dead(spool)
        spool = before
        spool.resume()
        (spool.path / STOPPED).unlink(missing_ok=True)
    known = {"order": [job.signature for job in jobs], "kept": {key: job.path.name for key, job in kept.items()}}
    write_json(spool.path / JOBS, known)
    where = Settings.of(tracking)
    follower.open_run(spool, where)
    os.environ[SWEEP_VARIABLE] = str(spool.path)
    _open.append(Sweep(spool, where, jobs))
    return None


def left_out(unsupported: str | None, config: DictConfig) -> bool:
    """Whether a job that can't run here is not to be run at all."""
    return bool(unsupported and config.sweep.skip_unsupported)


def run_job(config: DictConfig) -> tuple[int, float | None]:
    """Run one job, within the sweep where there is one and it is to be run; gives (its exit code, 0 where it was not
    run; what an optimising sweeper is to know of it)."""
    from tbd import pipeline
    from tbd.config.plan import plan
    from tbd.config.signature import signature
    from tbd.measure.jsonl import read_object
    from tbd.tracking.spool import Spool
    from tbd.tracking.sweeps import jobs_of

    overrides = " ".join(HydraConfig.get().overrides.task)
    folder = os.environ.get(SWEEP_VARIABLE)
    if not folder:
        return pipeline.run_job(config, overrides), None
    sweep, planned = Spool.open(Path(folder)), plan(config)
    own, known = signature(planned.config), read_object(Path(folder) / JOBS)
    if (sweep.path / STOPPED).exists() or left_out(planned.unsupported, config):
        return 0, None
    if own in known["kept"]:
        return 0, objective(sweep.path.parent / known["kept"][own], config.sweep.objective)
    order = known["order"]
    name = f"job {order.index(own) + 1} of {len(order)}" if own in order else f"job {HydraConfig.get().job.num + 1}"
    print(f"tbd: {name}: {overrides}", file=sys.stderr, flush=True)
    code = pipeline.run_job(config, overrides, sweep)
    done = next((job for job in jobs_of(sweep) if job.signature == own), None)
    if code and done:
        print(f"tbd: {name} failed: {done.status}: {done.cause}", file=sys.stderr, flush=True)
        if config.sweep.fail_fast:
            (sweep.path / STOPPED).touch()
    return code, objective(done.path, config.sweep.objective) if done else None


def objective(spool: Path, metric: str) -> float | None:
    """The run's figure of that name; None where it has none."""
    from tbd.measure.jsonl import read_object

    value = read_object(spool / "figures.json").get("metrics", {}).get(metric)
    return float(value) if value is not None else None


def end() -> int:
    """Close the sweep that is open, if one is: ok where it came to its end; its table shows each job's own status.

    Gives the exit code of the first job that has one, 0 where all ended ok. After an interrupt, of which Hydra tells
    nobody, the command calls it as after a whole sweep.
    """
    from tbd.tracking import follower
    from tbd.tracking.sweeps import jobs_of, revise

    if not _open:
        return 0
    sweep = _open.pop()
    spool, where = sweep.spool, sweep.where
    os.environ.pop(SWEEP_VARIABLE, None)
    jobs = jobs_of(spool)
    interrupted = any(job.status == status.INTERRUPTED for job in jobs)
    failed = sum(job.status != status.OK for job in jobs)
    causes = [f"{failed} of {len(jobs)} jobs did not end ok"] if failed else []
    if (spool.path / STOPPED).exists():
        never = {job.signature for job in sweep.jobs} - {job.signature for job in jobs}
        causes.append(f"{len(never)} were not run (sweep.fail_fast)")
    revise(spool, where)
    if jobs and not interrupted:
        report(spool)
    spool.end(status.INTERRUPTED if interrupted else status.OK, ", ".join(causes))
    follower.follow(spool, where)
    return shown(spool)


def report(spool: "Spool") -> None:
    """Write what the sweep's runs say together into its folder, which goes to its run in MLflow, with the verdicts as
    that run's description. No fault of a report ends a sweep: it can be made again by python -m tbd.report."""
    from tbd.analysis import page
    from tbd.analysis.publishing import NOTE
    from tbd.analysis.reporting import Report
    from tbd.analysis.runs import Library

    try:
        runs = Library(spool.path.parent).named(str(spool.path))
        made = Report(str(spool.run["tags"].get("tbd.overrides") or spool.run["name"]), runs)
        (spool.path / REPORT).parent.mkdir(exist_ok=True)
        page.write(made, spool.path / REPORT)
        spool.tag(NOTE, made.to_markdown())
    except Exception as error:
        print(f"tbd: the sweep has no report: {type(error).__name__}: {error}", file=sys.stderr)


def shown(spool: "Spool") -> int:
    """Print the sweep's table; gives the exit code of the first job that has one, 0 where all ended ok."""
    from tbd.display import sweep_summary
    from tbd.tracking.sweeps import jobs_of

    jobs = jobs_of(spool)
    cause = str((spool.ended() or {}).get("cause", ""))
    page = spool.path / REPORT
    sweep_summary(f"sweep {os.path.relpath(spool.path)}" + (f": {cause}" if cause else ""), jobs)
    if page.is_file():
        print(f"report   {os.path.relpath(page)}")
    return next((job.exit_code for job in jobs if job.exit_code != 0), 0)
