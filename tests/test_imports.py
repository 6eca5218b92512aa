"""The direction of imports: the worker's side knows nothing of the controller's."""

import ast
import sys
from pathlib import Path

import pytest

from tbd import frameworks

ROOT = Path(__file__).parent.parent
WORKER_SIDE = ["worker", "frameworks", "models", "data"]
# What the worker's framework-free code may import beside the standard library. Pillow decodes pictures, and
# soundfile sound; nothing else.
WORKER_LIBRARIES = {"tbd", "numpy", "PIL", "soundfile"}


def imports(path: Path) -> set[str]:
    """Every module that a file imports, at its top or within functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def foreign_modules(path: Path) -> set[str]:
    """What a file imports of tbd that is not the worker's side."""
    return {name for name in imports(path) if name.startswith("tbd.") and name.split(".")[1] not in WORKER_SIDE}


def libraries(path: Path) -> set[str]:
    tops = {name.split(".")[0] for name in imports(path)}
    return tops - set(sys.stdlib_module_names) - WORKER_LIBRARIES


def files(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / "tbd" / folder).rglob("*.py"))]


@pytest.mark.parametrize("path", files(*WORKER_SIDE), ids=lambda p: str(p.relative_to(ROOT)))
def test_the_workers_side_imports_itself_alone(path: Path) -> None:
    assert foreign_modules(path) == set()


# What every framework's environment imports. The Makefile's `lint` checks the syntax of the same files for Python 3.6.
FRAMEWORK_FREE = [
    *files("worker", "data"),
    *(path for path in files("models") if path.stem not in frameworks.names()),
    *(ROOT / "tbd" / "frameworks").glob("*.py"),
    *(ROOT / "tbd" / "frameworks").glob("*/__init__.py"),
]


@pytest.mark.parametrize("path", FRAMEWORK_FREE, ids=lambda p: str(p.relative_to(ROOT)))
def test_framework_free_code_needs_numpy_alone(path: Path) -> None:
    assert libraries(path) == set()


@pytest.mark.parametrize(
    "path", files("config", "launch", "measure", "tracking", "server"), ids=lambda p: str(p.relative_to(ROOT))
)
def test_controller_imports_no_framework(path: Path) -> None:
    assert {name.split(".")[0] for name in imports(path)} & {"torch", "tensorflow", "jax", "mxnet", "cntk"} == set()


def test_the_check_sees_imports_within_functions_and_relative_names(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def f():\n    from tbd import models, tracking\n    import torch\n")
    assert foreign_modules(bad) == {"tbd.tracking"}
    assert libraries(bad) == {"torch"}
