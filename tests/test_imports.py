"""The direction of imports: the worker's side knows nothing of the controller's."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WORKER_SIDE = ["worker", "frameworks", "models", "data"]
CONTROLLER_SIDE = {"config", "launch", "tracking", "measure", "analysis", "train", "pipeline", "sweep", "display"}
# What the worker's framework-free code may import beside the standard library. Pillow decodes pictures, nothing else.
WORKER_LIBRARIES = {"tbd", "numpy", "PIL"}


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


def controller_modules(path: Path) -> set[str]:
    return {name for name in imports(path) if name.startswith("tbd.") and name.split(".")[1] in CONTROLLER_SIDE}


def libraries(path: Path) -> set[str]:
    tops = {name.split(".")[0] for name in imports(path)}
    return tops - set(sys.stdlib_module_names) - WORKER_LIBRARIES


def files(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / "tbd" / folder).rglob("*.py"))]


@pytest.mark.parametrize("path", files(*WORKER_SIDE), ids=lambda p: str(p.relative_to(ROOT)))
def test_worker_side_imports_nothing_of_the_controller(path: Path) -> None:
    assert controller_modules(path) == set()


FRAMEWORK_FREE = [
    *files("worker", "data"),
    *(ROOT / "tbd" / "models").glob("*/specification.py"),
    ROOT / "tbd" / "models" / "specification.py",
    ROOT / "tbd" / "frameworks" / "base.py",
]


@pytest.mark.parametrize("path", FRAMEWORK_FREE, ids=lambda p: str(p.relative_to(ROOT)))
def test_framework_free_code_needs_numpy_alone(path: Path) -> None:
    assert libraries(path) == set()


@pytest.mark.parametrize(
    "path", files("config", "launch", "measure", "tracking"), ids=lambda p: str(p.relative_to(ROOT))
)
def test_controller_imports_no_framework(path: Path) -> None:
    assert {name.split(".")[0] for name in imports(path)} & {"torch", "tensorflow", "jax", "mxnet", "cntk"} == set()


def test_the_check_sees_imports_within_functions_and_relative_names(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def f():\n    from tbd import tracking\n    import torch\n")
    assert controller_modules(bad) == {"tbd.tracking"}
    assert libraries(bad) == {"torch"}
