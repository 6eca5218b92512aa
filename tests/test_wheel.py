"""Installed as a wheel, away from the checkout: conf/ and entrypoints/ travel inside."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tbd import frameworks, models
from tests.commands import ROOT, SLEEP, end, environment, only_spool


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's content, as pip puts it into site-packages."""
    dist = tmp_path_factory.mktemp("dist")
    site = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(dist)], cwd=ROOT, check=True)
    (wheel,) = dist.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    return site


def run(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env=environment(PYTHONPATH=str(installed)),
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_help_knows_every_group(installed: Path, tmp_path: Path) -> None:
    done = run(installed, tmp_path, "tbd.train", "--help")
    assert done.returncode == 0, done.stderr
    assert "model: " + ", ".join(models.names()) in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_run_from_any_folder(installed: Path, tmp_path: Path) -> None:
    done = run(installed, tmp_path, "tbd.train", *SLEEP)
    assert done.returncode == 0, done.stderr
    assert end(only_spool(tmp_path))["status"] == "ok"


def test_the_frameworks_projects_are_there(installed: Path, tmp_path: Path) -> None:
    code = "from tbd.launch import files, project; print([project.load(n).name for n in files.framework_names()])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment(PYTHONPATH=str(installed)), capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == str(frameworks.names())
