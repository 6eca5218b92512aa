"""python -m tbd.serve: the shared server, MLflow on PostgreSQL and S3. docs/server.md tells all of it."""

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tbd.server import Refused

if TYPE_CHECKING:
    from tbd.server.settings import Home, Settings

EXIT_OK = 0
EXIT_NOT_SERVING = 1
EXIT_REFUSED = 2
PARTS = ("postgresql", "seaweedfs", "mlflow")


def main(arguments: list[str] | None = None) -> int:
    """Gives the exit code: 0 done, 1 something doesn't serve (status), 2 what was asked for can't be done."""
    options = parser().parse_args(arguments)

    from tbd.server.settings import Home, default_folder

    try:
        return ACTIONS[options.action](Home(options.folder or default_folder()), options)
    except Refused as error:
        print(f"tbd.serve: {error}", file=sys.stderr)
        return EXIT_REFUSED


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m tbd.serve", description=__doc__)
    top.add_argument("--folder", type=Path, help="where the server lives (TBD_SERVER_FOLDER; root: /var/lib/tbd)")
    actions = top.add_subparsers(dest="action", metavar="ACTION")
    top.set_defaults(action="start", **dict.fromkeys(STARTING))

    starting = argparse.ArgumentParser(add_help=False)
    starting.add_argument("--host", help="address to listen on (127.0.0.1: this machine alone)")
    starting.add_argument("--port", type=int, help="(5000)")
    starting.add_argument("--name", action="append", dest="names", help="by which clients reach it; may be repeated")
    starting.add_argument("--workers", type=int, help="MLflow's processes (2)")
    starting.add_argument("--tls-certificate", metavar="FILE", help="with --tls-key: MLflow itself speaks TLS")
    starting.add_argument("--tls-key", metavar="FILE")
    starting.add_argument("--tls-in-front", action="store_const", const=True, help="a proxy of yours encrypts")
    starting.add_argument(
        "--s3", metavar="s3://BUCKET/PREFIX", help="an S3 that is there (credentials: AWS's own ways)"
    )
    starting.add_argument("--s3-endpoint", metavar="URL", help="where that isn't Amazon's")
    starting.add_argument("--s3-region", metavar="REGION")

    actions.add_parser("start", parents=[starting], help="start what doesn't run yet; the options are kept")
    actions.add_parser("configure", parents=[starting], help="only keep the options, for later starts")
    running = actions.add_parser(
        "run", parents=[starting], help="one part in the foreground, for systemd and containers"
    )
    running.add_argument("part", choices=PARTS)
    actions.add_parser("stop", help="end it")
    status = actions.add_parser("status", help="whether each part serves")
    status.add_argument("--json", action="store_true", help="the same for programs")
    for name, text in (("backup", "all runs, users and artifacts into a new folder"), ("restore", "them back")):
        actions.add_parser(name, help=text).add_argument("path", type=Path, metavar="FOLDER")
    administration(actions.add_parser("user", help="who may log in, and see or change which experiment"), USER)
    administration(actions.add_parser("role", help="permissions that several users have"), ROLE)
    return top


def administration(parser: argparse.ArgumentParser, table: dict[str, tuple[str, str]]) -> None:
    """The actions of a table: name -> (its arguments, what it does)."""
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (words, text) in table.items():
        command = commands.add_parser(name, help=text, description=text)
        for word in words.split():
            if word.startswith("--"):
                command.add_argument(word, action="store_true", help=FLAGS[word])
            else:
                command.add_argument(word, choices=("read", "edit", "manage") if word == "level" else None)


STARTING = (
    "host", "port", "names", "workers", "tls_certificate", "tls_key", "tls_in_front", "s3", "s3_endpoint", "s3_region"
)  # fmt: skip
FLAGS = {
    "--admin": "may do everything",
    "--password-stdin": "read the password from standard input; else one is made and printed",
}
USER = {
    "add": ("name --admin --password-stdin", "a new user"),
    "remove": ("name", "a user; the runs stay"),
    "password": ("name --password-stdin", "a new password"),
    "list": ("", "all users, with their roles"),
    "allow": ("name level experiment", "let the user read, edit or manage an experiment (made where it isn't there)"),
    "forbid": ("name experiment", "take that back"),
}
ROLE = {
    "add": ("role", "a new role"),
    "remove": ("role", "a role"),
    "list": ("", "all roles, with what they allow"),
    "allow": ("role level experiment", "let all who have the role read, edit or manage an experiment, or '*'"),
    "give": ("role name", "the role to a user"),
    "take": ("role name", "the role from a user"),
}


