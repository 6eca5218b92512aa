"""A framework is a folder with an MLproject; its worker runs in its environment and sees nothing of the controller."""

import json
import os
import sys

import pytest

from tbd import data
from tbd.launch import project
from tbd.launch.files import framework_names, project_file
from tbd.launch.project import BadProject
from tbd.worker import status


@pytest.mark.parametrize("name", framework_names())
def test_our_own_projects_are_whole(name):
    loaded = project.load(name)
    assert (loaded.name, loaded.python) == (name, "3.6" if name == "cntk" else "3.11")  # CNTK has no later wheels
    assert loaded.command(project.WORKER, {"request": "/a b/request.json"}) == (
        "python -m tbd.worker '/a b/request.json'"
    )
    for line in (loaded.folder / "requirements.txt").read_text().splitlines():
        assert line.startswith("#") or "==" in line, f"{line} is not pinned"
    conda = project.read_yaml(loaded.folder / "conda.yaml")
    python, pip, installed = conda["dependencies"]
    assert (python, pip.split("=")[0]) == (f"python={loaded.python}", "pip")
    assert installed == {"pip": ["-r requirements.txt"]}


@pytest.mark.parametrize("name", [entry.project for entry in data.SOURCES.values() if entry.project])
def test_the_projects_of_data_sources_are_whole(name):
    folder = project_file("entrypoints", "data", name)
    loaded = project.load(folder, entry_points=(project.VERIFY,))
    assert loaded.python and all((loaded.folder / file).is_file() for file in loaded.requirement_files)
    assert (loaded.folder / "conda.yaml").is_file() and (loaded.folder / "play.py").is_file()
    assert loaded.worker_template() == ""
    with pytest.raises(project.BadProject, match="no entry point worker"):
        project.load(folder)


def test_an_unknown_framework_is_told_which_there_are():
    with pytest.raises(BadProject, match="framework=tensorflop.*pytorch, tensorflow") as caught:
        project.load("tensorflop")
    assert caught.value.status == status.BAD_CONFIG


def test_a_folder_without_mlproject_is_refused(tmp_path):
    with pytest.raises(BadProject, match="no file MLproject"):
        project.load(tmp_path)


@pytest.mark.parametrize(
    "file, content, message",
    [
        ("MLproject", "name: [", "MLproject: while parsing"),
        ("MLproject", "just text", "MLproject: not a mapping"),
        ("MLproject", "name: x\nentry_points: {worker: {command: x}}", "no entry point verify"),
        ("python_env.yaml", "python: 3.11", "quoted"),
        ("python_env.yaml", "python: '3.11'\ndependencies: ['-r missing.txt']", "missing.txt isn't there"),
    ],
)
def test_a_broken_project_is_one_clear_line(tmp_path, write_project, file, content, message):
    write_project(tmp_path)
    (tmp_path / file).write_text(content)
    with pytest.raises(BadProject, match=message) as caught:
        project.load(tmp_path)
    assert "\n" not in caught.value.cause


def test_the_digest_changes_with_what_is_installed_and_with_nothing_else(tmp_path, write_project):
    first = write_project(tmp_path / "a", requirements="x==1")
    assert write_project(tmp_path / "b", requirements="x==1", worker="other").digest == first.digest
    assert write_project(tmp_path / "c", requirements="x==2").digest != first.digest
    assert write_project(tmp_path / "d", requirements="x==1", python="3.10").digest != first.digest


def test_a_command_with_an_unknown_parameter_is_refused(tmp_path, write_project):
    with pytest.raises(BadProject, match="entry point worker"):
        write_project(tmp_path, worker="cat {other}").command(project.WORKER, {"request": "x"})


REPORT = (
    "import importlib.util as u, json, os, sys; import tbd.worker; "
    "print(json.dumps([os.getcwd(), sys.executable, sys.argv[1], dict(os.environ), "
    '{m: bool(u.find_spec(m)) for m in ("mlflow", "hydra", "pytest", "psutil", "numpy", "pip", "tbd")}]))'
)


@pytest.fixture
def started(tiny, tmp_path, write_project, monkeypatch):
    """What a worker sees: working folder, interpreter, argument, variables, which modules it could import."""
    written, environment = tiny
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://user:password@server")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    (tmp_path / "report.py").write_text(REPORT)
    loaded = write_project(tmp_path / "project", worker=f"python {tmp_path}/report.py {{request}}")
    request = tmp_path / 'a "folder" with $spaces' / "request.json"
    process = project.start(environment, loaded, request, threads=2, log=tmp_path / "worker.log")
    assert process.wait(60) == 0, process.tail
    folder, python, argument, variables, modules = json.loads(process.tail[-1])
    assert argument == str(request)
    return folder, python, loaded, environment, variables, modules


def test_a_worker_runs_in_its_project_folder_with_its_environments_python(started):
    folder, python, loaded, environment, _, _ = started
    assert folder == str(loaded.folder)
    assert python == environment.python


def test_nothing_of_the_controllers_packages_leaks_into_a_worker(started):
    *_, modules = started
    assert {name for name, found in modules.items() if found} == {"pip", "tbd"}


def test_nothing_of_the_controllers_settings_leaks_into_a_worker(started):
    *_, variables, _ = started
    assert not [name for name in variables if name.startswith(("MLFLOW_", "AWS_"))]
    assert "secret" not in variables.values()
    assert variables["OMP_NUM_THREADS"] == "2"
