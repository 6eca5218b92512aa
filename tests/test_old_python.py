"""The tests of the code that all frameworks share, in CNTK's environment: Python 3.6, and numpy as old as that."""

import subprocess
from pathlib import Path

import pytest

from tests.parity import cells

ROOT = Path(__file__).parent.parent
TOOLS = ["pytest==7.0.1", "pytest-timeout==2.1.0"]  # the last for Python 3.6
# What these need is not there: the controller, and the photographs of matplotlib and scikit-learn.
ELSEWHERE = [
    "tests/data/test_atari.py",
    "tests/data/test_imagenet64.py",
    "tests/data/test_voc.py",
    "tests/models/test_wgan.py",
]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pytest for Python 3.6, beside the environment, which stays what runs use."""
    folder = tmp_path_factory.mktemp("tools")
    command = [cells.framework_python("cntk"), "-m", "pip", "install", "--quiet", "--target", folder, *TOOLS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


FILES = sorted(
    str(path.relative_to(ROOT))
    for folder in ("worker", "data", "models")
    for path in (ROOT / "tests" / folder).glob("test_*.py")
)


@pytest.mark.parametrize("file", [file for file in FILES if file not in ELSEWHERE])
def test_shared_code_passes_its_tests(tools: Path, file: str) -> None:
    command = [cells.framework_python("cntk"), "-m", "pytest", "-q", "-p", "no:cacheprovider", file]
    variables = {"PYTHONPATH": str(tools), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
