"""A framework's project folder: MLproject (MLflow Projects' format), python_env.yaml and the files that these name.

The commands come from MLproject, read by MLflow itself, so whoever has a folder with an MLproject has a framework. But
`mlflow.projects.run` doesn't run them: it needs a tracking store (tracking=offline must do without), marks the run
FINISHED itself whatever the worker's end was, and waits where no signal can be handled; and it trusts an environment as
soon as its folder exists.
"""

import hashlib
import platform
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tbd.launch.files import framework_names, project_file
from tbd.launch.process import Process
from tbd.launch.variables import gpu_variables, import_folder, worker_variables
from tbd.worker import status

if TYPE_CHECKING:
    from tbd.launch.environments import Environment

WORKER = "worker"  # MLproject's entry point that trains: parameter `request`
REQUEST = "TBD_REQUEST"  # stands for the path in a command that is kept; no shell quotes it
VERIFY = "verify"  # the one that imports the framework and prints its version, before an environment is trusted


class BadProject(status.Ended):
    """The project folder can't be used. The message names the file and what is wrong."""

    def __init__(self, cause: str):
        super().__init__(status.BAD_CONFIG, cause)


@dataclass(frozen=True)
class Project:
    """One framework's project folder."""

    folder: Path
    name: str
    python: str  # the version wanted, such as "3.11"; "" where only an interpreter that the user names can do
    steps: list[list[str]] = field(default_factory=list)  # arguments of `pip install`, one call after the other
    trains: bool = True  # whether it has the entry point `worker`

    @cached_property
    def digest(self) -> str:
        """Of what decides an environment's content: its files, and the kind of machine (caches may be shared)."""
        sha = hashlib.sha256(f"{platform.system()} {platform.machine()} {self.python} {self.steps}".encode())
        for name in ["conda.yaml", *self.requirement_files]:
            path = self.folder / name
            sha.update(path.read_bytes() if path.exists() else b"")
        return sha.hexdigest()[:12]

    @property
    def requirement_files(self) -> list[str]:
        """The files that python_env.yaml installs with -r."""
        return [value for step in self.steps for option, value in zip(step, step[1:], strict=False) if option == "-r"]

    @cached_property
    def mlproject_digest(self) -> str:
        """What a command composed from MLproject stays true for."""
        return hashlib.sha256((self.folder / "MLproject").read_bytes()).hexdigest()

    def worker_template(self) -> str:
        """The worker's shell command, with REQUEST where the path of the request goes; "" where it has no worker."""
        return self.command(WORKER, {"request": REQUEST}) if self.trains else ""

    def command(self, entry_point: str, parameters: dict[str, str] | None = None) -> str:
        """The shell command of an entry point with its parameters, each quoted as one word."""
        # 2 s, and whole before its parts: a thread may be importing it at the same moment
        import mlflow  # noqa: F401
        from mlflow.exceptions import MlflowException
        from mlflow.projects.utils import load_project

        try:
            return str(load_project(str(self.folder)).get_entry_point(entry_point).compute_command(parameters, None))
        except (MlflowException, KeyError, IndexError, AttributeError, TypeError) as error:
            raise BadProject(f"{self.folder / 'MLproject'}, entry point {entry_point}: {error}") from error


def load(project: str | Path, entry_points: Sequence[str] = (WORKER, VERIFY)) -> Project:
    """The project of one of tbd's own frameworks, by name, or in any folder with an MLproject.

    Raises BadProject, for one without these `entry_points` too. Reads small files only, for it is done at every start.
    """
    folder = Path(project).expanduser()
    if isinstance(project, str) and "/" not in project:
        folder = project_file("entrypoints", "frameworks", project)
        if not folder.is_dir():
            raise BadProject(f"framework={project}: no project of that name; here are {', '.join(framework_names())}")
    folder = folder.resolve()
    if not (folder / "MLproject").is_file():
        raise BadProject(f"framework.project={project}: no file MLproject in that folder")
    content = read_yaml(folder / "MLproject")
    for entry_point in entry_points:
        if entry_point not in (content.get("entry_points") or {}):
            raise BadProject(f"{folder / 'MLproject'}: no entry point {entry_point}")
    name = str(content.get("name") or folder.name).removeprefix("tbd-")
    if "python_env" not in content:
        return Project(folder, name, python="", trains=WORKER in entry_points)
    environment_file = folder / str(content["python_env"])
    wanted = read_yaml(environment_file)
    if not isinstance(wanted.get("python"), str):
        raise BadProject(f'{environment_file}: no `python: "3.11"` or the like, quoted')
    groups = [wanted.get("build_dependencies") or [], wanted.get("dependencies") or []]
    steps = [[word for line in group for word in shlex.split(str(line))] for group in groups if group]
    loaded = Project(folder, name, wanted["python"], steps, trains=WORKER in entry_points)
    for file in loaded.requirement_files:
        if not (folder / file).is_file():
            raise BadProject(f"{environment_file}: {file} isn't there")
    return loaded


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; raises BadProject where there is none."""
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise BadProject(f"{path}: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise BadProject(f"{path}: not a mapping of keys")
    return content


def command_in(environment: "Environment", project: Project) -> str:
    """The worker's shell command in the environment, with REQUEST where the path of the request goes."""
    known = environment.mlproject_digest == project.mlproject_digest
    return environment.worker_template if known else project.worker_template()


def start(
    environment: "Environment", project: Project, request: Path, threads: int, log: Path, gpus: str | None = None
) -> Process:
    """Start the project's worker on the request in the environment; its output goes to `log`.

    `gpus`: of a run on GPUs those that it may see, as CUDA_VISIBLE_DEVICES names them.
    The working folder is the project's, as MLflow has it. Raises BadProject, or OSError where nothing can be started.
    """
    command = command_in(environment, project).replace(REQUEST, shlex.quote(str(request.resolve())))
    variables = worker_variables(Path(environment.binaries), import_folder(environment.home), threads)
    if gpus is not None:
        variables.update(gpu_variables(gpus))
    return Process(["bash", "-c", command], project.folder, variables, log)
