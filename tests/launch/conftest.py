"""Small frameworks whose environments are made without a network."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tbd.launch import environments, project
from tbd.launch.files import PACKAGE

PYTHON_ENV = """\
python: "{python}"
dependencies:
{dependencies}
"""
MLPROJECT = """\
name: tbd-tiny
python_env: python_env.yaml
entry_points:
  worker:
    parameters:
      request: string
    command: {worker}
  verify:
    command: {verify}
"""
# A package that builds itself, with nothing from a network. Installing it waits, where the file `hang` is beside it,
# until `go` is there too.
BACKEND_TOML = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
BACKEND = """\
import pathlib, time, zipfile
def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    folder = pathlib.Path(__file__).resolve().parent.parent
    if (folder / "hang").exists():
        (folder / "started").touch()
        while not (folder / "go").exists():
            time.sleep(0.05)
    name, info = "tinypackage-1.5-py3-none-any.whl", "tinypackage-1.5.dist-info/"
    with zipfile.ZipFile(pathlib.Path(wheel_directory, name), "w") as wheel:
        wheel.writestr("tinypackage.py", "")
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: tinypackage\\nVersion: 1.5\\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "RECORD", "")
    return name
"""


@pytest.fixture(scope="session")
def write_project() -> Callable[..., project.Project]:
    """A function that writes a framework's project folder and gives the Project."""

    def write(
        folder: Path,
        python: str = "3.11",
        dependencies: tuple[str, ...] = ("-r requirements.txt",),
        requirements: str = "",
        worker: str = "cat {request}",
        verify: str = "python -c 'import json; print(json.__version__)'",
    ) -> project.Project:
        (folder / "package").mkdir(parents=True, exist_ok=True)
        (folder / "package" / "pyproject.toml").write_text(BACKEND_TOML)
        (folder / "package" / "backend.py").write_text(BACKEND)
        (folder / "requirements.txt").write_text(requirements)
        listed = "\n".join(f"  - {line}" for line in dependencies)
        (folder / "python_env.yaml").write_text(PYTHON_ENV.format(python=python, dependencies=listed))
        (folder / "MLproject").write_text(MLPROJECT.format(worker=repr_yaml(worker), verify=repr_yaml(verify)))
        return project.load(folder)

    return write


def repr_yaml(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """An empty TBD_HOME."""
    monkeypatch.setenv("TBD_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(scope="session")
def tiny(tmp_path_factory, write_project) -> tuple[project.Project, environments.Environment]:
    """A tiny framework and its environment, built once for all tests that only use it."""
    folder = tmp_path_factory.mktemp("tiny")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TBD_HOME", str(folder / "home"))
        written = write_project(folder / "project")
        return written, environments.ensure(written)


def eventually(condition: Callable[[], object], what: str) -> None:
    """Return once `condition` holds; fail after a minute."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"not within a minute: {what}"
        time.sleep(0.01)


def own_variables() -> dict[str, str]:
    """The variables for another Python of the controller's, from any folder."""
    return {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
