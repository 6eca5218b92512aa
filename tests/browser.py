"""A real browser, headless Chromium, for pages that people look at."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu"]  # a sandbox within root's own account can't be made
SERIOUS = ("serious", "critical")  # as axe calls them


def program() -> str:
    """Where the browser is."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    assert found, "no browser is here: apt-get install chromium"
    return found


@contextlib.contextmanager
def opened(address: str | Path, **context: Any) -> Iterator[tuple[Page, list[str]]]:
    """(the page, what went wrong in it): errors in its console, and requests to anywhere but where it came from.

    `context`: of Playwright's browser contexts, such as color_scheme="dark".
    """
    address = address.absolute().as_uri() if isinstance(address, Path) else address
    wrong: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program(), args=ARGUMENTS)
        page = browser.new_context(**context).new_page()
        page.set_default_timeout(120_000)  # ms; a page of MLflow's takes long where others work
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        home = address.partition("#")[0] if address.startswith("file:") else "/".join(address.split("/")[:3])
        page.on("request", lambda request: None if request.url.startswith(home) else wrong.append(request.url))
        page.goto(address)
        yield page, wrong
        browser.close()


def violations(page: Page) -> list[str]:
    """What axe calls serious or critical of the page's accessibility."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {one['help']}: {node['html'][:200]}"
        for one in found
        if one["impact"] in SERIOUS
        for node in one["nodes"]
    ]
