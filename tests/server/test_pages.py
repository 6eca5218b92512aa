"""MLflow's pages from this server in a real browser: what a user does there with two runs of his."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow import MlflowClient
from playwright.sync_api import Browser, Error, Page, sync_playwright

from tbd.tracking import access, view
from tests import commands
from tests.browser import ARGUMENTS, program
from tests.server.stack import Stack, User

EXPERIMENT = "pages"
PATIENCE_MS = 120_000


@pytest.fixture(scope="module")
def user(stack: Stack) -> User:
    return stack.new_user()


@pytest.fixture(scope="module")
def spools(user: User, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs of tbd, recorded in the server by the user."""
    folder = tmp_path_factory.mktemp("runs")
    for size in (4, 8):
        done = commands.train(
            folder,
            *commands.SLEEP,
            f"batch_size={size}",
            "measure.passes=[timing,trace]",
            **user.variables,
            MLFLOW_EXPERIMENT_NAME=EXPERIMENT,
        )
        assert done.returncode == 0, done.stderr
    return commands.spools(folder)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program(), args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser, user: User, spools: list[Path]) -> Iterator[Page]:
    """The list of the experiment's runs, logged in."""
    login = {"username": user.name, "password": user.password}
    context = browser.new_context(http_credentials=login, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(user.url)
    page.get_by_text("Model training", exact=True).click()  # it opens on traces of language models
    page.get_by_role("link", name="Experiments").first.click()
    page.get_by_role("link", name=EXPERIMENT).first.click()
    page.get_by_text("2 matching runs").wait_for()
    yield page
    context.close()


def test_without_a_login_there_is_no_page(browser: Browser, stack: Stack) -> None:
    page = browser.new_page()
    with pytest.raises(Error, match="INVALID_AUTH_CREDENTIALS"):
        page.goto(stack.url)
    page.close()


def test_the_list_shows_our_figures(page: Page, user: User) -> None:
    with access.environment(user.variables):
        address = view.offer(MlflowClient(tracking_uri=user.url), EXPERIMENT)
    assert address is not None and address.startswith(user.url)
    page.goto(address)
    page.locator("[role=columnheader][col-id='metrics.`throughput`']").wait_for()


def test_two_runs_are_compared(page: Page) -> None:
    page.get_by_role("checkbox", name="Select all runs").check()
    page.get_by_role("button", name="Compare").click()
    page.get_by_text("Comparing 2 Runs").wait_for()
    sizes = page.get_by_role("row").filter(has_text=re.compile(r"^batch_size\d"))
    assert sorted(sizes.first.inner_text().split()[1:]) == ["4", "8"]


def test_the_summary_opens(page: Page) -> None:
    page.get_by_role("link", name="resnet50 sleep cpu").first.click()
    page.get_by_role("tab", name="Artifacts").click()
    page.get_by_text("summary.html", exact=True).click()
    summary = page.frame_locator("iframe").first
    summary.get_by_role("heading", name="Throughput").wait_for()
    assert "resnet50 sleep cpu" in summary.locator("h1").inner_text()


def test_a_trace_is_downloaded_as_it_was_written(page: Page, spools: list[Path]) -> None:
    page.get_by_role("link", name="resnet50 sleep cpu").first.click()
    page.get_by_role("tab", name="Artifacts").click()
    page.get_by_text("trace.json.gz", exact=True).click()
    page.get_by_text("Path: mlflow-artifacts:").wait_for()
    with page.expect_download() as download:
        page.locator("button[data-component-id*='artifactview']").click()
    sums = {hashlib.sha256((spool / "trace.json.gz").read_bytes()).hexdigest() for spool in spools}
    assert hashlib.sha256(Path(download.value.path()).read_bytes()).hexdigest() in sums
