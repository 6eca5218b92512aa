"""What the runs say about one claim: the verdict, the numbers and the picture behind it, and which runs are missing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tbd.analysis.charts import Chart

MOST_NAMES = 6  # in a summary; the table has all
HOLDS, FAILS, UNKNOWN = "holds", "doesn't hold", "not enough data"


class Missing(NamedTuple):
    """Runs that are not there: what they would tell, and the command that makes them."""

    what: str
    command: str


class Case(NamedTuple):
    """One of the things that a claim speaks of, such as a model. `holds`: None where it can't be told."""

    name: str
    holds: bool | None
    row: Mapping[str, Any]


@dataclass(frozen=True)
class Finding:
    """One of the paper's observations on these runs.

    `recalled`: what is remembered of the paper's own figures, "" for nothing; never a figure of these runs.
    `criterion`: when exactly the claim is taken to hold. `rows`: the numbers, one mapping a case.
    """

    number: int
    claim: str
    recalled: str
    criterion: str
    verdict: str
    summary: str
    rows: Sequence[Mapping[str, Any]] = ()
    charts: Sequence[Chart] = ()
    missing: Sequence[Missing] = field(default_factory=list)


def of_all(cases: Sequence[Case]) -> str:
    """The verdict on a claim about every case: one against it is enough, and one that can't be told leaves it open."""
    verdicts = [case.holds for case in cases]
    if False in verdicts:
        return FAILS
    return UNKNOWN if None in verdicts or not verdicts else HOLDS


def summary(cases: Sequence[Case], nothing: str) -> str:
    """How many cases are for the claim, and which are not; `nothing`: what to say where there is none."""
    if not cases:
        return nothing
    text = f"{sum(case.holds is True for case in cases)} of {len(cases)} are for it."
    for verdict, words in ((False, "Against it"), (None, "Can't be told apart by their intervals")):
        names = [case.name for case in cases if case.holds is verdict]
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        text += f" {words}: {', '.join(names[:MOST_NAMES])}{more}." if names else ""
    return text


def rows(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """The cases' numbers as a table, with what each says."""
    words = {True: "yes", False: "no", None: "can't be told"}
    return [{"run": case.name, **case.row, "for it": words[case.holds]} for case in cases]
