import os
import shutil
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tbd.tracking.store import Settings, opened


@pytest.fixture(autouse=True)
def plain_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working folder, and nothing of the caller's MLflow."""
    for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TBD_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An initialised store: to make one takes seconds, to copy it none."""
    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TBD_HOME", str(path.parent))
        with opened(f"sqlite:///{path}") as client:
            client.search_experiments()
    return path


@pytest.fixture
def settings(tmp_path: Path, empty_database: Path) -> Settings:
    """Of a store of the test's own."""
    shutil.copy(empty_database, tmp_path / "mlflow.db")
    return Settings(f"sqlite:///{tmp_path}/mlflow.db")


@pytest.fixture
def client(settings: Settings) -> MlflowClient:
    return MlflowClient(tracking_uri=settings.uri)
