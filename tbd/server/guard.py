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
ADMINISTRATORS = ("users/list",)  # MLflow itself shows all names to everybody who has one
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
    found = API.fullmatch(request.path)
    if found is None:
        return answer
    reason = ""
    if found[2] in ADMINISTRATORS:
        reason = "for administrators alone"
    elif found[2] == "experiments/create" and _get_request_message(CreateExperiment()).artifact_location:
        # the server fetches artifacts with its own rights: a place that a user chose could be another user's
        reason = "artifact_location: only administrators choose where artifacts lie; leave it out"
    return refusal(reason) if reason and not auth.store.get_user(str(answer.username)).is_admin else answer


def refusal(text: str) -> Response:
    return Response(text, 403, mimetype="text/plain")
