"""A pass by a request that somebody wrote by hand."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tbd.worker.status import EXIT_CODES, UNSUPPORTED


@pytest.mark.parametrize(
    ("framework", "compiler", "said"),
    [
        ("cntk", None, "use model.lipschitz=weight_clipping"),
        ("pytorch", "inductor", "torch.compile has no gradients of second order"),
    ],
)
def test_what_a_framework_can_not_express_is_refused_before_it_is_imported(
    tmp_path: Path, framework: str, compiler: object, said: str
) -> None:
    request = {
        "schema": 1, "output": str(tmp_path), "rank": 0, "world_size": 1, "seed": 1, "batch_size": 4,
        "model": {"name": "wgan", "size": "small"}, "framework": {"name": framework}, "compile": compiler,
        "precision": "fp32", "hardware": {"device": "cpu", "threads": 1}, "data": {"name": "synthetic"},
        "measure": {"passes": ["timing"]},
    }  # fmt: skip
    path = tmp_path / "request.json"
    path.write_text(json.dumps(request))
    command = [sys.executable, "-m", "tbd.worker.run_pass", str(path), "timing"]  # has no framework
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    error = process.communicate(timeout=100)[1].decode("utf-8")
    assert process.returncode == EXIT_CODES[UNSUPPORTED], error
    assert said in error
    end = json.loads((tmp_path / "events.jsonl").read_text().splitlines()[-1])
    assert (end["event"], end["status"]) == ("end", UNSUPPORTED) and said in end["cause"]
