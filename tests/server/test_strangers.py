"""What those get who may not: nobody without a password anything but health, nobody another's runs, on any route.

The routes are MLflow's own list (tests/server/routes.txt, held to the installed MLflow by test_routes.py).
"""

import base64
import http.client
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
import requests

from tbd.server import objects
from tests.server.stack import Stack, User

ROUTES = [
    tuple(line.split(" ", 2)) for line in (Path(__file__).parent / "routes.txt").read_text().splitlines()
]  # (verdict, method, path)
# what answers without a password: that the server lives, the pages' own code, and what kind of a server it is
PUBLIC = {"/health", "/static-files/<path:path>", "/favicon.ico"}
PUBLIC_INFO = re.compile(r"/(ajax-)?api/\d\.0/mlflow/server-info")
REFUSED = (401, 403)


@dataclass
class Alice:
    """One who has an experiment with a run, all of which carries her mark."""

    user: User
    bucket_keys: Callable[[], set[str]]
    mark: str = field(default_factory=lambda: f"alice-{uuid.uuid4().hex}")
    experiment: str = ""
    run: str = ""
    role: int = 0

    def call(self, method: str, path: str, **more: Any) -> requests.Response:
        return ask(self.user, method, f"/api/2.0/mlflow/{path}", **more)

    def state(self) -> list[Any]:
        """All that could have been changed."""
        experiment = self.call("GET", "experiments/get", params={"experiment_id": self.experiment}).json()
        run = self.call("GET", "runs/get", params={"run_id": self.run}).json()
        runs = self.call(
            "POST", "runs/search", json={"experiment_ids": [self.experiment], "run_view_type": "ALL"}
        ).json()
        history = self.call("GET", "metrics/get-history", params={"run_id": self.run, "metric_key": self.mark}).json()
        page = ask(self.user, "GET", "/get-artifact", params={"run_id": self.run, "path": "summary.html"}).text
        return [experiment, run, runs, history, page, sorted(self.bucket_keys())]


def ask(user: User | None, method: str, path: str, url: str = "", **more: Any) -> requests.Response:
    return requests.request(
        method,
        (user.url if user else url) + path,
        auth=user.login if user else None,
        timeout=60,
        allow_redirects=False,
        **more,
    )


@pytest.fixture(scope="module")
def alice(stack: Stack) -> Alice:
    settings = stack.settings

    def keys() -> set[str]:
        bucket, prefix = objects.place(settings)
        mine = {key for key in objects.keys(stack.s3, bucket, prefix)}
        return {key for key in mine if f"/{made.experiment}/" in f"/{key}"}

    made = Alice(stack.new_user(), keys)
    mark = made.mark
    made.experiment = made.call("POST", "experiments/create", json={"name": mark}).json()["experiment_id"]
    body = {"experiment_id": made.experiment, "run_name": mark, "start_time": 1}
    made.run = made.call("POST", "runs/create", json=body).json()["run"]["info"]["run_id"]
    body = {
        "run_id": made.run,
        "metrics": [{"key": mark, "value": 1.5, "timestamp": 1, "step": 0}],
        "params": [{"key": "p", "value": mark}],
        "tags": [{"key": "t", "value": mark}],
    }
    assert made.call("POST", "runs/log-batch", json=body).status_code == 200
    where = f"/api/2.0/mlflow-artifacts/artifacts/{made.experiment}/{made.run}/artifacts/summary.html"
    assert ask(made.user, "PUT", where, data=mark.encode()).status_code == 200
    stack.done("role", "add", mark)
    stack.done("role", "allow", mark, "read", mark)
    roles = ask(stack.admin, "GET", "/api/3.0/mlflow/roles/list", params={"workspace": "default"}).json()["roles"]
    made.role = next(role["id"] for role in roles if role["name"] == mark)
    assert mark in str(made.state())
    return made


@pytest.fixture(scope="module")
def bob(stack: Stack) -> User:
    return stack.new_user()


def filled(path: str, alice: Alice) -> str:
    """A route's path with Alice's things in the place of its parameters."""
    values = {"artifact_path": f"{alice.experiment}/{alice.run}/artifacts/summary.html", "path": "index.html"}
    return re.sub(r"[<{](?:path:)?([a-z_]+)(?::path)?[>}]", lambda found: values.get(found[1], alice.run), path)


