"""MLflow itself: authentication on, nothing allowed that isn't granted, artifacts through it into S3."""

import configparser
import functools
import io
import os
import shutil
import socket
import ssl
import sys
import time
import urllib.request
from pathlib import Path

import tbd
from tbd.server import Refused, accounts, postgresql, seaweedfs
from tbd.server.processes import Part
from tbd.server.settings import ADMIN, Home, Settings

NAME = "mlflow"
NEEDS_LIMIT_S = 60.0  # for the database and the object store, which may start at the same time
PASSWORD_CACHE_S = 60  # a password that was changed may be good so long at another worker; checking one takes 0.1 s


def part(home: Home, settings: Settings) -> Part:
    options = ["--host", settings.host, "--port", str(settings.port), "--workers", str(settings.workers)]
    uvicorn = "--log-level warning --no-server-header"
    if settings.tls_certificate:
        uvicorn += f" --ssl-certfile {settings.tls_certificate} --ssl-keyfile {settings.tls_key}"
    options += ["--app-name", "basic-auth", "--serve-artifacts", "--uvicorn-opts", uvicorn]
    return Part(
        NAME,
        (sys.executable, "-m", "tbd.server.application", *options),
        environment(home, settings),
        functools.partial(prepare, home, settings),
        functools.partial(problem, settings),
    )


def artifacts(settings: Settings) -> str:
    """Where artifacts lie."""
    return settings.s3 or f"s3://{seaweedfs.BUCKET}/{seaweedfs.PREFIX}"


def temporary(home: Home) -> Path:
    """Where an upload lies, whole, until S3 has it."""
    return home.part(NAME) / "tmp"


def environment(home: Home, settings: Settings) -> dict[str, str]:
    """All that MLflow is told but its port: by variables, as everybody on the machine may read command lines."""
    known = home.secrets()
    variables = {
        "HOME": str(home.path),
        "TMPDIR": str(temporary(home)),  # not /tmp, which is memory in a container
        "PYTHONPATH": str(Path(tbd.__file__).parent.parent),  # the guard's place
        "MLFLOW_BACKEND_STORE_URI": postgresql.uri(home),
        "MLFLOW_ARTIFACTS_DESTINATION": artifacts(settings),
        "MLFLOW_AUTH_CONFIG_PATH": str(home.part(NAME) / "auth.ini"),
        "MLFLOW_AUTH_ADMIN_PASSWORD": known["admin_password"],
        "MLFLOW_FLASK_SERVER_SECRET_KEY": known["cookie_key"],
        "MLFLOW_SERVER_ALLOWED_HOSTS": ",".join(settings.allowed_hosts),
        "MLFLOW_SERVER_CORS_ALLOWED_ORIGINS": ",".join(settings.allowed_origins),
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # 8 processes less, and nothing of ours uses it
        "MLFLOW_DISABLE_TELEMETRY": "true",
        # MLflow would call a trace.json.gz "gzip-encoded JSON", which its own client then unpacks and saves as .gz
        "MLFLOW_S3_UPLOAD_EXTRA_ARGS": '{"ContentEncoding": "identity"}',
    }
    if settings.s3:
        variables |= {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
        if settings.s3_endpoint:
            variables["MLFLOW_S3_ENDPOINT_URL"] = settings.s3_endpoint
        if settings.s3_region:
            variables["AWS_DEFAULT_REGION"] = settings.s3_region
    else:
        variables |= {
            "MLFLOW_S3_ENDPOINT_URL": seaweedfs.endpoint(settings),
            "AWS_DEFAULT_REGION": seaweedfs.REGION,
            "AWS_ACCESS_KEY_ID": known["s3_key"],
            "AWS_SECRET_ACCESS_KEY": known["s3_secret"],
        }
    return variables


def prepare(home: Home, settings: Settings) -> None:
    """Its configuration, and the database and the bucket, which must be there before it. Raises Refused."""
    check_port(settings)
    home.write(f"{NAME}/auth.ini", auth_ini(home))
    shutil.rmtree(temporary(home), ignore_errors=True)  # what a killed one left
    accounts.private_folder(temporary(home), home.account)
    needs = [functools.partial(postgresql.problem, home)]
    if not settings.s3:
        needs.append(functools.partial(seaweedfs.problem, home, settings))
    deadline = time.monotonic() + NEEDS_LIMIT_S
    for need in needs:
        while problem := need():
            if time.monotonic() > deadline:
                raise Refused(f"MLflow can't start: {problem}")
            time.sleep(0.1)
    if not settings.s3:
        seaweedfs.make_bucket(home, settings)


def check_port(settings: Settings) -> None:
    """Raises Refused where somebody else listens there: that one would be taken for ours."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((settings.host, settings.port))
        except OSError as error:
            reason = f"port {settings.port} of {settings.host} can't be had: {error.strerror}; name another by --port"
            raise Refused(reason) from error


def auth_ini(home: Home) -> str:
    """MLflow's authentication: https://mlflow.org/docs/latest/self-hosting/security/basic-http-auth/"""
    parser = configparser.ConfigParser()
    parser["mlflow"] = {
        "default_permission": "NO_PERMISSIONS",
        "database_uri": postgresql.uri(home).replace("%", "%%"),  # as the parser reads it
        "admin_username": ADMIN,
        "authorization_function": "tbd.server.guard:authenticate",
        "auth_cache_ttl_seconds": str(PASSWORD_CACHE_S),
    }
    text = io.StringIO()
    parser.write(text)
    return text.getvalue()


def problem(settings: Settings) -> str | None:
    """Why it doesn't answer; None where it does."""
    # its own certificate may be for the name that clients use; whether it lives is all that is asked here
    unchecked = ssl._create_unverified_context() if settings.tls_certificate else None
    try:
        urllib.request.urlopen(f"{settings.url}/health", timeout=5, context=unchecked).close()
    except (OSError, ValueError) as error:
        return f"{settings.url}: {getattr(error, 'reason', error)}"
    return None
