"""benchmarks/suite.py and what it made: docs/results/."""

import json
import tarfile
from pathlib import Path

import pytest

from benchmarks import suite

RESULTS = Path(__file__).parent.parent / "docs" / "results"
ARCHIVES = sorted(RESULTS.glob("*/runs/*.tar.xz"))


def test_no_run_is_asked_twice_and_each_model_has_two_batches_in_each_precision() -> None:
    jobs = suite.jobs()
    assert len({job.name for job in jobs}) == len(jobs)
    for model in suite.MODELS:
        for framework in suite.FRAMEWORKS:
            for precision in ("bf16", "fp32", "tf32"):
                asked = {job.batch_size for job in jobs if job[:3] == (model, framework, precision)}
                assert len(asked) >= 2, (model, framework, precision)


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)
def test_what_is_kept_of_a_run_is_what_its_name_says_and_ended_well(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    (spool,) = tmp_path.iterdir()
    assert sorted(path.name for path in spool.iterdir()) == sorted(suite.KEPT)
    asked, figures = (json.loads((spool / f"{name}.json").read_text()) for name in ("request", "figures"))
    job = suite.Job(asked["model"]["name"], asked["framework"]["name"], asked["precision"], asked["batch_size"])
    assert archive.name == f"{job.name}.tar.xz"
    assert job in suite.jobs()
    assert figures["metrics"]["throughput"] > 0
