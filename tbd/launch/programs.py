"""The programs that data sources run in environments of their own, such as emulators (tbd/data/__init__.py)."""

from typing import Any

from tbd import data
from tbd.launch import environments, managers
from tbd.launch.files import project_file
from tbd.launch.project import VERIFY, load


def provide(options: dict[str, Any], progress: environments.Progress = print) -> dict[str, Any]:
    """The data's `options` with the interpreter and the program that the source runs, where it does.

    Builds the environment where it isn't there yet; an interpreter that the user names is taken as it is, once it has
    been seen to work. Raises EnvironmentFailed.
    """
    project = data.SOURCES[options["name"]].project
    if project is None:
        return options
    found = load(project_file("entrypoints", "data", project), entry_points=(VERIFY,))
    manager = managers.LOCAL if options["python"] else managers.AUTO
    environment = environments.ensure(found, manager, options["python"], progress)
    program = options["program"] or str(found.folder / "play.py")
    return {**options, "python": environment.python, "program": program}
