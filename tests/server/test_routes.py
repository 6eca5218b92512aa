"""No route of MLflow is served without having been looked at."""

import subprocess
import sys
from pathlib import Path

from tbd.server.guard import served
from tests import commands

KNOWN = Path(__file__).parent / "routes.txt"


def test_every_route_of_this_mlflow_has_been_looked_at() -> None:
    called = subprocess.run(
        [sys.executable, "-m", "tests.server.routes"], env=commands.environment(), capture_output=True, text=True
    )
    assert called.returncode == 0, called.stderr
    now, known = set(called.stdout.splitlines()), set(KNOWN.read_text().splitlines())
    assert now == known, (
        f"new: {sorted(now - known)}; gone: {sorted(known - now)}. Look at each new one, let it be served in "
        "tbd/server/guard.py if a benchmark's record needs it, say in tests/server/test_strangers.py what a stranger "
        "gets there, and then: python -m tests.server.routes > tests/server/routes.txt"
    )


def test_what_is_not_listed_is_closed() -> None:
    for method, path in (
        ("GET", "/api/2.0/mlflow/brand-new"),
        ("POST", "/api/2.0/mlflow/runs/brand-new"),
        ("DELETE", "/api/2.0/mlflow/runs/get"),
        ("GET", "/api/2.0/mlflow/runs/get/more"),
        ("GET", "/api/9.0/mlflow/runs/get"),
        ("GET", "/x/api/2.0/mlflow/runs/get"),
        ("HEAD", "/api/2.0/mlflow/runs/get"),
        ("PATCH", "/api/2.0/mlflow-artifacts/artifacts/1/x"),
        ("POST", "/gateway/proxy/x/y"),
    ):
        assert not served(method, path), (method, path)
    assert served("GET", "/api/2.0/mlflow/runs/get") and served("GET", "/ajax-api/2.0/mlflow/runs/get")
