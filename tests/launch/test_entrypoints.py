"""The top-level MLproject: `mlflow run . -e train -P overrides="..."` reaches the commands, word by word."""

import subprocess
import sys

import pytest
import yaml
from mlflow.projects.utils import load_project

from tbd.launch.files import PACKAGE, project_file
from tests.launch.conftest import own_variables

ROOT = PACKAGE.parent
# Stands in for the modules of the commands: shows the words that reach main()
SHOW = """
import sys, types
module = sys.modules["tbd.{name}"] = types.ModuleType("tbd.{name}")
module.main = lambda words: print(words)
"""


def run_entry_point(tmp_path, name: str, parameters: dict[str, str]) -> subprocess.CompletedProcess:
    """Run an entry point's own shell command, the command behind it replaced by one that shows its words."""
    command = load_project(str(ROOT)).get_entry_point(name).compute_command(parameters, None)
    assert command.startswith("python entrypoints/")
    (tmp_path / "sitecustomize.py").write_text(SHOW.format(name=name))
    variables = own_variables()
    variables["PYTHONPATH"] = str(tmp_path)
    variables["PATH"] = f"{tmp_path}:{variables['PATH']}"
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tmp_path / "python").chmod(0o755)
    return subprocess.run(["bash", "-c", command], cwd=ROOT, env=variables, capture_output=True, text=True)


@pytest.mark.parametrize("name, parameter", [("train", "overrides"), ("sync", "options")])
@pytest.mark.parametrize(
    "value, words",
    [
        ("", []),
        ("model=resnet50 framework=pytorch", ["model=resnet50", "framework=pytorch"]),
        ("-m batch_size=8,16", ["-m", "batch_size=8,16"]),
        ("--cfg job", ["--cfg", "job"]),
        ("data.root='/a folder/$HOME;x' 'k=\"v\"'", ["data.root=/a folder/$HOME;x", 'k="v"']),
    ],
)
def test_the_words_arrive_as_they_were_quoted(tmp_path, name, parameter, value, words):
    done = run_entry_point(tmp_path, name, {parameter: value})
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(words)


def test_without_the_parameter_there_are_no_words(tmp_path):
    assert run_entry_point(tmp_path, "train", {}).stdout.strip() == "[]"
    assert run_entry_point(tmp_path, "doctor", {}).stdout.strip() == "[]"


def test_an_unclosed_quote_is_one_line_and_wrong_usage(tmp_path):
    done = run_entry_point(tmp_path, "train", {"overrides": "model='resnet50"})
    assert done.returncode == 2
    assert "No closing quotation" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_conda_and_python_env_install_the_same_lock():
    conda = yaml.safe_load((ROOT / "conda.yaml").read_text())
    python = yaml.safe_load((ROOT / "python_env.yaml").read_text())
    assert conda["dependencies"][-1] == {"pip": python["dependencies"]}
    assert conda["dependencies"][0].partition("=")[2] == ".".join(python["python"].split(".")[:2])
    assert (ROOT / "requirements.lock").is_file()


def test_every_entry_point_has_its_file():
    for name in ("train", "sync", "doctor"):
        assert project_file("entrypoints", f"{name}.py").is_file()
