"""Who this machine is at the server and at S3: known to the follower's own calls alone, to no child and in no file.

User and password come from MLflow's own variables (MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD), else from a
file in the form that MLflow reads, which nobody else may:

    [mlflow]
    mlflow_tracking_username = me
    mlflow_tracking_password = ...

S3's keys, needed only where files go there directly, are found as boto3 finds them: variables, ~/.aws, or the
machine's role.
"""

import configparser
import contextlib
import os
import stat
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path

USER, PASSWORD, TOKEN = "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"
DEFAULT_FILE = Path("~/.mlflow/credentials")  # mlflow/utils/credentials.py


class BadCredentials(ValueError):
    """The credentials can't be used. The message says why, what would do, and none of them."""


def variables(file: str | None, source: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What MLflow's client is to find in its environment, of which `source` has something already; {} where nobody has
    said who we are. `file`: the credentials file, None: MLflow's usual one where it is there. Raises BadCredentials.
    """
    if source.get(TOKEN) or source.get(PASSWORD):
        return {}
    path = Path(file).expanduser() if file else DEFAULT_FILE.expanduser()
    return read(path) if file or path.exists() else {}


def read(path: Path) -> dict[str, str]:
    """User and password in a credentials file, under the names of MLflow's variables. Raises BadCredentials."""
    try:
        status = path.stat()
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadCredentials(f"the credentials file {path} can't be read: {_reason(error)}") from None
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise BadCredentials(
            f"the credentials file {path} can be read by others (mode {stat.S_IMODE(status.st_mode):04o}): "
            f"chmod 600 {path}"
        )
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
        section = parser["mlflow"]
        return {name: section[name.lower()] for name in (USER, PASSWORD)}
    except (configparser.Error, KeyError):  # their messages quote lines of the file
        raise BadCredentials(
            f"the credentials file {path} must have a section [mlflow] with {USER.lower()} and {PASSWORD.lower()}"
        ) from None


def holds_password(uri: str) -> bool:
    """Whether a URI has a password in it, or a token in a password's place."""
    parts = urllib.parse.urlsplit(uri)
    return parts.password is not None or (parts.scheme in ("http", "https") and parts.username is not None)


@contextlib.contextmanager
def environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """These environment variables within, but for those that the user has set."""
    ours = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


def _reason(error: Exception) -> str:
    return str(error.strerror) if isinstance(error, OSError) else "it is no text"
