"""An environment is built once, verified before it is trusted, and never half-built, whoever builds it how often."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import uv

from tbd.launch import environments, interpreters, managers
from tbd.launch.environments import MARKER, ensure, find
from tbd.launch.managers import EnvironmentFailed, cause_of_failure
from tbd.worker import status
from tests.launch.conftest import eventually, own_variables

# Installs the project's own package/, with nothing from a network; its build waits where the file `hang` is
OWN_PACKAGE = ("--no-index ./package",)


@pytest.fixture
def silent():
    return lambda line: None


def environments_in(home: Path) -> list[Path]:
    return sorted(path for path in (home / "environments").iterdir() if path.is_dir())


def test_a_built_environment_says_what_it_is(tiny):
    written, environment = tiny
    assert environment.name == "tiny"
    assert environment.manager == "interpreter"
    assert environment.framework_version == json.__version__
    assert environment.python_version.startswith("3.11.")
    assert environment.lock_path.read_text().startswith(f"# tiny, Python {environment.python_version}\npip==")
    seen = subprocess.check_output([environment.python, "-c", "import sys; print(sys.prefix)"], text=True)
    assert seen.strip() == str(Path(environment.binaries).parent)


def test_what_is_there_is_used_without_building(tiny, monkeypatch):
    written, environment = tiny
    monkeypatch.setenv("TBD_HOME", str(environment.home))
    monkeypatch.setattr(environments, "build", None)
    lines: list[str] = []
    assert ensure(written, progress=lines.append) == environment
    assert ensure(written, "interpreter", progress=lines.append) == environment
    assert lines == []


@pytest.mark.parametrize("content", ["", "{", "[]", '{"name": "tiny"}'])
def test_a_marker_that_is_not_whole_is_not_trusted(tiny, home, content):
    written, environment = tiny
    shutil.copytree(environment.folder, home / "environments" / Path(environment.folder).name, symlinks=True)
    assert find(written) is not None
    (home / "environments" / Path(environment.folder).name / MARKER).write_text(content)
    assert find(written) is None


def test_an_environment_whose_python_is_gone_is_not_trusted(tiny, home):
    written, environment = tiny
    folder = home / "environments" / Path(environment.folder).name
    folder.mkdir(parents=True)
    marker = json.loads((Path(environment.folder) / MARKER).read_text())
    (folder / MARKER).write_text(json.dumps({**marker, "python": str(home / "removed")}))
    assert find(written) is None


def test_an_environment_that_does_not_import_its_framework_is_not_trusted(tmp_path, home, write_project, silent):
    broken = write_project(tmp_path / "project", verify="python -c 'import no_such_framework'")
    with pytest.raises(EnvironmentFailed, match="ModuleNotFoundError: No module named 'no_such_framework'") as caught:
        ensure(broken, progress=silent)
    assert caught.value.status == status.ENVIRONMENT_FAILED
    assert "\n" not in caught.value.cause
    assert find(broken) is None
    mended = write_project(tmp_path / "project")
    assert ensure(mended, progress=silent) == find(mended)


def test_a_package_that_is_not_to_be_had_is_named(tmp_path, home, write_project, silent):
    wanting = write_project(tmp_path / "project", dependencies=("--no-index no-such-package==9",))
    with pytest.raises(EnvironmentFailed, match="pip install: .*no-such-package==9.*build.log"):
        ensure(wanting, progress=silent)
    assert find(wanting) is None
    (folder,) = environments_in(home)
    assert [path.name for path in folder.iterdir()] == ["build.log"]


def test_no_interpreter_of_the_version_is_one_line_that_says_what_to_install(
    tmp_path, home, write_project, monkeypatch, silent
):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    for variable in ("CONDA_EXE", "MAMBA_EXE"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(EnvironmentFailed) as caught:
        ensure(write_project(tmp_path / "project", python="3.2"), progress=silent)
    for part in ("Python 3.2", "apt-get install python3.2-venv", "pyenv", "uv", "conda.yaml"):
        assert part in caught.value.cause
    assert "\n" not in caught.value.cause


@pytest.mark.parametrize("manager", ["poetry", "docker"])
def test_an_unknown_manager_is_told_which_there_are(tmp_path, home, write_project, manager):
    with pytest.raises(EnvironmentFailed, match=f"{manager} is not one of auto, interpreter, pyenv, uv, conda, local"):
        ensure(write_project(tmp_path / "project"), manager)


def test_a_home_that_cannot_be_written_is_named(tmp_path, monkeypatch, write_project, silent):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TBD_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(EnvironmentFailed, match="TBD_HOME"):
        ensure(write_project(tmp_path / "project"), progress=silent)


BUILDER = """
import json, sys
from dataclasses import asdict
from tbd.launch.environments import ensure
print(json.dumps(asdict(ensure(sys.argv[1] + "/", progress=lambda line: print(line, flush=True)))))
"""


class Builder:
    """Another process that ensures a project's environment."""

    def __init__(self, folder: Path, output: Path):
        self.output = output
        with open(output, "w") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-c", BUILDER, str(folder)], stdout=file, stderr=file, env=own_variables()
            )

    def said(self, text: str) -> bool:
        return text in self.output.read_text()

    def environment(self) -> dict:
        assert self.process.wait(120) == 0, self.output.read_text()
        return json.loads(self.output.read_text().splitlines()[-1])


