"""A server's whole content in a folder, and back: the database (runs, users, permissions) and every artifact.

backup.json        what it is of, and the sum of each file; written last: without it a backup is not whole
database.dump      PostgreSQL's own format (pg_dump --format=custom)
artifacts.jsonl    an object a line: key, size, SHA-256
objects/SHA-256    the objects' bytes, equal ones once
secrets.json       the administrator's password (0600), as the database knows it

The database comes first, so that every artifact of a run that is in it has been there for the listing.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tbd.server import Refused, mlflow_server, objects, postgresql, stack
from tbd.server.settings import Home, Settings
from tbd.tracking.artifacts import digest

SCHEMA = 1


def backup(home: Home, settings: Settings, target: Path) -> int:
    """Write the backup into the new folder `target`; gives the number of artifacts. The server may run meanwhile."""
    if target.exists():
        raise Refused(f"{target} is there already: name a new folder")
    for part in stack.parts(home, settings):
        if part.name != mlflow_server.NAME and (problem := part.problem()):
            raise Refused(f"{part.name} must run for a backup: {problem}")
    target.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))  # 0700
    try:
        postgres("pg_dump", home, "--format=custom", "--no-owner", "--no-privileges", f"--file={making}/database.dump")
        count = fetch(objects.client(home, settings), *objects.place(settings), making)
        password = os.open(making / "secrets.json", os.O_WRONLY | os.O_CREAT, 0o600)
        with os.fdopen(password, "w") as file:
            json.dump({"admin_password": home.secrets()["admin_password"]}, file)
        sums = {name: digest(making / name) for name in ("database.dump", "artifacts.jsonl", "secrets.json")}
        about = {"schema": SCHEMA, "time": time.time(), "mlflow": version("mlflow"), "artifacts": count, "sha256": sums}
        (making / "backup.json").write_text(json.dumps(about, indent=1) + "\n")
        making.rename(target)
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise
    return count


def restore(home: Home, settings: Settings, source: Path) -> int:
    """Make the server's content that of the backup; gives the number of artifacts. MLflow stands still meanwhile.

    Every sum is checked before anything is changed. The database changes whole or not at all.
    """
    entries = check(source)
    stack.stop(home, settings, {mlflow_server.NAME})
    others = {part.name for part in stack.parts(home, settings)} - {mlflow_server.NAME}
    stack.start(home, settings, others)
    mlflow_server.prepare(home, settings)
    s3, (bucket, prefix) = objects.client(home, settings), objects.place(settings)
    for entry in entries:
        s3.upload_file(str(source / "objects" / entry["sha256"]), bucket, prefix + entry["key"])
    options = ["--clean", "--if-exists", "--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error"]
    postgres("pg_restore", home, *options, f"--dbname={database(home)['dbname']}", str(source / "database.dump"))
    home.change_secrets(json.loads((source / "secrets.json").read_text()))
    stack.start(home, settings)
    return len(entries)


def check(source: Path) -> list[dict[str, Any]]:
    """The backup's artifacts, all of it being there and undamaged. Raises Refused."""
    try:
        about = json.loads((source / "backup.json").read_text())
    except (OSError, ValueError) as error:
        raise Refused(f"{source} is no whole backup: {error}") from error
    if about["schema"] != SCHEMA or about["mlflow"] != version("mlflow"):
        raise Refused(
            f"{source} is of MLflow {about['mlflow']}; this is {version('mlflow')}: restore it with the former"
        )
    lines = (source / "artifacts.jsonl").read_text().splitlines()
    entries: list[dict[str, Any]] = [json.loads(line) for line in lines]
    sums = about["sha256"] | {f"objects/{entry['sha256']}": entry["sha256"] for entry in entries}
    for name, wanted in sums.items():
        if not (source / name).is_file() or digest(source / name) != wanted:
            raise Refused(f"{source / name} is missing or damaged: nothing has been changed")
    return entries


def fetch(s3: Any, bucket: str, prefix: str, target: Path) -> int:
    """Every object below the prefix into the backup; gives how many."""
    (target / "objects").mkdir()
    count = 0
    with (target / "artifacts.jsonl").open("w") as listing:
        for key in objects.keys(s3, bucket, prefix):
            coming = target / "coming"
            s3.download_file(bucket, key, str(coming))
            entry = {"key": key.removeprefix(prefix), "size": coming.stat().st_size, "sha256": digest(coming)}
            coming.rename(target / "objects" / str(entry["sha256"]))
            listing.write(json.dumps(entry) + "\n")
            count += 1
    return count


def database(home: Home) -> dict[str, str]:
    """How the database is reached, in libpq's words."""
    from psycopg.conninfo import conninfo_to_dict

    return {name: str(value) for name, value in conninfo_to_dict(postgresql.uri(home)).items()}


def postgres(program: str, home: Home, *arguments: str) -> None:
    """Call one of PostgreSQL's programs on the database. By variables: others may read command lines."""
    special = {"dbname": "PGDATABASE"}
    given = {special.get(name, f"PG{name.upper()}"): value for name, value in database(home).items()}
    called = subprocess.run(
        [str(postgresql.program(program)), *arguments], env=os.environ | given, capture_output=True, text=True
    )
    if called.returncode:
        raise Refused(f"{program} failed: {called.stderr.strip()}")
