"""What ran in a run's traced steps, and which of it leaves the arithmetic units idle by its kind."""

import csv
import re
from collections.abc import Sequence
from typing import NamedTuple

from tbd.analysis.runs import Run

# Kinds that do a few operations for each number they read, as the frameworks and cuDNN name them.
FEW = re.compile(
    r"norm|pool|relu|activation|threshold|elementwise|bias|reduce|softmax|copy|transpose|permute|clamp|dropout|convert"
    r"|(?:^|[^a-z])(?:bn|add|mul|sub|div|cast|fill|concat|cat|loop)(?:$|[^a-z])",
    re.IGNORECASE,
)
# What multiplies matrices, whatever else is fused into it.
MANY = re.compile(
    r"conv(?!ert)|gemm|matmul|xmma|cutlass|wgrad|dgrad|(?:^|[^a-z])(?:mm|addmm|bmm|dot)(?:$|[^a-z])", re.IGNORECASE
)


class Operator(NamedTuple):
    """A kernel of a GPU, or an operator on a CPU. `share`: of all time in the run's kernels, or operators."""

    name: str
    ms_per_step: float
    share: float

    @property
    def few_operations(self) -> bool:
        """Whether it is normalisation, pooling, an activation, a sum or a copy, by its name."""
        return bool(FEW.search(self.name)) and not MANY.search(self.name)


def operators(run: Run) -> list[Operator]:
    """Of the device's own work, longest first; [] where the run has no trace."""
    path = run.files.folder("operators.csv") / "operators.csv"
    if not path.is_file():
        return []
    category = "kernel" if run.params.get("hardware.device") == "gpu" else "cpu_op"
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Operator(row["name"], float(row["self_ms_per_step"]), float(row["share"]))
            for row in csv.DictReader(file)
            if row["category"] == category
        ]


def share_of_few(found: Sequence[Operator]) -> float:
    """The share of the time in what does few operations for each number."""
    return sum(operator.share for operator in found if operator.few_operations)