def test_two_runs_that_need_the_same_environment_build_it_once(tmp_path, home, write_project):
    folder = write_project(tmp_path / "project", dependencies=OWN_PACKAGE).folder
    (folder / "hang").touch()
    first = Builder(folder, tmp_path / "first")
    eventually((folder / "started").exists, "the first builds")
    second = Builder(folder, tmp_path / "second")
    eventually(lambda: second.said("another run is building it, waiting"), "the second waits")
    (folder / "go").touch()
    assert first.environment() == second.environment()
    assert not second.said("pip install")
    assert len(environments_in(home)) == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_build_that_was_cut_off_is_not_trusted_and_the_next_one_succeeds(
    tmp_path, home, write_project, number, silent
):
    project = write_project(tmp_path / "project", dependencies=OWN_PACKAGE)
    (project.folder / "hang").touch()
    builder = Builder(project.folder, tmp_path / "builder")
    eventually((project.folder / "started").exists, "pip builds the package")
    builder.process.send_signal(number)
    assert builder.process.wait(60) != 0
    assert find(project) is None
    (project.folder / "hang").unlink()
    environment = ensure(project, progress=silent)
    assert "tinypackage==1.5" in environment.lock_path.read_text()
    prefixes = [path for path in Path(environment.folder).iterdir() if path.name.startswith("env-")]
    assert prefixes == [Path(environment.binaries).parent]


def program(folder: Path, name: str, script: str) -> None:
    """A command of that name in the folder, which is to be on PATH."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/bash\n{script}\n")
    (folder / name).chmod(0o755)


def base_python() -> str:
    return str(next(interpreters.at_hand("3.11")).path)


def test_uv_builds_when_it_is_asked_to(tmp_path, home, write_project, monkeypatch, silent):
    program(tmp_path / "bin", "uv", f'exec {uv.find_uv_bin()} --offline "$@"')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    environment = ensure(write_project(tmp_path / "project"), "uv", progress=silent)
    assert environment.manager == "uv"
    assert environment.framework_version == json.__version__


def test_auto_leaves_uv_alone_while_an_interpreter_is_at_hand(tmp_path, write_project, monkeypatch):
    program(tmp_path / "bin", "uv", "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    assert managers.choose(write_project(tmp_path / "project")) == "interpreter"


def test_pyenv_installs_the_interpreter_where_it_is_missing(tmp_path, home, write_project, monkeypatch, silent):
    root = tmp_path / "pyenv"
    made = f"{root}/versions/3.11.99/bin"
    python = f'#!/bin/sh\nexec {base_python()} "$@"'
    script = f"""[ "$*" = "install --skip-existing 3.11" ] || exit 1
