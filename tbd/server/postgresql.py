"""A PostgreSQL of the server's own: reached by a socket within its folder, by password, by nobody else."""

import functools
import shutil
import signal
from pathlib import Path

import psutil

from tbd.server import Refused, accounts
from tbd.server.processes import Part
from tbd.server.settings import DATABASE_VARIABLE, Home

NAME = "postgresql"
OWNER = "postgres"  # the cluster's superuser, for nothing but making the database
USER = "tbd"
DATABASE = "tbd"
PORT = 5432  # names the socket's file; no network port is opened
SOCKET_LIMIT = 107  # bytes in a socket's path: sun_path of unix(7)
CONNECTIONS = 200  # each of MLflow's workers has two pools of up to 15


def program(name: str) -> Path:
    """A program of the newest PostgreSQL here, where Debian has them or on PATH. Raises Refused."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    found = shutil.which(name, path=str(versions[-1])) if versions else shutil.which(name)
    if found is None:
        raise Refused(
            f"PostgreSQL's {name} is not here: `apt-get install postgresql`, or name a database that runs elsewhere: "
            f"{DATABASE_VARIABLE}=postgresql://USER:PASSWORD@HOST/DATABASE"
        )
    return Path(found)


def uri(home: Home) -> str:
    """Of the database that is given, else of the server's own."""
    known = home.secrets()
    if known.get("database_uri"):
        return known["database_uri"]
    return f"postgresql://{USER}:{known['database_password']}@/{DATABASE}?host={folder(home)}&port={PORT}"


def folder(home: Home) -> Path:
    return home.part(NAME)


def part(home: Home) -> Part:
    # the socket's folder is private: no other account of this machine gets as far as the password
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(folder(home)),
        "unix_socket_permissions": "0700",
        "port": str(PORT),
        "max_connections": str(CONNECTIONS),
        "password_encryption": "scram-sha-256",
        "log_checkpoints": "off",  # every five minutes of a log that nobody turns over
    }
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return Part(
        NAME,
        (str(program("postgres")), "-D", str(folder(home) / "data"), *options),
        {"HOME": str(home.path)},
        functools.partial(create, home),
        functools.partial(problem, home),
        signal.SIGINT,  # ends the connections and writes all down: "fast shutdown"
        ours=False,
    )


def create(home: Home) -> None:
    """The cluster, its one user and its one database, where they are not there yet."""
    data = folder(home) / "data"
    if data.exists():
        forget_dead(home)
        return
    if len(f"{folder(home)}/.s.PGSQL.{PORT}") > SOCKET_LIMIT:
        raise Refused(f"{home.path} is too long for the path of a socket ({SOCKET_LIMIT} bytes): name another --folder")
    accounts.private_folder(folder(home), home.account)
    making = folder(home) / "making"
    shutil.rmtree(making, ignore_errors=True)  # of a start that was interrupted
    known = home.secrets()
    password = home.write(f"{NAME}/owner_password", known["database_owner_password"])
    ways = ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--data-checksums"]
    called = accounts.run(
        [str(program("initdb")), f"--username={OWNER}", f"--pwfile={password}", *ways, f"--pgdata={making}"],
        home.account,
    )
    password.unlink()
    if called.returncode:
        raise Refused(f"initdb failed: {called.stderr.strip()}")
    statements = [
        f"CREATE ROLE {USER} LOGIN PASSWORD '{known['database_password']}'",
        f"CREATE DATABASE {DATABASE} OWNER {USER}",
        f"REVOKE ALL ON DATABASE {DATABASE} FROM PUBLIC",
    ]
    # single-user mode: before anybody can connect; a line is a statement
    called = accounts.run(
        [str(program("postgres")), "--single", "-j", "-D", str(making), OWNER],
        home.account,
        input="".join(f"{statement};\n\n" for statement in statements),
    )
    if called.returncode or "ERROR" in called.stderr:
        raise Refused(f"PostgreSQL did not make the database: {called.stderr.strip()}")
    making.rename(data)


def forget_dead(home: Home) -> None:
    """Remove the locks of a PostgreSQL that was killed.

    PostgreSQL takes any process of its account for a living PostgreSQL that has the id which a lock names: one that
    nobody has reaped (a container's first process may not do so), or after a power cut one of another part, as ids
    are given out alike at each boot. All of its processes work in the data's folder: the locks go only where none does.
    """
    data = folder(home) / "data"
    if any(process.info["cwd"] == str(data) for process in psutil.process_iter(["cwd"])):
        return
    for lock in (data / "postmaster.pid", folder(home) / f".s.PGSQL.{PORT}.lock"):
        lock.unlink(missing_ok=True)


def problem(home: Home) -> str | None:
    """Why the database doesn't answer; None where it does."""
    import psycopg

    try:
        with psycopg.connect(uri(home), connect_timeout=3) as connection:
            connection.execute("select 1")
    except psycopg.Error as error:
        return str(error).strip().replace("\n", " ") or type(error).__name__
    return None
