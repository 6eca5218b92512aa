"""python -m tbd.report [FILTER] --output FILE: what runs say together, and the TBD paper's observations on them."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tbd.measure.garbage import without_collecting

if TYPE_CHECKING:
    from tbd.analysis.runs import Library, Run

EXIT_OK, EXIT_USAGE = 0, 2


@without_collecting()
def main(arguments: list[str] | None = None) -> int:
    """Gives the exit code: 0 the report is written, 2 no run was found or it can't be written."""
    parser = argparse.ArgumentParser(
        prog="python -m tbd.report",
        description="Put runs together in one page that stands by itself, with the verdict on each of the TBD paper's "
        "thirteen observations, what holds each run back, and the data as CSV and JSON beside it.",
        epilog="Exit code: 0 the report is written, 2 no run was found or the report can't be written.",
    )
    parser.add_argument(
        "filter", nargs="?", metavar="FILTER",
        help="a sweep or a run (id, name or folder), or a filter as in MLflow's search: \"tags.model = 'wgan'\"; "
        "default: the newest sweep, else all runs of the experiment",
    )  # fmt: skip
    parser.add_argument("--output", type=Path, default=Path("report.html"), metavar="FILE", help="(report.html)")
    parser.add_argument("--experiment", help="whose runs, where no FILTER is given (MLFLOW_EXPERIMENT_NAME, else tbd)")
    parser.add_argument("--runs", type=Path, default=Path("runs"), metavar="FOLDER", help="where runs are (runs)")
    options = parser.parse_args(arguments)

    from tbd.analysis.runs import Library, NoRun

    library = Library(options.runs)
    try:
        title, runs = choose(library, options.filter, options.experiment)
    except NoRun as error:
        print(f"tbd.report: {error}", file=sys.stderr)
        return EXIT_USAGE
    return write(library, title, runs, options.output)


def choose(library: "Library", words: str | None, experiment: str | None) -> "tuple[str, list[Run]]":
    """(what they are, the runs). Raises NoRun where there is none."""
    from tbd.analysis.runs import NoRun

    if words:
        return words, library.named(words)
    name = experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME", "tbd")
    for sweep in reversed(library.sweeps(name)):
        if jobs := library.jobs_of(sweep):
            return sweep.tags.get("tbd.overrides") or sweep.name, jobs
    runs = library.matching(experiment=name)
    if not runs:
        raise NoRun(
            f"the experiment {name!r} has no run, neither under {library.runs} nor in MLflow: make one, or --experiment"
        )
    return f"experiment {name}", runs


def write(library: "Library", title: str, runs: "list[Run]", output: Path) -> int:
    from tbd.analysis import page
    from tbd.analysis.publishing import publish
    from tbd.analysis.reporting import Report

    report = Report(title, runs)
    try:
        files = page.write(report, output)
    except OSError as error:
        print(f"tbd.report: {error.filename}: {error.strerror}: name another file by --output", file=sys.stderr)
        return EXIT_USAGE
    for finding in report.findings:
        print(f"{finding.number:2}. {finding.verdict:15}  {finding.claim}")
    print(f"report   {output}, its data {', '.join(path.name for path in files[1:])}")
    folder = f"reports/{output.stem}"  # not `report`, which is the sweep's own, as its SHA256SUMS has it
    print(publish(library, runs, files, folder, report.to_markdown(folder)))
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
