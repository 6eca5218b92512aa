"""The documentation builds as a site without a warning, asks nothing of other hosts, and its commands can be given."""

import importlib
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml

from tbd.config.compose import compose_one, jobs_of
from tests.browser import opened, violations
from tests.commands import ROOT, environment

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND = re.compile(
    r"^(?: {4,}|    \$ )((?:python -m tbd\.|make |mlflow run ).*)|`((?:python -m tbd\.|make )[^`]*)`", re.M
)

PLACEHOLDER = re.compile(r"[A-Z]{3}|\.\.\.|^key=")  # what the reader is to put something else for


def commands() -> list[str]:
    """Every command in an indented block, or in the text, of any page; without its comment."""
    found = [a or b for page in PAGES for a, b in COMMAND.findall(page.read_text())]
    return list(dict.fromkeys(re.split(r"\s{2,}#|\s#\s", command)[0].strip() for command in found))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, env=environment(NO_MKDOCS_2_WARNING="1"), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    return folder


def test_the_site_has_every_page_and_their_links_lead_somewhere(site: Path) -> None:
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    named = {page for entry in navigation for part in entry.values() for page in pages(part)}
    assert {page.name for page in PAGES[2:]} >= named
    for page in site.rglob("index.html"):
        for link in re.findall(r'<a [^>]*href="([^"#:]+)[#"]', page.read_text()):
            assert (page.parent / link).exists(), (page.relative_to(site), link)


def pages(part: object) -> list[str]:
    return [part] if isinstance(part, str) else [page for one in part for page in one.values()]  # type: ignore[attr-defined]


def test_the_site_in_a_browser(site: Path) -> None:
    for page in ("tutorial", "metrics", "configuration"):
        with opened(site / page / "index.html") as (shown, _):
            assert shown.locator("h1").is_visible()
            assert violations(shown) == []


def test_the_site_asks_nothing_of_other_hosts(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not re.search(r'<(?:script|link|img|iframe)[^>]*(?:src|href)="https?://', page.read_text()), page


@cache
def help_of(module: str) -> str:
    """What `python -m MODULE --help` prints, in this process."""
    import contextlib
    import io

    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        importlib.import_module(module).main(["--help"])
    return text.getvalue()


def in_words(command: str) -> list[str]:
    """As a shell would have them, without what stands for the reader's own and for options left out."""
    words = shlex.split(re.sub(r"\[[^\]\s]*(?: [^\]]*)?\]|\.\.\.(?=\s|$)|\$\(.*\)|[|>&;].*", "", command))
    return [word for word in words if word]


@pytest.mark.parametrize("command", commands())
def test_a_command_can_be_given(command: str) -> None:
    words = in_words(command)
    if words[0] == "make":
        targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
        assert {word for word in words[1:] if "=" not in word} <= targets
    elif words[0] == "mlflow":
        assert words[words.index("-e") + 1] in yaml.safe_load((ROOT / "MLproject").read_text())["entry_points"]
    elif words[2] == "tbd.train":
        overrides = [word for word in words[3:] if "=" in word and not PLACEHOLDER.search(word)]
        compose_one(jobs_of(overrides, "-m" in words)[-1])
    elif words[2] != "tbd.worker":
        assert importlib.util.find_spec(words[2]), f"there is no {words[2]}"
        known = help_of(words[2])
        options = {word.partition("=")[0] for word in words[3:] if word.startswith("--")}
        assert options <= set(re.findall(r"--[a-z][a-z0-9-]*", known)) | {"--help"}, known
