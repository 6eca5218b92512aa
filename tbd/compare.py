"""python -m tbd.compare A B [...]: runs side by side, how sure the differences are, and what moved."""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tbd.measure.garbage import without_collecting

if TYPE_CHECKING:
    from tbd.analysis.comparison import Comparison
    from tbd.analysis.runs import Library

EXIT_OK = 0
EXIT_USAGE = 2


@without_collecting()
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
    from tbd.analysis import shown

    comparison = compare(sides)
    texts = {options.json: as_json, options.markdown: as_markdown, options.html: as_html}
    try:
        for path, text in texts.items():
            if path is not None and str(path) != "-":
                path.write_text(text(comparison))
    except OSError as error:
        print(f"tbd.compare: {error.filename}: {error.strerror}", file=sys.stderr)
        return EXIT_USAGE
    printed = [text for path, text in texts.items() if str(path) == "-"]
    if printed:
        print(printed[0](comparison), end="")
    else:
        shown.terminal(comparison)
    if options.log:
        print(log(library, comparison), file=sys.stderr)
    return EXIT_OK


def as_json(comparison: "Comparison") -> str:
    return json.dumps(comparison.to_json(), indent=1, allow_nan=False) + "\n"


def as_markdown(comparison: "Comparison") -> str:
    from tbd.analysis import shown

    return shown.markdown(comparison)


def as_html(comparison: "Comparison") -> str:
    from tbd.analysis import comparison_page

    return comparison_page.page(comparison)


FORMS: "Mapping[str, Callable[[Comparison], str]]" = {"json": as_json, "md": as_markdown, "html": as_html}


def log(library: "Library", comparison: "Comparison") -> str:
    """Put it into MLflow, in a folder of the sweep's run that is called by the runs; tells what became of it."""
    from tbd.analysis.publishing import publish

    runs = [run for side in comparison.sides for run in side.runs]
    name = "-".join(side.runs[0].id[:8] for side in comparison.sides)
    with tempfile.TemporaryDirectory(prefix="tbd-") as folder:
        files = []
        for suffix, text in FORMS.items():
            files.append(Path(folder, f"comparison.{suffix}"))
            files[-1].write_text(text(comparison))
        return publish(library, runs, files, f"comparisons/{name}")


if __name__ == "__main__":
    sys.exit(main())
