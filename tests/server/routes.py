"""Every route of the MLflow that is installed, a line each: `VERDICT METHODS PATH`.

    python -m tests.server.routes > tests/server/routes.txt

after a new version of MLflow, having looked at what changed (`git diff`): `served` is what the guard lets through.
"""

import os
import tempfile
from collections.abc import Iterator


def routes() -> Iterator[tuple[str, str]]:
    """(method, path) of each route, as MLflow registers it with authentication on."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "MLFLOW_AUTH_CONFIG_PATH": f"{folder}/auth.ini",
            "MLFLOW_FLASK_SERVER_SECRET_KEY": "for the list of routes",
            "MLFLOW_AUTH_ADMIN_PASSWORD": "for the list of routes",
            "_MLFLOW_SGI_NAME": "uvicorn",
            "_MLFLOW_SERVER_FILE_STORE": f"sqlite:///{folder}/mlflow.db",
        }
        with open(f"{folder}/auth.ini", "w") as file:
            file.write(f"[mlflow]\ndefault_permission = NO_PERMISSIONS\ndatabase_uri = sqlite:///{folder}/auth.db\n")
            file.write("admin_username = admin\n")
        from fastapi.routing import iter_route_contexts
        from mlflow.server import app, auth
        from starlette.routing import Mount

        served = auth.create_app(app)  # FastAPI's own routes, and behind them Flask's
        for context in iter_route_contexts(served.routes):
            if not isinstance(context.original_route, Mount):
                for method in sorted(context.methods or ("WEBSOCKET",)):
                    yield method, str(context.path)
        for rule in app.url_map.iter_rules():
            for method in sorted(rule.methods or ()):
                yield method, rule.rule


def listing() -> list[str]:
    """The routes in order, HEAD and OPTIONS (which Flask and FastAPI add by themselves) left out."""
    found = {pair for pair in routes() if pair[0] not in ("HEAD", "OPTIONS")}
    from tbd.server.guard import served  # after the variables are set: it loads MLflow's server

    return [
        f"{'served' if served(*pair) else 'closed'} {pair[0]} {pair[1]}"
        for pair in sorted(found, key=lambda p: p[::-1])
    ]


if __name__ == "__main__":
    print("\n".join(listing()))
