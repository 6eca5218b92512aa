"""Nothing runs beside what is measured, and nothing is told to anybody but the store."""

import subprocess
import sys

from tests.commands import environment


def test_mlflow_starts_no_thread_of_its_own() -> None:
    code = (
        "import threading, tbd.pipeline, mlflow; client = mlflow.MlflowClient('sqlite://');"
        "client.create_run(client.create_experiment('of mine'));"
        "print([thread.name for thread in threading.enumerate()])"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['MainThread']"
