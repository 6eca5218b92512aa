"""A report on runs: everything that is computed of them, as a page, as JSON and as CSV."""

import csv
import dataclasses
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tbd.analysis.advice import Advice, advice
from tbd.analysis.curves import settings
from tbd.analysis.evidence import Evidence
from tbd.analysis.finding import Finding
from tbd.analysis.observations import all_findings
from tbd.analysis.runs import Run
from tbd.analysis.sections import SECTIONS, Section, recommendations
from tbd.worker import status

FACTS = ("name", "run_id", "spool_id", "status", "start", "model", "framework", "batch_size", "unit")


@dataclass(frozen=True)
class Report:
    """`title`: what the runs are. Everything else follows from the runs."""

    title: str
    runs: Sequence[Run]

    @cached_property
    def evidence(self) -> Evidence:
        return Evidence(self.runs)

    @cached_property
    def findings(self) -> list[Finding]:
        return all_findings(self.evidence)

    @cached_property
    def advice(self) -> list[Advice]:
        return advice(self.evidence)

    @cached_property
    def sections(self) -> list[Section]:
        return [*(section(self.evidence) for section in SECTIONS), recommendations(self.advice)]

    @property
    def notes(self) -> list[str]:
        """What whoever reads the verdicts must know of the runs."""
        ok = [run for run in self.runs if run.status == status.OK]
        small = sum(run.params.get("model.size") == "small" for run in ok)
        once = sum(run.params.get("measure.repeats") == "1" for run in ok)
        notes = []
        if small:
            notes.append(
                f"{small} of {len(ok)} runs are of small networks (model.size=small): they show that everything runs, "
                "and nothing of the models whose names they have."
            )
        if once:
            notes.append(
                f"{once} of {len(ok)} runs have one timing pass: their intervals hold nothing of what differs from one "
                "start of a program to the next, which may be several per cent. measure=standard has three."
            )
        return notes

    def rows(self) -> list[dict[str, Any]]:
        """A row for each run: what it is, its settings, its figures."""
        return [
            {
                **{name: getattr(run, name) for name in FACTS},
                **settings(run),
                **run.metrics,
                "tbd.cause": run.tags.get("tbd.cause", ""),
            }
            for run in self.runs
        ]

    def to_csv(self) -> str:
        """The runs, one a line; a column for whatever any of them has."""
        rows = self.rows()
        text = io.StringIO()
        writer = csv.DictWriter(text, list(dict.fromkeys(key for row in rows for key in row)), restval="")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()

    def to_json(self) -> str:
        """Runs, observations, parts of the page and recommendations."""
        tried = [
            {
                "run": one.curve.label,
                "batch_size": one.batch,
                **one.bottleneck._asdict(),
                "changes": [
                    {"change": str(a.change), "command": a.command, "gave": a.gave and a.gave._asdict()}
                    for a in one.attempts
                ],
            }
            for one in self.advice
        ]
        whole = {
            "schema": 1,
            "title": self.title,
            "notes": self.notes,
            "observations": [dataclasses.asdict(finding) for finding in self.findings],
            "sections": [dataclasses.asdict(section) for section in self.sections],
            "recommendations": tried,
            "runs": self.rows(),
        }
        return json.dumps(whole, indent=1, default=list)

    def to_markdown(self, folder: str = "report") -> str:
        """The verdicts, for the description of a run in MLflow that has the report among its artifacts in `folder`."""
        lines = ["| observation | verdict | |", "|---|---|---|"]
        lines += [f"| {one.number}. {one.claim} | {one.verdict} | {one.summary} |" for one in self.findings]
        return "\n".join(
            [
                f"{len(self.runs)} runs: {self.title}. The whole report is an artifact, in the folder {folder}.",
                "",
                *(f"- {note}" for note in self.notes),
                "",
                *lines,
            ]
        )