mkdir -p {made}; printf '%s\n' '{python}' > {made}/python; chmod +x {made}/python"""
    program(tmp_path / "bin", "pyenv", script)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setenv("PYENV_ROOT", str(root))
    environment = ensure(write_project(tmp_path / "project"), "virtualenv", progress=silent)
    assert environment.manager == "pyenv"
    assert Path(made, "python").exists()


@pytest.mark.parametrize("name, create", [("conda", "env create"), ("micromamba", "create")])
def test_conda_gets_the_projects_conda_yaml(tmp_path, home, write_project, monkeypatch, silent, name, create):
    program(
        tmp_path / "bin",
        name,
        f'echo "$@" > {tmp_path}/called; exec {base_python()} -m venv --without-pip "${{@: -3:1}}"',
    )
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setattr(managers, "CONDA_PROGRAMS", (name,))
    project = write_project(tmp_path / "project")
    (project.folder / "conda.yaml").write_text("dependencies: [python=3.11]\n")
    environment = ensure(project, "conda", progress=silent)
    prefix = Path(environment.binaries).parent
    assert (tmp_path / "called").read_text().strip() == f"{create} --yes -p {prefix} -f {project.folder}/conda.yaml"


def test_local_is_the_interpreter_that_the_user_names(tiny, home, silent):
    written, other = tiny
    environment = ensure(written, "local", other.python, progress=silent)
    assert environment.python == other.python
    seen = subprocess.check_output([f"{environment.binaries}/python", "-c", "import sys; print(sys.prefix)"], text=True)
    assert seen.strip() == str(Path(other.binaries).parent)
    assert find(written, "local", other.python) == environment


def test_local_is_verified_again_after_its_packages_changed(tiny, home, silent):
    written, other = tiny
    ensure(written, "local", other.python, progress=silent)
    packages = next(Path(other.binaries).parent.glob("lib/python3*/site-packages"))
    os.utime(packages, ns=(0, packages.stat().st_mtime_ns + 1))
    assert find(written, "local", other.python) is None


@pytest.mark.parametrize("python", [None, "python3", "/no/such/python", "/etc/passwd", "/"])
def test_local_needs_an_interpreter(tiny, home, python):
    with pytest.raises(EnvironmentFailed, match="framework.python"):
        ensure(tiny[0], "local", python)


def test_an_interpreter_is_for_local_only(tiny, home):
    with pytest.raises(EnvironmentFailed, match="is for framework.env_manager=local"):
        ensure(tiny[0], "auto", sys.executable)


@pytest.mark.parametrize(
    "output, cause",
    [
        (["Collecting x", "ERROR: [Errno 28] No space left on device"], "the disk of /cache is full"),
        (["WARNING: Retrying: Temporary failure in name resolution", "ERROR: No matching distribution"], "network"),
        (["ERROR: first", "ERROR: ResolutionImpossible: see", "", "[notice] new pip"], "ERROR: ResolutionImpossible"),
        (["some compiler said no", ""], "some compiler said no"),
        (["  × did not run", "  no such header", "  [end of output]", "error: metadata failed"], "no such header"),
        ([], "it printed nothing"),
    ],
)
def test_the_cause_of_a_failed_step_is_one_line(output, cause):
    line = cause_of_failure("pip install", output, Path("/cache"))
    assert cause in line and line.startswith("pip install: ") and "\n" not in line


def test_versions_are_compared_by_their_parts():
    assert interpreters.is_version("3.11.7", "3.11")
    assert interpreters.is_version("3.11.7", "3.11.7")
    assert not interpreters.is_version("3.11.7", "3.1")
    assert not interpreters.is_version("3.11.7", "3.11.8")


def test_an_interpreter_within_an_environment_stands_for_the_one_below_it(tiny):
    found = interpreters.probe(Path(tiny[1].python))
    assert found is not None and found.complete
    assert not found.path.is_relative_to(Path(tiny[1].folder))