def test_without_credentials_nothing_but_health(stack: Stack, alice: Alice) -> None:
    before = alice.state()
    answered = set()
    for _, method, path in ROUTES:
        answer = ask(None, method, filled(path, alice), stack.url, json={} if method != "GET" else None)
        assert alice.mark not in answer.text
        if answer.status_code not in REFUSED:
            answered.add((method, path, answer.status_code))
    assert {path for _, path, _ in answered if not PUBLIC_INFO.fullmatch(path)} <= PUBLIC, answered
    assert ("GET", "/health", 200) in answered
    assert {method for method, _, _ in answered} == {"GET"}
    wrong = User(alice.user.name, "guessed", stack.url)
    assert ask(wrong, "GET", "/api/2.0/mlflow/runs/get", params={"run_id": alice.run}).status_code == 401
    assert alice.state() == before


def test_closed_routes_are_closed_to_the_administrator_too(stack: Stack, alice: Alice) -> None:
    before = alice.state()
    for verdict, method, path in ROUTES:
        if verdict == "closed" and path not in PUBLIC and not PUBLIC_INFO.fullmatch(path):
            answer = ask(stack.admin, method, filled(path, alice), json={} if method != "GET" else None)
            assert answer.status_code == 403, (method, path, answer.status_code)
    assert alice.state() == before


# What a signed-in stranger gets on each served route, asked for what is Alice's.
CLOSED, FILTERED, OWN = "refused", "answered without a word of hers", "answered about himself"


