"""The command through MLflow Projects: `mlflow run . -e train -P overrides=...`."""

import os
import subprocess
import sys
from pathlib import Path

from tests.commands import ROOT, SLEEP, environment, mlflow_runs, options, spools


def mlflow_run(folder: Path, overrides: str) -> subprocess.CompletedProcess[str]:
    """`mlflow run` from another folder, in the interpreter at hand."""
    command = [str(Path(sys.executable).parent / "mlflow"), "run", str(ROOT), "-e", "train", "--env-manager", "local"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    store = f"sqlite:///{folder / 'mlflow.db'}"
    return subprocess.run(
        [*command, "-P", f"overrides={overrides}"], cwd=folder, env=environment(PATH=path, MLFLOW_TRACKING_URI=store),
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def test_the_run_that_mlflow_made_is_the_runs_record(tmp_path: Path) -> None:
    overrides = " ".join([*SLEEP, *options(items={"images": 4}), f"tracking.runs={tmp_path / 'runs'}"])
    done = mlflow_run(tmp_path, overrides)
    assert done.returncode == 0, done.stderr
    (run,) = mlflow_runs(tmp_path)
    assert run.info.status == "FINISHED"
    assert run.data.metrics["throughput"] > 0 and run.data.tags["tbd.status"] == "ok"
    assert len(spools(tmp_path)) == 1


def test_a_bad_override_fails_the_project_with_its_line(tmp_path: Path) -> None:
    done = mlflow_run(tmp_path, "model=resnet5")
    assert done.returncode != 0
    assert "Did you mean resnet50?" in done.stderr
