"""MLflow's server, made ours before it begins: `python -m tbd.server.application OPTIONS`, as `mlflow server OPTIONS`.

MLflow can hand its clients signed addresses in S3, to fetch and to store files by themselves, and where it says that it
does (`server-info`), they fetch no file any other way. An S3 on this machine's loopback is out of their reach, and the
same address leads to whoever listens there on the client's own machine. So there MLflow says that it doesn't, refuses
in its own words (501, after it has looked whether the user may), and all files pass through it.
"""

import ipaddress
import os
import sys
import urllib.parse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import FastAPI

DIRECT = ("MultipartUploadMixin", "MultipartDownloadMixin", "PresignedUploadMixin")  # as mlflow.server.handlers asks


def main() -> None:
    """Does not return: uvicorn takes this process's place, which else would only stand by (280 MB)."""
    from mlflow import cli, server

    calls: Any = server
    for name, ours in (("_find_app", lambda _: f"{__name__}:{create_app.__name__}"), ("_exec_cmd", become)):
        getattr(calls, name)  # raises where a new version starts otherwise
        setattr(calls, name, ours)
    cli.cli(["server", *sys.argv[1:]])


def become(command: list[str], extra_env: dict[str, str], **_: object) -> None:
    os.execve(command[0], command, os.environ | extra_env)


def create_app() -> "FastAPI":
    """The application of each of uvicorn's workers."""
    from mlflow.server import app, auth, handlers

    if on_loopback(os.environ.get("MLFLOW_S3_ENDPOINT_URL", "")):
        for kind in DIRECT:
            getattr(handlers, kind)  # raises where a new version asks otherwise
            setattr(handlers, kind, Nothing)
    application: FastAPI = auth.create_app(app)
    return application


class Nothing:
    """What no store is an instance of."""


def on_loopback(endpoint: str) -> bool:
    """Whether the address of an S3 leads nowhere but to the machine that asks."""
    host = urllib.parse.urlsplit(endpoint).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


if __name__ == "__main__":
    # by its name, so that uvicorn's workers find it
    from tbd.server import application

    application.main()
