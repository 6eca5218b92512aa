"""How often the gate is wrong: python benchmarks/gate.py [--gates 1000]

Of so many simulated gates for each spread of the repeats, in which the gate is given the repeats that it asks for: how
many call a regression where nothing changed, and how many find a loss of 3 % at a tolerance of 2 %, each with its 95 %
interval (Wilson 1927).
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tbd.analysis.gating import REGRESSION
from tests.analysis.test_gate import decided

SPREADS = (0.003, 0.01, 0.02, 0.05)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gates", type=int, default=1000)
    count = parser.parse_args().gates
    for spread in SPREADS:
        random = np.random.default_rng(1)
        for loss, words in ((0.0, "false alarms"), (0.03, "a loss of 3 % found")):
            found = sum(decided(random, loss, spread) == REGRESSION for _ in range(count))
            ends = stats.binomtest(found, count).proportion_ci(method="wilson")
            print(
                f"spread {spread:.1%}: {words} in {found / count:.2%} ({ends.low:.2%} to {ends.high:.2%})", flush=True
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
