"""python -m tbd.prune: make room, in the folder of runs or in MLflow, by age or by size. Traces go before metrics."""

import argparse
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

    from tbd.tracking.spool import Spool

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
DAY_S = 86400.0
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
# What is large and only needed to look closer: the trace, and every single allocation. The figures made of them stay.
RAW = re.compile(r"(^|/)(trace[^/]*\.gz|memory\.json)$")


@dataclass(frozen=True)
class Item:
    """One run: when it began (Unix seconds), its files, and what takes them away, the raw ones or all.

    `kept`: why it is not to be touched; "" where it may be.
    """

    name: str
    wall_time: float
    files: dict[str, int]
    take_raw: Callable[[], None]
    take_all: Callable[[], None]
    kept: str = ""

    @property
    def bytes(self) -> int:
        return sum(self.files.values())

    @property
    def raw_bytes(self) -> int:
        return sum(size for name, size in self.files.items() if RAW.search(name))


def choose(items: Sequence[Item], before: float | None, down_to: int | None, whole: bool) -> list[tuple[Item, bool]]:
    """(run, whether all of it) of what is to go, oldest first.

    `before`: of every run that began before this time (Unix seconds), the raw files, or with `whole` all of it.
    `down_to`: raw files, oldest first, until all runs together have at most so many bytes; with `whole`, where that is
    not enough, whole runs, oldest first.
    """
    free = sorted((item for item in items if not item.kept), key=lambda item: item.wall_time)
    taken: dict[int, bool] = {}
    left = sum(item.bytes for item in items)

    def take(index: int, everything: bool) -> None:
        nonlocal left
        item = free[index]
        left -= item.bytes if everything else item.raw_bytes
        left += item.raw_bytes if everything and taken.get(index) is False else 0  # they were counted already
        taken[index] = everything

    for index, item in enumerate(free):
        if before is not None and item.wall_time < before and (whole or item.raw_bytes):
            take(index, whole)
    for everything in (False, True) if whole else (False,):
        for index, item in enumerate(free):
            if down_to is None or left <= down_to:
                break
            if not taken.get(index) and (everything or (index not in taken and item.raw_bytes)):
                take(index, everything)
    return [(free[index], taken[index]) for index in sorted(taken)]


def main(arguments: list[str] | None = None) -> int:
    """Gives the exit code: 0 done, or only shown; 1 something could not be taken away; 2 wrong usage."""
    options = _parse(arguments)
    if options.older_than is None and options.down_to is None:
        print("tbd.prune: say what is to go: --older-than DAYS, --down-to SIZE, or both", file=sys.stderr)
        return EXIT_USAGE
    if not options.mlflow and not options.runs.is_dir():
        print(f"tbd.prune: there is no folder {options.runs}: name the runs' one by --runs", file=sys.stderr)
        return EXIT_USAGE
    try:
        items = _of_mlflow(options.experiment) if options.mlflow else _of_folder(options.runs, options.experiment)
    except Exception as error:  # whatever a store that is away raises
        print(f"tbd.prune: {' '.join(str(error).split())[:500]}", file=sys.stderr)
        return EXIT_FAILED
    before = None if options.older_than is None else time.time() - options.older_than * DAY_S
    chosen = choose(items, before, options.down_to, options.whole)
    for item in items:
        if item.kept:
            print(f"kept     {item.name}: {item.kept}")
    failed = 0
    for item, everything in chosen:
        freed = item.bytes if everything else item.raw_bytes
        what = "all of it" if everything else "traces"
        print(f"{'removed' if options.yes else 'would go'} {item.name}: {what}, {freed / 1e6:,.1f} MB")
        if options.yes:
            try:
                (item.take_all if everything else item.take_raw)()
            except Exception as error:
                failed += 1
                print(f"tbd.prune: {item.name}: {' '.join(str(error).split())[:500]}", file=sys.stderr)
    total = sum(item.bytes if everything else item.raw_bytes for item, everything in chosen)
    print(f"{len(chosen)} of {len(items)} runs, {total / 1e6:,.1f} of {sum(i.bytes for i in items) / 1e6:,.1f} MB")
    if chosen and not options.yes:
        print("nothing was removed: the same with --yes does it")
    if options.yes and options.mlflow and any(everything for _, everything in chosen):
        print("the runs are marked as deleted; on the server, `mlflow gc` takes them out of the database")
    return EXIT_FAILED if failed else EXIT_OK


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tbd.prune",
        description="Make room: remove what is old or too much, of the folders of runs or of MLflow. First only the "
        "traces and lists of allocations; figures and metrics stay unless --whole is given. A folder whose run is not "
        "in MLflow yet, or still goes on, stays. Without --yes it only says what would go.",
        epilog="Exit code: 0 done, or only shown; 1 something could not be removed; 2 wrong usage.",
    )
    parser.add_argument("--runs", type=Path, default=Path("runs"), metavar="FOLDER", help="where runs are (runs)")
    parser.add_argument("--mlflow", action="store_true", help="of the store in MLFLOW_TRACKING_URI, not of the folder")
    parser.add_argument("--experiment", metavar="NAME", help="only runs of this experiment")
    parser.add_argument("--older-than", type=_days, metavar="DAYS", help="what began more than so many days ago")
    parser.add_argument("--down-to", type=_bytes, metavar="SIZE", help="oldest first, until SIZE is left, such as 50GB")
    parser.add_argument("--whole", action="store_true", help="whole runs too, figures and all")
    parser.add_argument("--yes", action="store_true", help="do it")
    return parser.parse_args(arguments)