def asked_of(alice: Alice, bob: User) -> dict[tuple[str, str], tuple[str, dict[str, Any]]]:
    """(method, path without its version) -> (what must come, how it is asked)."""
    experiment, run, name = {"experiment_id": alice.experiment}, {"run_id": alice.run}, {"username": alice.user.name}
    metric = {"metric_key": alice.mark}
    tag = {"key": "t", "value": "changed"}
    role = {"role_id": str(alice.role)}
    grant = {"username": bob.name, "resource_type": "experiment", "resource_id": alice.experiment}
    permission = {**role, "resource_type": "experiment", "resource_pattern": "*", "permission": "MANAGE"}
    listed = {"experiment_ids": [alice.experiment]}
    graphql = "query MlflowGetRunQuery($r: String!) { mlflowGetRun(input: {runId: $r}) { run { info { runName } } } }"

    def get(*parts: dict[str, Any]) -> dict[str, Any]:
        return {"params": {key: value for part in parts for key, value in part.items()}}

    def body(*parts: dict[str, Any]) -> dict[str, Any]:
        return {"json": {key: value for part in parts for key, value in part.items()}}

    return {
        ("GET", "/"): (OWN, {}),
        ("GET", "/version"): (OWN, {}),
        ("POST", "/graphql"): (FILTERED, body({"query": graphql, "variables": {"r": alice.run}})),
        ("GET", "/get-artifact"): (CLOSED, get(run, {"path": "summary.html"})),
        ("GET", "experiments/get"): (CLOSED, get(experiment)),
        ("GET", "experiments/get-by-name"): (CLOSED, get({"experiment_name": alice.mark})),
        ("GET", "experiments/search"): (FILTERED, get({"max_results": 1000})),
        ("POST", "experiments/search"): (FILTERED, body({"max_results": 1000, "view_type": "ALL"})),
        ("POST", "experiments/search-datasets"): (CLOSED, body(listed)),
        ("POST", "experiments/create"): (CLOSED, body({"name": f"of {bob.name}", "artifact_location": "s3://tbd/x"})),
        ("POST", "experiments/delete"): (CLOSED, body(experiment)),
        ("POST", "experiments/restore"): (CLOSED, body(experiment)),
        ("POST", "experiments/update"): (CLOSED, body(experiment, {"new_name": "changed"})),
        ("POST", "experiments/set-experiment-tag"): (CLOSED, body(experiment, tag)),
        ("POST", "experiments/delete-experiment-tag"): (CLOSED, body(experiment, {"key": "t"})),
        ("GET", "runs/get"): (CLOSED, get(run)),
        ("POST", "runs/create"): (CLOSED, body(experiment, {"start_time": 1})),
        ("POST", "runs/search"): (FILTERED, body(listed)),
        ("POST", "runs/update"): (CLOSED, body(run, {"status": "FAILED"})),
        ("POST", "runs/delete"): (CLOSED, body(run)),
        ("POST", "runs/restore"): (CLOSED, body(run)),
        ("POST", "runs/log-metric"): (CLOSED, body(run, {"key": "m", "value": 1.0, "timestamp": 1, "step": 0})),
        ("POST", "runs/log-parameter"): (CLOSED, body(run, {"key": "q", "value": "1"})),
        ("POST", "runs/log-batch"): (CLOSED, body(run, {"tags": [tag]})),
        ("POST", "runs/log-inputs"): (CLOSED, body(run, {"datasets": []})),
        ("POST", "runs/set-tag"): (CLOSED, body(run, tag)),
        ("POST", "runs/delete-tag"): (CLOSED, body(run, {"key": "t"})),
        ("GET", "metrics/get-history"): (CLOSED, get(run, metric)),
        ("GET", "metrics/get-history-bulk"): (CLOSED, get(run, metric)),
        ("GET", "metrics/get-history-bulk-interval"): (CLOSED, get({"run_ids": alice.run}, metric)),
        ("GET", "artifacts/list"): (CLOSED, get(run)),
        ("POST", "upload-artifact"): (CLOSED, {**get({"run_uuid": alice.run, "path": "x.txt"}), "data": b"x"}),
        ("GET", "mlflow-artifacts/artifacts"): (CLOSED, get({"path": alice.experiment})),
        ("GET", "mlflow-artifacts/artifacts/*"): (CLOSED, {}),
        ("PUT", "mlflow-artifacts/artifacts/*"): (CLOSED, {"data": b"changed"}),
        ("DELETE", "mlflow-artifacts/artifacts/*"): (CLOSED, {}),
        ("GET", "mlflow-artifacts/presigned/*"): (CLOSED, {}),
        ("POST", "mlflow-artifacts/mpu/create/*"): (CLOSED, body({"path": "summary.html", "num_parts": 1})),
        ("POST", "mlflow-artifacts/mpu/complete/*"): (CLOSED, body({"path": "x", "upload_id": "x", "parts": []})),
        ("POST", "mlflow-artifacts/mpu/abort/*"): (CLOSED, body({"path": "x", "upload_id": "x"})),
        ("POST", "logged-models/search"): (FILTERED, body(listed)),
        ("GET", "registered-models/search"): (FILTERED, {}),
        ("GET", "model-versions/search"): (FILTERED, {}),
        ("GET", "users/current"): (OWN, {}),
        ("GET", "users/current/permissions"): (OWN, {}),
        ("GET", "users/get"): (CLOSED, get(name)),
        ("GET", "users/list"): (CLOSED, {}),
        ("GET", "users/permissions/list"): (CLOSED, get(name)),
        ("GET", "users/permissions/get"): (CLOSED, get(grant, name)),
        ("GET", "users/roles/list"): (CLOSED, get(name)),
        ("POST", "users/create"): (CLOSED, body({"username": "eve", "password": "a long password"})),
        ("PATCH", "users/update-password"): (CLOSED, body(name, {"password": "a long password"})),
        ("PATCH", "users/update-admin"): (CLOSED, body({"username": bob.name, "is_admin": True})),
        ("DELETE", "users/delete"): (CLOSED, body(name)),
        ("POST", "users/permissions/grant"): (CLOSED, body(grant, {"permission": "MANAGE"})),
        ("POST", "users/permissions/revoke"): (CLOSED, body(grant, name)),
        ("GET", "roles/get"): (CLOSED, get(role)),
        ("GET", "roles/list"): (CLOSED, get({"workspace": "default"})),
        ("GET", "roles/permissions/list"): (CLOSED, get(role)),
        ("GET", "roles/users/list"): (CLOSED, get(role)),
        ("POST", "roles/create"): (CLOSED, body({"name": "mine", "workspace": "default"})),
        ("POST", "roles/permissions/add"): (CLOSED, body(permission)),
        ("POST", "roles/assign"): (CLOSED, body(role, {"username": bob.name})),
        ("PATCH", "roles/update"): (CLOSED, body(role, {"name": "changed"})),
        ("PATCH", "roles/permissions/update"): (CLOSED, body({"role_permission_id": 1, "permission": "MANAGE"})),
        ("DELETE", "roles/delete"): (CLOSED, body(role)),
        ("DELETE", "roles/permissions/remove"): (CLOSED, body({"role_permission_id": 1})),
        ("DELETE", "roles/unassign"): (CLOSED, body(role, name)),
    }


