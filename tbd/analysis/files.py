"""The files of a recorded run, wherever they are: in its spool here, or among MLflow's artifacts."""

import tempfile
import urllib.parse
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol


class Files(Protocol):
    def folder(self, *names: str) -> Path:
        """A folder on this machine that holds those of the files that the run has."""


@dataclass(frozen=True)
class Folder:
    """A spool, or artifacts in a folder of this machine."""

    path: Path

    def folder(self, *names: str) -> Path:
        return self.path


@dataclass(frozen=True)
class Artifacts:
    """An MLflow run's artifacts somewhere else. What is asked for is fetched, once, and removed with this object."""

    tracking_uri: str
    run_id: str
    _fetched: set[str] = field(default_factory=set, compare=False)

    def folder(self, *names: str) -> Path:
        from mlflow import MlflowClient

        client = MlflowClient(tracking_uri=self.tracking_uri)
        for name in names:
            if name in self._present and name not in self._fetched:
                client.download_artifacts(self.run_id, name, self._temporary.name)
                self._fetched.add(name)
        return Path(self._temporary.name)

    @cached_property
    def _temporary(self) -> "tempfile.TemporaryDirectory[str]":
        return tempfile.TemporaryDirectory(prefix="tbd-")

    @cached_property
    def _present(self) -> set[str]:
        from mlflow import MlflowClient

        return {file.path for file in MlflowClient(tracking_uri=self.tracking_uri).list_artifacts(self.run_id)}


def of_mlflow(tracking_uri: str, run_id: str, artifact_uri: str) -> Files:
    """Where an MLflow run's artifacts are."""
    parts = urllib.parse.urlsplit(artifact_uri)
    if parts.scheme in ("", "file"):
        return Folder(Path(urllib.parse.unquote(parts.path)))
    return Artifacts(tracking_uri, run_id)