def _days(text: str) -> float:
    value = float(text)
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"{text} is no number of days")
    return value


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", text.strip().upper())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text} is no size, such as 500MB or 50GB")
    return int(float(found[1]) * UNITS[found[2]])


def _of_folder(root: Path, experiment: str | None) -> list[Item]:
    from tbd.tracking.spool import spools

    return [
        _of_spool(spool) for spool in spools(root) if experiment is None or spool.run.get("experiment") == experiment
    ]


def _of_spool(spool: "Spool") -> Item:
    import shutil

    from tbd.tracking.follower import waits
    from tbd.tracking.spool import write_json
    from tbd.tracking.store import Settings

    files = {
        path.relative_to(spool.path).as_posix(): path.stat().st_size
        for path in spool.path.rglob("*")
        if path.is_file() and not path.is_symlink()
    }
    kept = ""
    if spool.ended() is None:
        kept = "it has no end: it still goes on, or python -m tbd.sync is to close it"
    elif not (spool.path / "synced.json").exists() or waits(spool, Settings.of_spool(spool)):
        kept = "it is not in MLflow yet: python -m tbd.sync"

    def take_raw() -> None:
        raw = [name for name in files if RAW.search(name)]
        write_json(spool.path / "pruned.json", {"files": raw, "wall_time": time.time()})  # before anything is gone
        for name in raw:
            (spool.path / name).unlink()

    def take_all() -> None:
        gone = spool.path.with_name(f".{spool.path.name}.pruned")
        spool.path.rename(gone)  # half a run is none
        shutil.rmtree(gone)

    return Item(spool.path.name, float(spool.run.get("wall_time", 0.0)), files, take_raw, take_all, kept)


def _of_mlflow(experiment: str | None) -> list[Item]:
    """Every run of ours in the store, with the sizes of its files. Raises what MLflow raises, ValueError."""
    from mlflow import MlflowClient

    from tbd.tracking import access
    from tbd.tracking.store import Settings, patience, tracking_uri

    settings = Settings()
    client = MlflowClient(tracking_uri=tracking_uri(settings))
    with access.environment(settings.variables()), patience(retries=2, timeout_s=30):
        if experiment is None:
            ids = [found.experiment_id for found in client.search_experiments()]
        else:
            named = client.get_experiment_by_name(experiment)
            if named is None:
                raise ValueError(f"--experiment {experiment}: the store has none of that name")
            ids = [named.experiment_id]
        items, token = [], None
        while True:
            page = client.search_runs(ids, "tags.`tbd.spool_id` != ''", page_token=token)
            items += [_of_run(client, run) for run in page]
            token = page.token
            if not token:
                return items


def _of_run(client: "MlflowClient", run: "Run") -> Item:
    from mlflow.artifacts import get_artifact_repository  # type: ignore[attr-defined]

    from tbd.tracking.artifacts import sizes
    from tbd.tracking.store import Settings

    files = sizes(client, run.info.run_id, "")

    def remove(whole: bool) -> None:
        from tbd.tracking import access

        with access.environment(Settings().variables()):
            repository = get_artifact_repository(run.info.artifact_uri, tracking_uri=client.tracking_uri)
            raw = [name for name in files if RAW.search(name)]
            if whole:
                client.delete_run(run.info.run_id)
                repository.delete_artifacts()
            else:
                client.set_tag(run.info.run_id, "tbd.pruned", ", ".join(raw))
                for name in raw:
                    repository.delete_artifacts(name)

    return Item(
        str(run.info.run_name),
        run.info.start_time / 1000,
        files,
        lambda: remove(whole=False),
        lambda: remove(whole=True),
        "it still goes on" if run.info.status in ("RUNNING", "SCHEDULED") else "",
    )


if __name__ == "__main__":
    sys.exit(main())