def short(path: str) -> str:
    """A route's path as the table above names it."""
    path = re.sub(r"/(ajax-)?api/[23]\.0/(mlflow/)?", "", path)
    return re.sub(r"[<{].*[>}]", "*", path)


def test_a_stranger_gets_nothing_of_hers_on_any_served_route(alice: Alice, bob: User) -> None:
    before = alice.state()
    table = asked_of(alice, bob)
    served = [(method, path) for verdict, method, path in ROUTES if verdict == "served"]
    assert {(method, short(path)) for method, path in served} == set(table)
    otherwise = []
    for method, path in served:
        wanted, how = table[method, short(path)]
        answer = ask(bob, method, filled(path, alice), **how)
        if (answer.status_code == 403) != (wanted == CLOSED) or answer.status_code >= 500 or alice.mark in answer.text:
            otherwise.append((method, path, answer.status_code, answer.text[:300]))
    assert otherwise == []
    assert alice.state() == before
    assert ask(alice.user, "GET", "/api/2.0/mlflow/users/current").status_code == 200  # her password is as it was


# GraphQL is one route and many questions: (kind, field) -> (its input, what is asked for)
GRAPHQL = {
    ("query", "mlflowGetExperiment"): ('{experimentId: "EXPERIMENT"}', "experiment { name }"),
    ("query", "mlflowGetRun"): ('{runId: "RUN"}', "run { info { runName } }"),
    ("query", "mlflowListArtifacts"): ('{runId: "RUN"}', "files { path }"),
    ("query", "mlflowGetMetricHistoryBulkInterval"): ('{runIds: ["RUN"], metricKey: "MARK"}', "metrics { value }"),
    ("query", "mlflowSearchRuns"): ('{experimentIds: ["EXPERIMENT"]}', "runs { info { runName } }"),
    ("mutation", "mlflowSearchRuns"): ('{experimentIds: ["EXPERIMENT"]}', "runs { info { runName } }"),
    ("mutation", "mlflowSearchDatasets"): ('{experimentIds: ["EXPERIMENT"]}', "datasetSummaries { name }"),
    ("query", "mlflowSearchModelVersions"): ("{}", "modelVersions { name }"),
}
WORDLESS = {"mlflowSearchDatasets", "mlflowSearchModelVersions"}  # she has nothing there


def test_a_stranger_gets_nothing_of_hers_by_graphql(alice: Alice, bob: User) -> None:
    schema = "{ __schema { queryType { fields { name } } mutationType { fields { name } } } }"
    types = ask(bob, "POST", "/graphql", json={"query": schema}).json()["data"]["__schema"]
    fields = {(kind, known["name"]) for kind in ("query", "mutation") for known in types[f"{kind}Type"]["fields"]}
    assert fields - {("query", "test"), ("mutation", "testMutation")} == set(GRAPHQL)
    words = (alice.mark, "summary.html", "1.5")
    for (kind, question), (given, wanted) in GRAPHQL.items():
        for name, value in (("EXPERIMENT", alice.experiment), ("RUN", alice.run), ("MARK", alice.mark)):
            given = given.replace(name, value)
        body = {"query": f"{kind} {{ {question}(input: {given}) {{ {wanted} }} }}"}
        hers, his = (ask(user, "POST", "/graphql", json=body) for user in (alice.user, bob))
        assert any(word in hers.text for word in words) or question in WORDLESS, (question, hers.text)
        assert not any(word in his.text for word in words), (question, his.text)


def test_a_reader_can_not_write(stack: Stack, alice: Alice) -> None:
    reader = stack.new_user()
    stack.allow(reader, "read", alice.mark)
    before = alice.state()
    assert ask(reader, "GET", "/api/2.0/mlflow/runs/get", params={"run_id": alice.run}).status_code == 200
    writes = {(method, path) for method, path in asked_of(alice, reader) if method != "GET" and "search" not in path}
    table = asked_of(alice, reader)
    otherwise = []
    for verdict, method, path in ROUTES:
        if verdict == "served" and (method, short(path)) in writes - {("POST", "/graphql")}:
            answer = ask(reader, method, filled(path, alice), **table[method, short(path)][1])
            if answer.status_code != 403:
                otherwise.append((method, path, answer.status_code, answer.text[:300]))
    assert otherwise == []
    assert alice.state() == before


