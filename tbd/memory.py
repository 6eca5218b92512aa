"""python -m tbd.memory RUN: where the memory of a run's training step went, as a table, a page and a picture."""

import argparse
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tbd.measure.run import Run

EXIT_OK = 0
EXIT_ABSENT = 1  # the run has no record of its memory
EXIT_USAGE = 2
LAYERS = 10


def main(arguments: list[str] | None = None) -> int:
    """Gives the exit code: 0 shown, 1 the run has no record of its memory, 2 there is no such run."""
    parser = argparse.ArgumentParser(
        prog="python -m tbd.memory",
        description="Show where the memory of a run's training step went, and write memory.html (interactive), "
        "memory.png and memory_breakdown.json (docs/memory.md) of it. With other runs of the same training: predict "
        "the largest batch.",
        epilog="Exit code: 0 shown, 1 the run has no record of its memory, 2 there is no such run.",
    )
    parser.add_argument("run", metavar="RUN", help="a run's folder, its id, or its name: the latest of that name")
    parser.add_argument(
        "others",
        nargs="*",
        metavar="OTHER",
        help="the same training at other batch sizes: predict the largest batch within --limit-mb",
    )
    parser.add_argument("--limit-mb", type=float, metavar="N", help="MB that the training may take")
    parser.add_argument("--runs", type=Path, default=Path("runs"), metavar="FOLDER", help="where runs are (runs)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where to write (the run's folder, else here)")
    options = parser.parse_args(arguments)

    if bool(options.others) != (options.limit_mb is not None):
        print("tbd.memory: a prediction needs both: runs at several batch sizes, and --limit-mb=N", file=sys.stderr)
        return EXIT_USAGE

    from tbd.analysis.files import Folder
    from tbd.analysis.runs import FACTS, Library, NoRun
    from tbd.measure import memory_report
    from tbd.measure.events import Absent
    from tbd.measure.run import Run
    from tbd.tracking import derived

    try:
        library = Library(options.runs)
        found, *others = (library.named(word)[-1] for word in (options.run, *options.others))
    except NoRun as error:
        print(f"tbd.memory: {error}", file=sys.stderr)
        return EXIT_USAGE
    folder = found.files.folder(*FACTS, "memory.json")
    run = Run(folder)
    try:
        report = memory_report.report(run)
    except Absent as reason:
        print(f"tbd.memory: {found.name}: {reason}", file=sys.stderr)
        return EXIT_ABSENT
    try:
        beside = folder if isinstance(found.files, Folder) else Path()
        written = derived.write_memory(run, found.name, options.out or beside)
    except OSError as error:
        print(f"tbd.memory: {error.strerror}: {error.filename}: --out names another folder", file=sys.stderr)
        return EXIT_USAGE
    show(found.name, report)
    if others:
        try:
            print(prediction([run, *(Run(other.files.folder(*FACTS, "memory.json")) for other in others)], options))
        except Absent as reason:
            print(f"tbd.memory: no prediction: {reason}", file=sys.stderr)
            return EXIT_ABSENT
    for path in written:
        print(path)
    return EXIT_OK


def prediction(runs: "Sequence[Run]", options: argparse.Namespace) -> str:
    """What the largest batch within the limit would be. Raises Absent where the runs don't tell."""
    from tbd.measure import largest_batch
    from tbd.measure.events import Absent

    points = [(run.batch_size, run.memory_taken_mb) for run in runs]
    fixed, slope = largest_batch.line(*zip(*points, strict=True))
    largest = str(largest_batch.predicted(*zip(*points, strict=True), options.limit_mb))
    with contextlib.suppress(Absent):  # of two sizes there is none
        low, high = largest_batch.interval(*zip(*points, strict=True), options.limit_mb)
        largest += f" (95 %: {low} to {high})"
    what = "resident memory" if runs[0].device == "cpu" else "the allocator's memory"
    return (
        f"largest batch within {options.limit_mb:g} MB: {largest}, predicted by {what} = {fixed:.1f} MB + {slope:.4g} "
        "MB x batch size; measure.find_max_batch=true finds it by trials"
    )


def show(title: str, report: dict[str, Any]) -> None:
    """Print the peak by data structure and the layers that hold the most."""
    from rich.console import Console
    from rich.table import Table

    from tbd.measure.metrics import number

    peak, shares = report["peak"], report["shares"]
    table = Table(title=f"Memory of one training step: {title}", title_justify="left")
    table.caption = f"% of {shares['of_peak_denominator']}; second % of the first five structures' sum"
    for heading in ("at the peak", "MB", "%", "%"):
        table.add_column(heading, justify="left" if heading == "at the peak" else "right")
    for name, size in peak["categories_mb"].items():
        second = shares["of_structures"].get(name)
        percent = "" if second is None else f"{100 * second:.1f}"
        table.add_row(name.replace("_", " "), number(size), f"{100 * shares['of_peak'][name]:.1f}", percent)
    for key, meaning in (
        ("allocator_mb", "the allocator's peak"),
        ("slack_mb", "its slack, within other"),
        ("untracked_mb", "no recorded buffer, within other"),
        ("outside_allocator_mb", "outside the allocator, beside all this"),
    ):
        table.add_row(meaning, "not known" if peak[key] is None else number(peak[key]), "", "")
    console = Console()
    console.print(table)
    layers = Table(title="Layers, MB", title_justify="left")
    columns = [name for name in (report["layers"] or [{}])[0] if name != "layer"]
    layers.add_column("layer", overflow="fold")
    for name in columns:
        layers.add_column(name.removesuffix("_mb").replace("_", " "), justify="right")
    for row in report["layers"][:LAYERS]:
        layers.add_row(row["layer"] or "(of no layer)", *(number(row[name]) for name in columns))
    console.print(layers)


if __name__ == "__main__":
    sys.exit(main())
