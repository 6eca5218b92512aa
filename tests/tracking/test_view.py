"""The view that MLflow's page of our experiment opens with, in MLflow's own page and a real browser."""

import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tbd.measure.metrics import METRICS
from tbd.server.settings import free_ports
from tbd.tracking import derived, view
from tbd.tracking.follower import follow
from tbd.tracking.store import Settings, opened
from tests.browser import opened as shown_in_browser
from tests.commands import environment
from tests.tracking import spools


def test_it_names_figures_that_there_are() -> None:
    named = {column.split("`")[1] for column in view.COLUMNS if column.startswith("metrics")}
    named |= {metric for metrics in view.BARS.values() for metric in metrics} | set(view.OVER_BATCH.values())
    assert named <= set(METRICS)
    assert len(view.state()) < 5000, "MLflow's database takes no more in an experiment's tag"


@pytest.fixture
def address(settings: Settings, tmp_path: Path) -> Iterator[str]:
    """MLflow's own server over a store with a run, and the view's address there."""
    spool = spools.finished(tmp_path / "runs", experiment="tbd", tags={"tbd.model": "resnet50"})
    follow(spool, settings, derived.write(spool))
    with opened(str(settings.uri)) as client:
        assert view.offer(client, "no such experiment") is None
        found = view.offer(client, "tbd")
    assert found is not None
    (port,) = free_ports(1)
    server = subprocess.Popen(
        [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", str(settings.uri), "--port", str(port),
         "--workers", "1"],
        env=environment(MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false"), stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        answers(f"http://127.0.0.1:{port}/health", server)
        yield found.replace(view.ADDRESS, f"http://127.0.0.1:{port}")
    finally:
        server.terminate()
        server.wait(30)


def answers(url: str, server: "subprocess.Popen[bytes]", limit_s: float = 120) -> None:
    deadline = time.monotonic() + limit_s
    while True:
        try:
            urllib.request.urlopen(url, timeout=5)
            return
        except OSError:
            assert server.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)


def test_mlflow_shows_its_columns_and_charts(address: str) -> None:
    with shown_in_browser(address, viewport={"width": 2400, "height": 1200}) as (page, _):
        page.locator(header("metrics.`throughput`")).wait_for()
        for name in ("tags.`tbd.status`", "params.`model.name`", "params.`batch_size`"):
            assert page.locator(header(name)).count() == 1, name
        assert page.locator(header("metrics.`steady`")).count() == 0
        page.goto(address + "&compareRunsMode=CHART")
        for name in ("Speed", "Memory", "batch_size vs. throughput"):
            page.get_by_text(name, exact=True).first.wait_for()


def header(column: str) -> str:
    return f"[role=columnheader][col-id='{column}']"