def raw(user: User, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    """The request with its path as it stands: other clients tidy it up first."""
    parts = urlsplit(user.url)
    password = base64.b64encode(":".join(user.login).encode()).decode()
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        connection.request(method, path, body, {"Authorization": f"Basic {password}"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_no_path_leads_out_of_ones_own_artifacts(stack: Stack, alice: Alice) -> None:
    mallory = stack.new_user()
    made = ask(mallory, "POST", "/api/2.0/mlflow/experiments/create", json={"name": f"of {mallory.name}"}).json()
    own = made["experiment_id"]
    body = {"experiment_id": own, "start_time": 1}
    run = ask(mallory, "POST", "/api/2.0/mlflow/runs/create", json=body).json()["run"]["info"]["run_id"]
    before = alice.state()
    target = f"{alice.experiment}/{alice.run}/artifacts/summary.html"
    outside = [f"{up}{target}" for up in ("../", "../../../", "%2e%2e/", "..%2f", "%252e%252e%252f", "..\\", "..%5c")]
    outside += ["/etc/passwd", "//etc/passwd", "../../../../etc/passwd", "%2fetc%2fpasswd", "file:///etc/passwd"]
    for path in outside:
        for base in ("/api/2.0", "/ajax-api/2.0"):
            for where in (f"{own}/{path}", f"{own}/{run}/artifacts/{path}", path, f"{own}/..;/{target}"):
                for method, sent in (("GET", None), ("PUT", b"planted"), ("DELETE", None)):
                    status, answer = raw(mallory, method, f"{base}/mlflow-artifacts/artifacts/{where}", sent)
                    assert alice.mark.encode() not in answer and b"root:" not in answer, (method, where)
        for route in (
            f"/get-artifact?run_id={run}&path={path}",
            f"/get-artifact?run_id={run}&path={quote(path, safe='')}",
            f"/api/2.0/mlflow/artifacts/list?run_id={run}&path={quote(path, safe='')}",
            f"/api/2.0/mlflow-artifacts/artifacts?path={quote(f'{own}/{path}', safe='')}",
        ):
            status, answer = raw(mallory, "GET", route)
            assert alice.mark.encode() not in answer and b"root:" not in answer, route
        raw(
            mallory,
            "POST",
            f"/ajax-api/2.0/mlflow/upload-artifact?run_uuid={run}&path={quote(path, safe='')}",
            b"planted",
        )
    assert alice.state() == before


@pytest.mark.parametrize("name", ["artifact_location", "artifactLocation"])
def test_nobody_chooses_where_artifacts_lie(stack: Stack, alice: Alice, bob: User, name: str) -> None:
    places = [
        f"s3://tbd/artifacts/{alice.experiment}",
        f"mlflow-artifacts:/{alice.experiment}",
        "s3://another-bucket/x",
        "file:///etc",
        "/etc",
        "http://127.0.0.1:1/x",
    ]
    for place in places:
        for how in (
            {},
            {"headers": {"Content-Type": "text/plain"}},
            {"headers": {"Content-Type": "application/json; x"}},
        ):
            for base in ("/api/2.0", "/ajax-api/2.0"):
                text = f'{{"name": "{uuid.uuid4()}", "{name}": "{place}"}}'
                answer = ask(bob, "POST", f"{base}/mlflow/experiments/create", data=text, **how)
                assert answer.status_code in (400, 403), (place, how, answer.text)
    mine = {"name": str(uuid.uuid4()), name: ""}
    assert ask(bob, "POST", "/api/2.0/mlflow/experiments/create", json=mine).status_code == 200
    chosen = {"name": str(uuid.uuid4()), name: "s3://tbd/artifacts/elsewhere"}
    assert ask(stack.admin, "POST", "/api/2.0/mlflow/experiments/create", json=chosen).status_code == 200


def test_other_names_and_other_pages_are_refused(stack: Stack, alice: Alice) -> None:
    route, body = "/api/2.0/mlflow/runs/set-tag", {"run_id": alice.run, "key": "t", "value": "changed"}
    before = alice.state()
    assert ask(alice.user, "POST", route, json=body, headers={"Host": "rebound.example"}).status_code == 403
    assert ask(alice.user, "POST", route, json=body, headers={"Origin": "https://evil.example"}).status_code == 403
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    answer = ask(None, "OPTIONS", route, stack.url, headers=asked)
    assert "Access-Control-Allow-Origin" not in answer.headers
    page = ask(alice.user, "GET", "/")
    assert page.headers["X-Frame-Options"] == "SAMEORIGIN" and page.headers["X-Content-Type-Options"] == "nosniff"
    assert alice.state() == before
