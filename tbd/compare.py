"""python -m tbd.compare A B [...]: runs side by side, how sure the differences are, and what moved."""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tbd.analysis.comparison import Comparison
    from tbd.analysis.runs import Library

EXIT_OK = 0
EXIT_USAGE = 2


def main(arguments: list[str] | None = None) -> int:
    """Gives the exit code: 0, or 2 where a word means no run."""
    parser = argparse.ArgumentParser(
        prog="python -m tbd.compare",
        description="Compare runs with the first one. Each word is a run id, a run's name, a spool's folder, a sweep, "
        "or a filter as in MLflow's search; where it means several runs, they are taken as repeats of one another. The "
        "store is the one of MLFLOW_TRACKING_URI, else sqlite:///mlflow.db here.",
    )
    parser.add_argument("words", nargs="+", metavar="RUN", help="what to compare: the first with each of the others")
    parser.add_argument("--runs", type=Path, default=Path("runs"), metavar="FOLDER", help="where spools are (runs)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all of it as JSON (- for standard output)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write it for a pull request (- as above)")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write it as a page that stands alone")
    parser.add_argument(
        "--log", action="store_true", help="log page, JSON and Markdown to the sweep that the runs are of, in MLflow"
    )
    options = parser.parse_args(arguments)
    if len(options.words) < 2:
        parser.error("two runs at least are needed to compare")

    from tbd.analysis.comparison import Side, compare
    from tbd.analysis.runs import Library, NoRun

    library = Library(options.runs)
    try:
        sides = [Side(word, library.named(word)) for word in options.words]
    except NoRun as error:
        print(f"tbd.compare: {error}", file=sys.stderr)
        return EXIT_USAGE
    from tbd.analysis import comparison_page, shown

    comparison = compare(sides)
    texts: dict[Path | None, Callable[[], str]] = {
        options.json: lambda: json.dumps(comparison.to_json(), indent=1, allow_nan=False) + "\n",
        options.markdown: lambda: shown.markdown(comparison),
        options.html: lambda: comparison_page.page(comparison),
    }
    try:
        for path, text in texts.items():
            if path is not None and str(path) != "-":
                path.write_text(text())
    except OSError as error:
        print(f"tbd.compare: {error.filename}: {error.strerror}", file=sys.stderr)
        return EXIT_USAGE
    printed = [text for path, text in texts.items() if str(path) == "-"]
    if printed:
        print(printed[0](), end="")
    else:
        shown.terminal(comparison)
    if options.log:
        print(log(library, comparison), file=sys.stderr)
    return EXIT_OK


def log(library: "Library", comparison: "Comparison") -> str:
    """Put it into MLflow, in a folder of the sweep's run that is called by the runs; tells what became of it."""
    from tbd.analysis import comparison_page, shown
    from tbd.analysis.publishing import publish

    texts = {
        "comparison.html": comparison_page.page(comparison),
        "comparison.json": json.dumps(comparison.to_json(), indent=1, allow_nan=False) + "\n",
        "comparison.md": shown.markdown(comparison),
    }
    runs = [run for side in comparison.sides for run in side.runs]
    name = "-".join(side.runs[0].id[:8] for side in comparison.sides)
    with tempfile.TemporaryDirectory(prefix="tbd-") as folder:
        files = [Path(folder, file) for file in texts]
        for file in files:
            file.write_text(texts[file.name])
        return publish(library, runs, files, f"comparisons/{name}")


if __name__ == "__main__":
    sys.exit(main())
