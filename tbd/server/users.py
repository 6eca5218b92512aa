"""Users, roles, and who may do what to which experiment: in MLflow's own words, by its own service.

A user sees nothing but what he made himself or was allowed. A role is a set of permissions that several users have.
MLflow's own client of these (mlflow.server.auth.client) loads the whole server first, seconds; the calls are few.
"""

import secrets
from typing import Any

from tbd.server import Refused
from tbd.server.settings import ADMIN, Home, Settings

LEVELS = {"read": "READ", "edit": "EDIT", "manage": "MANAGE"}
EXPERIMENT = "experiment"
EVERY = "*"
WORKSPACE = "default"  # MLflow's name for the only one there is
OWN = "__"  # what a user was allowed by himself, MLflow keeps as a role named __user_ID__
KIND, TRAINING = "mlflow.experimentKind", "custom_model_development"  # so that its pages open on runs, not on traces
TIMEOUT_S = 60


class Users:
    """Administers a server. Raises Refused with MLflow's own words where it refuses."""

    def __init__(self, url: str, username: str, password: str, certificate: str = "") -> None:
        import requests

        self.url = url
        self.session = requests.Session()
        self.session.auth = (username, password)
        self.verify: str | bool = certificate or True

    @classmethod
    def of(cls, home: Home, settings: Settings) -> "Users":
        """As the administrator of the server in the folder."""
        return cls(settings.url, ADMIN, home.secrets()["admin_password"], settings.tls_certificate)

    def add(self, name: str, password: str | None = None, admin: bool = False) -> str:
        """A new user; gives the password, made where none is given."""
        password = password or secrets.token_urlsafe(18)
        self.call("POST", "2.0/mlflow/users/create", username=name, password=password)
        if admin:
            self.call("PATCH", "2.0/mlflow/users/update-admin", username=name, is_admin=True)
        return password

    def remove(self, name: str) -> None:
        """The user, and what he was allowed; his runs stay."""
        self.call("DELETE", "2.0/mlflow/users/delete", username=name)

    def change_password(self, name: str, password: str | None = None) -> str:
        password = password or secrets.token_urlsafe(18)
        self.call("PATCH", "2.0/mlflow/users/update-password", username=name, password=password)
        return password

    def names(self) -> list[tuple[str, bool, list[str]]]:
        """(name, administrator, roles) of each user."""
        found = []
        for user in self.call("GET", "2.0/mlflow/users/list")["users"]:
            roles = self.call("GET", "3.0/mlflow/users/roles/list", username=user["username"])["roles"]
            named = [role["name"] for role in roles if not role["name"].startswith(OWN)]
            found.append((user["username"], user["is_admin"], named))
        return found

    def allow(self, name: str, level: str, experiment: str) -> None:
        """Let the user read, edit or manage the experiment, which is made where it isn't there."""
        what = {"resource_type": EXPERIMENT, "resource_id": self.experiment(experiment, make=True)}
        self.call("POST", "3.0/mlflow/users/permissions/grant", username=name, permission=LEVELS[level], **what)

    def forbid(self, name: str, experiment: str) -> None:
        """Take back what the user himself was allowed (not what a role of his allows)."""
        what = {"resource_type": EXPERIMENT, "resource_id": self.experiment(experiment)}
        self.call("POST", "3.0/mlflow/users/permissions/revoke", username=name, **what)

    def add_role(self, role: str) -> None:
        self.call("POST", "3.0/mlflow/roles/create", workspace=WORKSPACE, name=role)

    def remove_role(self, role: str) -> None:
        self.call("DELETE", "3.0/mlflow/roles/delete", role_id=self.role(role))

    def roles(self) -> list[tuple[str, list[str]]]:
        """(name, what it allows) of each role."""
        found = []
        for role in self.call("GET", "3.0/mlflow/roles/list", workspace=WORKSPACE)["roles"]:
            if not role["name"].startswith(OWN):
                allowed = [f"{p['permission'].lower()} {self.named(p)}" for p in self.permissions(role["id"])]
                found.append((role["name"], allowed))
        return found

    def permissions(self, role_id: int) -> list[dict[str, Any]]:
        found = self.call("GET", "3.0/mlflow/roles/permissions/list", role_id=role_id)["role_permissions"]
        return list(found)

    def allow_role(self, role: str, level: str, experiment: str) -> None:
        """Let all who have the role read, edit or manage the experiment; `*`: every one."""
        role_id = self.role(role)
        what = {
            "resource_type": EXPERIMENT,
            "resource_pattern": EVERY if experiment == EVERY else self.experiment(experiment, make=True),
        }
        for known in self.permissions(role_id):
            if what.items() <= known.items():
                change = {"role_permission_id": known["id"], "permission": LEVELS[level]}
                self.call("PATCH", "3.0/mlflow/roles/permissions/update", **change)
                return
        self.call("POST", "3.0/mlflow/roles/permissions/add", role_id=role_id, permission=LEVELS[level], **what)

    def give_role(self, role: str, name: str) -> None:
        self.call("POST", "3.0/mlflow/roles/assign", username=name, role_id=self.role(role))

    def take_role(self, role: str, name: str) -> None:
        self.call("DELETE", "3.0/mlflow/roles/unassign", username=name, role_id=self.role(role))

    def role(self, name: str) -> int:
        for role in self.call("GET", "3.0/mlflow/roles/list", workspace=WORKSPACE)["roles"]:
            if role["name"] == name:
                return int(role["id"])
        raise Refused(f"there is no role {name!r}: `python -m tbd.serve role list`")

    def experiment(self, name: str, make: bool = False) -> str:
        """The experiment's id."""
        quoted = name.replace("\\", "\\\\").replace("'", "\\'")
        asked = {"filter": f"name = '{quoted}'", "max_results": 1, "view_type": "ACTIVE_ONLY"}
        found = self.call("POST", "2.0/mlflow/experiments/search", **asked).get("experiments", [])
        if found:
            return str(found[0]["experiment_id"])
        if not make:
            raise Refused(f"there is no experiment {name!r}")
        tags = [{"key": KIND, "value": TRAINING}]
        return str(self.call("POST", "2.0/mlflow/experiments/create", name=name, tags=tags)["experiment_id"])

    def named(self, permission: dict[str, Any]) -> str:
        """What the permission is for, experiments by name."""
        kind, pattern = permission["resource_type"], str(permission["resource_pattern"])
        if kind != EXPERIMENT:
            return f"{kind} {pattern}"
        if pattern == EVERY:
            return pattern
        return str(self.call("GET", "2.0/mlflow/experiments/get", experiment_id=pattern)["experiment"]["name"])

    def call(self, method: str, path: str, **values: Any) -> Any:
        """What the server answers."""
        import requests

        # said with each request: a session's own is overruled by the variable REQUESTS_CA_BUNDLE
        how: dict[str, Any] = {"verify": self.verify, "params" if method == "GET" else "json": values}
        try:
            answer = self.session.request(method, f"{self.url}/api/{path}", timeout=TIMEOUT_S, **how)
        except requests.RequestException as error:
            raise Refused(f"{self.url} doesn't answer ({error}): `python -m tbd.serve`") from error
        if not answer.ok:
            raise Refused(message(answer))
        return answer.json() if answer.content else {}


def message(answer: Any) -> str:
    """Why the server refuses, in a line."""
    try:
        text = str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        text = str(answer.text) or f"HTTP {answer.status_code}"
    return text.strip().partition("\n")[0]
