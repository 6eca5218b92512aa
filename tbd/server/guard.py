"""What the server answers at all. MLflow calls `authenticate` for every request (auth.ini: authorization_function).

MLflow is much more than tracking: a gateway to language models, webhooks, an assistant that runs commands, a registry
of models. A benchmark's record needs none of it, so only what is listed here is served, to the administrator too;
whether this user may do that to this run is MLflow's own to decide. A route that a new version of MLflow brings is thus
closed until it has been looked at (tests/server/routes.txt lists every route of the version in use).
"""

import re

from flask import Response, request
from mlflow.protos.service_pb2 import CreateExperiment
from mlflow.server import auth
from mlflow.server.handlers import _get_request_message
from werkzeug.datastructures import Authorization

# `mlflow/...` below /api/2.0 and /ajax-api/2.0 (the pages' name for the same), or 3.0
SERVED = {
    "GET": (
        "experiments/get",
        "experiments/get-by-name",
        "experiments/search",
        "runs/get",
        "metrics/get-history",
        "metrics/get-history-bulk",
        "metrics/get-history-bulk-interval",
        "artifacts/list",
        "users/get",
        "users/list",
        "users/current",
        "users/current/permissions",
        "users/permissions/list",
        "users/permissions/get",
        "users/roles/list",
        "roles/get",
        "roles/list",
        "roles/permissions/list",
        "roles/users/list",
    ),
    "POST": (
        "experiments/create",
        "experiments/search",
        "experiments/search-datasets",
        "experiments/delete",
        "experiments/restore",
        "experiments/update",
        "experiments/set-experiment-tag",
        "experiments/delete-experiment-tag",
        "runs/create",
        "runs/search",
        "runs/update",
        "runs/delete",
        "runs/restore",
        "runs/log-metric",
        "runs/log-parameter",
        "runs/log-batch",
        "runs/log-inputs",
        "runs/set-tag",
        "runs/delete-tag",
        "upload-artifact",
        "users/create",
        "users/permissions/grant",
        "users/permissions/revoke",
        "roles/create",
        "roles/permissions/add",
        "roles/assign",
    ),
    "PATCH": ("users/update-password", "users/update-admin", "roles/update", "roles/permissions/update"),
    "DELETE": ("users/delete", "roles/delete", "roles/permissions/remove", "roles/unassign"),
}
# the pages of the user interface ask for these too; empty lists to us
SERVED_TO_PAGES = {"POST": ("logged-models/search",), "GET": ("registered-models/search", "model-versions/search")}
ARTIFACTS = re.compile(
    r"/(ajax-)?api/2\.0/mlflow-artifacts/(artifacts(/.+)?|mpu/(create|complete|abort)/.+|presigned/.+)"
)
API = re.compile(r"/(ajax-)?api/[23]\.0/mlflow/(.+)")
PLAIN = {
    "GET": ("/", "/version", "/get-artifact"),
    "POST": ("/graphql",),
}


def served(method: str, path: str) -> bool:
    """Whether the route is one that the server answers."""
    if path in PLAIN.get(method, ()):
        return True
    if ARTIFACTS.fullmatch(path):
        return method in ("GET", "PUT", "POST", "DELETE")
    found = API.fullmatch(path)
    return found is not None and found[2] in (*SERVED.get(method, ()), *SERVED_TO_PAGES.get(method, ()))


def authenticate() -> Authorization | Response:
    """Who is asking, by name and password; or the refusal."""
    answer = auth.authenticate_request_basic_auth()
    if isinstance(answer, Response):
        return answer
    if not served(request.method, request.path):
        return refusal(f"{request.method} {request.path} is not served here")
    if API.fullmatch(request.path) and request.path.endswith("/experiments/create"):
        return creating_experiment(answer)
    return answer


def creating_experiment(answer: Authorization) -> Authorization | Response:
    """Where an experiment's artifacts lie is the server's to say.

    It fetches them with its own rights, so a place that a user chose could be another user's, or any that it may read.
    """
    chosen = _get_request_message(CreateExperiment()).artifact_location
    if chosen and not auth.store.get_user(str(answer.username)).is_admin:
        return refusal("artifact_location: only the administrator chooses where artifacts lie; leave it out")
    return answer


def refusal(text: str) -> Response:
    return Response(text, 403, mimetype="text/plain")
