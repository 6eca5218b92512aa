"""python -m tbd.gate --baseline FILTER: whether new runs are worse than a baseline, for CI."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tbd.measure.garbage import without_collecting

if TYPE_CHECKING:
    from tbd.analysis.runs import Library, Run

EXIT_USAGE = 2
EPILOG = "Exit code: 0 no regression, 1 a regression, 3 the data can't tell: then it says how many more repeats would."


@without_collecting()
def main(arguments: list[str] | None = None) -> int:
    """Gives the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tbd.gate",
        description="Judge new runs against a baseline, configuration by configuration: a loss of throughput, memory, "
        "utilisation or energy beyond the tolerance is a regression. The store is the one of MLFLOW_TRACKING_URI, else "
        "sqlite:///mlflow.db here.",
        epilog=EPILOG,
    )
    parser.add_argument(
        "candidates", nargs="*", metavar="RUN", help="ids, names, folders, sweeps or filters; default: the newest run "
        "that is no baseline's, with all of its sweep",
    )  # fmt: skip
    parser.add_argument(
        "--baseline", required=True, metavar="FILTER", help="what to compare with: a filter as in MLflow's search, "
        "such as \"tags.baseline = 'yes'\", or a run as above",
    )  # fmt: skip
    parser.add_argument("--tolerance", type=share, default=0.02, metavar="2%", help="the loss that is accepted (2%%)")
    parser.add_argument(
        "--metrics", type=metrics, metavar="A,B", help="what to judge; default: the usual ones that the runs have"
    )
    parser.add_argument(
        "--history", metavar="FILTER", help="what to look for changes of level in; default: baseline and candidates"
    )
    parser.add_argument("--runs", type=Path, default=Path("runs"), metavar="FOLDER", help="where spools are (runs)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdicts as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write them for a pull request")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write them as a page, with the history plotted")
    options = parser.parse_args(arguments)

    from tbd.analysis.runs import Library, NoRun

    try:
        return judge(Library(options.runs), options)
    except NoRun as error:
        print(f"tbd.gate: {error}", file=sys.stderr)
    except OSError as error:
        print(f"tbd.gate: {error.filename}: {error.strerror}", file=sys.stderr)
    return EXIT_USAGE


def share(text: str) -> float:
    """2% -> 0.02, as 0.02 is."""
    value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 100%")
    return value


def metrics(text: str) -> list[str]:
    """Names with commas, each of a metric that has a better and a worse."""
    from tbd.analysis.comparison import better

    names = text.split(",")
    for name in names:
        if not better(name):
            raise argparse.ArgumentTypeError(f"{name} is no metric of which more or less is better: docs/metrics.md")
    return names


def judge(library: "Library", options: argparse.Namespace) -> int:
    """Find the runs, judge them, show and write the verdicts; gives the exit code. Raises NoRun."""
    from tbd.analysis import gate_page, gating, history

    baseline = library.named(options.baseline)
    candidates = [run for word in options.candidates for run in library.named(word)] or newest(library, baseline)
    inside = {run.spool_id for run in candidates}
    baseline = [run for run in baseline if run.spool_id not in inside]
    cells = gating.judge(baseline, candidates, options.metrics or gating.METRICS, options.tolerance)
    alone = len(gating.by_configuration(candidates)) - len(cells)
    if alone:
        print(f"tbd.gate: {alone} of the candidates' configurations have no run in the baseline", file=sys.stderr)
    past = gating.by_configuration(library.named(options.history) if options.history else [*baseline, *candidates])
    histories = [history.of_runs(past.get(gating.key(cell.candidate.runs[0]), [])) for cell in cells]
    gate_page.terminal(cells, histories)
    if options.json:
        options.json.write_text(json.dumps(gate_page.as_json(cells, histories), indent=1, allow_nan=False) + "\n")
    if options.markdown:
        options.markdown.write_text(gate_page.markdown(cells, histories))
    if options.html:
        options.html.write_text(gate_page.page(cells, histories, options.tolerance))
    return gating.exit_code(cells) if cells else EXIT_USAGE


def newest(library: "Library", baseline: "list[Run]") -> "list[Run]":
    """The newest run that is none of the baseline's, with all of its sweep. Raises NoRun."""
    from tbd.analysis.runs import NoRun

    known = {run.spool_id for run in baseline}
    others = [run for run in library.matching() if run.spool_id not in known]
    if not others:
        raise NoRun("every run is one of the baseline's: name the candidates, or narrow the filter")
    last = others[-1]
    return [run for run in others if run is last or (last.parent and run.parent == last.parent)]


if __name__ == "__main__":
    sys.exit(main())
