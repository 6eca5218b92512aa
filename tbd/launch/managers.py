"""The environment managers: what each runs to make one environment.

`interpreter`: `python -m venv` and pip with an interpreter that is at hand. `pyenv`: the same after `pyenv install`,
what MLflow calls virtualenv. `uv`; `conda` (conda, mamba or micromamba). `auto` takes the first of these that can. It
never takes uv while an interpreter is at hand: uv reads none of pip's configuration, so it may fetch other, larger
builds from other places than the user's pip does.
"""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from tbd.launch import interpreters
from tbd.launch.project import Project
from tbd.worker import status

AUTO, LOCAL = "auto", "local"
BUILDERS = ("interpreter", "pyenv", "uv", "conda")  # in the order in which `auto` tries them
NAMES = (AUTO, *BUILDERS, LOCAL)
SYNONYMS = {"virtualenv": "pyenv", "mamba": "conda", "micromamba": "conda"}

CONDA_PROGRAMS = ("conda", "mamba", "micromamba")
Step = tuple[str, list[str]]  # what it does, and the command


class EnvironmentFailed(status.Ended):
    """An environment can't be had. The message is the one-line cause, with the way out."""

    def __init__(self, cause: str):
        super().__init__(status.ENVIRONMENT_FAILED, cause)


def canonical(manager: str) -> str:
    """The manager's name here; raises EnvironmentFailed where there is none of that name."""
    name = SYNONYMS.get(manager, manager)
    if name not in NAMES:
        raise EnvironmentFailed(f"framework.env_manager={manager} is not one of {', '.join(NAMES)}")
    return name


def conda_program() -> str | None:
    """The conda, mamba or micromamba to use."""
    for variable in ("CONDA_EXE", "MAMBA_EXE"):
        if os.access(os.environ.get(variable, ""), os.X_OK):
            return os.environ[variable]
    return next(filter(None, map(shutil.which, CONDA_PROGRAMS)), None)


def missing(manager: str, project: Project) -> str | None:
    """Why `manager` can't build the project's environment here, with the way out; None where it can."""
    if not project.python:
        return f"{project.folder / 'MLproject'} has no python_env"
    if manager == "interpreter":
        found = list(interpreters.at_hand(project.python))
        if any(interpreter.complete for interpreter in found):
            return None
        if found:
            return f"{found[0].path} lacks the module ensurepip: apt-get install python{project.python}-venv"
        return f"no Python {project.python} on PATH or under pyenv: apt-get install python{project.python}-venv"
    if manager == "pyenv":
        return None if shutil.which("pyenv") else "no pyenv on PATH: github.com/pyenv/pyenv#installation"
    if manager == "uv":
        return None if shutil.which("uv") else "no uv on PATH: pip install uv"
    if not (project.folder / "conda.yaml").is_file():
        return f"{project.folder} has no conda.yaml"
    return None if conda_program() else "no conda, mamba or micromamba on PATH: conda-forge.org/download"


def choose(project: Project) -> str:
    """The first manager that can build the project's environment here; raises EnvironmentFailed where none can."""
    reasons = []
    for manager in BUILDERS:
        reason = missing(manager, project)
        if reason is None:
            return manager
        reasons.append(reason)
    raise EnvironmentFailed(f"nothing here can make a Python {project.python} environment: {'; '.join(reasons)}")


def steps(manager: str, project: Project, prefix: Path) -> Iterator[Step]:
    """The steps that make the project's environment in the folder `prefix`, which isn't there yet.

    A generator: what a later step needs, such as the interpreter that pyenv installs, is looked up after the earlier.
    """
    if reason := missing(manager, project):
        raise EnvironmentFailed(f"env_manager={manager}: {reason}")
    python = str(prefix / "bin" / "python")
    if manager == "conda":
        program = str(conda_program())
        # micromamba's `create` is what the others call `env create`; none may ask back
        create = ["create"] if Path(program).name == "micromamba" else ["env", "create"]
        yield (
            "conda env create",
            [program, *create, "--yes", "-p", str(prefix), "-f", str(project.folder / "conda.yaml")],
        )
    elif manager == "uv":
        yield "uv venv", ["uv", "venv", "--python", project.python, str(prefix)]
        for arguments in project.steps:
            yield "uv pip install", ["uv", "pip", "install", "--compile-bytecode", "--python", python, *arguments]
    else:
        if manager == "interpreter":
            base = next(found.path for found in interpreters.at_hand(project.python) if found.complete)
        else:
            if not interpreters.pyenv_versions(project.python):
                yield f"pyenv install {project.python}", ["pyenv", "install", "--skip-existing", project.python]
            base = interpreters.pyenv_versions(project.python)[0]
        yield "python -m venv", [str(base), "-m", "venv", str(prefix)]
        for arguments in project.steps:
            yield "pip install", [python, "-m", "pip", "install", *arguments]


NO_NETWORK = re.compile(
    r"name resolution|Name or service not known|Network is unreachable|No route to host|Failed to establish a new"
    r" connection|Connection refused|ConnectTimeout|Read timed out|dns error|CondaHTTPError|Could not resolve host"
)


def cause_of_failure(what: str, output: list[str], folder: Path) -> str:
    """One line that says why a step failed, from the end of its output."""
    text = "\n".join(output)
    if "No space left on device" in text:
        return f"{what}: the disk of {folder} is full: make room, or set TBD_HOME to a folder elsewhere"
    lines = [line.strip() for line in output if line.strip() and "[notice]" not in line]
    if "[end of output]" in lines:  # pip quotes the program that builds a package; what that said last is the cause
        lines = lines[: lines.index("[end of output]")]
    else:
        lines = [line for line in lines if re.match(r"error|fatal|conda\w*error|×", line, re.IGNORECASE)] or lines
    last = lines[-1] if lines else "it printed nothing"
    if NO_NETWORK.search(text):
        return f"{what}: the package index can't be reached (network, proxy?): {last}"
    return f"{what}: {last}"