def start(home: "Home", options: argparse.Namespace) -> int:
    from tbd.server import accounts, mlflow_server, postgresql, stack

    began = time.monotonic()
    before, settings = stack.configure(home, given(options))
    if before not in (None, settings):
        stack.stop(home, before, {mlflow_server.NAME})
    started = stack.start(home, settings)
    took = f"started {', '.join(started)} in {time.monotonic() - began:.1f} s" if started else "it ran already"
    database = "the given one" if home.secrets().get("database_uri") else str(postgresql.folder(home))
    print(f"{settings.url} serves ({took})")
    print(f"database: {database}; artifacts: {mlflow_server.artifacts(settings)}")
    print(f"administrator: admin; the password is admin_password in {home.path / 'secrets.json'}")
    print("users: python -m tbd.serve user add NAME")
    if home.account and not accounts.reaches(home.account):
        print(
            f"warning: {home.account.name}, as whom it runs, may read every file here, as this checkout or its Python "
            "lies closed to others: move them (to /opt, say)",
            file=sys.stderr,
        )
    return EXIT_OK


def configure(home: "Home", options: argparse.Namespace) -> int:
    from tbd.server import stack

    stack.configure(home, given(options))
    print(f"kept in {home.path / 'settings.json'}")
    return EXIT_OK


def run(home: "Home", options: argparse.Namespace) -> int:
    from tbd.server import processes, stack

    _, settings = stack.configure(home, given(options))
    part = next((part for part in stack.parts(home, settings) if part.name == options.part), None)
    if part is None:
        raise Refused(f"{options.part} is given from elsewhere: there is nothing to run")
    part.prepare()
    processes.run(home, part)
    return EXIT_OK


def given(options: argparse.Namespace) -> dict[str, Any]:
    """The settings that the command line names."""
    named = {name: getattr(options, name) for name in STARTING if getattr(options, name) is not None}
    return {name: tuple(value) if name == "names" else value for name, value in named.items()}


def known(home: "Home") -> "Settings":
    settings = home.settings()
    if settings is None:
        raise Refused(f"there is no server in {home.path}: `python -m tbd.serve` makes one; --folder names another")
    return settings


def stop(home: "Home", options: argparse.Namespace) -> int:
    from tbd.server import stack

    ended = stack.stop(home, known(home))
    print(f"stopped {', '.join(ended)}" if ended else "nothing ran")
    return EXIT_OK


def status(home: "Home", options: argparse.Namespace) -> int:
    from tbd.server import stack

    states = list(stack.states(home, known(home)))
    if options.json:
        print(json.dumps([dataclasses.asdict(state) for state in states], indent=1))
    else:
        for state in states:
            process = f" (pid {state.pid})" if state.pid else ""
            print(f"{state.name}: {'serves' if state.problem is None else state.problem}{process}")
    return EXIT_NOT_SERVING if any(state.problem for state in states) else EXIT_OK


def backup(home: "Home", options: argparse.Namespace) -> int:
    from tbd.server import backup

    count = backup.backup(home, known(home), options.path)
    print(f"the database and {count} artifacts are in {options.path}")
    return EXIT_OK


def restore(home: "Home", options: argparse.Namespace) -> int:
    from tbd.server import backup

    count = backup.restore(home, known(home), options.path)
    print(f"the database and {count} artifacts are back; {known(home).url} serves")
    return EXIT_OK


def user(home: "Home", options: argparse.Namespace) -> int:
    from tbd.server.users import Users

    users = Users.of(home, known(home))
    given = sys.stdin.readline().rstrip("\n") if getattr(options, "password_stdin", False) else None
    match options.command:
        case "add" | "password":
            change = users.add if options.command == "add" else users.change_password
            extra = {"admin": True} if getattr(options, "admin", False) else {}
            password = change(options.name, given, **extra)
            print(f"{options.name} can log in" if given else f"{options.name}'s password, shown once: {password}")
        case "remove":
            users.remove(options.name)
        case "allow":
            users.allow(options.name, options.level, options.experiment)
        case "forbid":
            users.forbid(options.name, options.experiment)
        case "list":
            for name, admin, roles in users.names():
                print(name + (" (administrator)" if admin else "") + (f": {', '.join(roles)}" if roles else ""))
    return EXIT_OK


def role(home: "Home", options: argparse.Namespace) -> int:
    from tbd.server.users import Users

    users = Users.of(home, known(home))
    match options.command:
        case "add":
            users.add_role(options.role)
        case "remove":
            users.remove_role(options.role)
        case "allow":
            users.allow_role(options.role, options.level, options.experiment)
        case "give":
            users.give_role(options.role, options.name)
        case "take":
            users.take_role(options.role, options.name)
        case "list":
            for name, permissions in users.roles():
                print(f"{name}: {', '.join(permissions) or 'nothing'}")
    return EXIT_OK


ACTIONS = {
    "start": start,
    "configure": configure,
    "run": run,
    "stop": stop,
    "status": status,
    "backup": backup,
    "restore": restore,
    "user": user,
    "role": role,
}

if __name__ == "__main__":
    sys.exit(main())
