"""The report as a page: in a real browser, by the keyboard, on paper, and with whatever runs may be called."""

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tbd.analysis.page import page
from tbd.analysis.reporting import Report
from tbd.analysis.runs import Run
from tests.analysis.made import made, sweep, traced
from tests.browser import opened, violations

HOSTILE = "<script>alert(1)</script>\"'&"
FIGURES = {
    "mfu": 0.3, "cpu_utilization": 0.5, "memory__peak_mb": 100.0, "memory__weights_mb": 20.0,
    "memory__feature_maps_mb": 80.0, "memory__feature_maps_share_of_structures": 0.8, "energy_j_per_item": 2.0,
    "memory__feature_maps_highest_mb": 90.0, "loss_first": 7.0, "loss_last": 6.0,
}  # fmt: skip


def runs(folder: Path) -> list[Run]:
    operators = traced(folder, [("aten::conv2d", "cpu_op", 0.6), ("aten::batch_norm", "cpu_op", 0.4)])
    found = []
    for place in ("cpu", "single_gpu"):
        for framework in ("pytorch", "jax"):
            for model in ("resnet50", "seq2seq", "wgan", "a3c"):
                rates = {4: 50.0, 8: 90.0, 16: 95.0}
                gpu = {"gpu_compute_utilization": 0.7} if place == "single_gpu" else {}
                found += sweep(model, rates, framework=framework, hardware=place, folder=operators, **FIGURES, **gpu)
    several = made("resnet50", 8, 160.0, framework="jax", hardware="multi_gpu", devices=2)
    lost = made("seq2seq", 512, status="out_of_memory", hardware="single_gpu", tags={"tbd.cause": "no room"})
    return [*found, several, lost]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return Report("tests", runs(tmp_path_factory.mktemp("spool")))


@pytest.fixture(scope="module")
def file(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page(report), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def shown(file: Path) -> Iterator[tuple[Page, list[str]]]:
    """The page in a browser that all tests share, and what went wrong in it."""
    with opened(file) as found:
        yield found


def test_in_a_browser(shown: tuple[Page, list[str]]) -> None:
    page, wrong = shown
    assert page.locator("article").count() == 13
    boxes = page.locator("svg").evaluate_all(
        "all => all.map(e => [e.getBoundingClientRect().width, e.getBoundingClientRect().height,"
        " e.querySelectorAll('path').length])"
    )
    assert len(boxes) > 10 and all(width > 200 and height > 50 and paths > 3 for width, height, paths in boxes)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "no sideways scrolling"
    assert wrong == []


def test_by_the_keyboard(shown: tuple[Page, list[str]]) -> None:
    page, _ = shown
    page.reload()
    page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == "To the content"
    page.keyboard.press("Enter")
    assert page.url.endswith("#content")
    details = page.locator("details").first
    before = details.get_attribute("open") is not None
    details.locator("summary").focus()
    page.keyboard.press("Enter")
    assert (details.get_attribute("open") is not None) is not before
    region = page.locator(".wide").first
    region.focus()
    assert region.evaluate("element => element === document.activeElement")


def test_on_a_telephone_and_on_paper(shown: tuple[Page, list[str]]) -> None:
    page, _ = shown
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.emulate_media(media="print")
    assert not page.get_by_role("navigation").is_visible()
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_it_stands_by_itself_and_nothing_in_it_runs() -> None:
    hostile = made(
        HOSTILE, 8, 1.0, framework=HOSTILE, device=HOSTILE,
        tags={"framework_version": HOSTILE, "tbd.throughput_unit": HOSTILE, "tbd.overrides": HOSTILE},
    )  # fmt: skip
    lost = made(HOSTILE, status="crashed", tags={"tbd.cause": HOSTILE})
    text = page(Report(HOSTILE, [hostile, lost]))
    assert "<script" not in text
    assert not re.search(r"<(?:link|iframe|img)\b|https?://|url\((?!#)|@import", text)


def test_the_paper_is_told_from_the_runs(report: Report, file: Path) -> None:
    text = file.read_text()
    assert "recalled and worded anew" in text
    for finding in report.findings:
        if finding.recalled:
            assert re.match("From its abstract: |Recalled: ", finding.recalled)
            assert f"The paper: {finding.recalled}" in text


def test_the_data_are_the_runs(report: Report) -> None:
    rows = list(csv.DictReader(io.StringIO(report.to_csv())))
    assert len(rows) == len(report.runs)
    first = report.runs[0]
    assert float(rows[0]["throughput"]) == first.metrics["throughput"]
    assert rows[0]["hardware.threads"] == "2" and rows[-1]["status"] == "out_of_memory"
    whole = json.loads(report.to_json())
    assert [one["number"] for one in whole["observations"]] == list(range(1, 14))
    assert len(whole["runs"]) == len(report.runs)
    assert {one["name"] for one in whole["recommendations"]} >= {"batch too small"}


def test_what_verdicts_on_a_first_look_are_worth_is_said() -> None:
    first_look = Report(
        "a look", [made("wgan", 8, 1.0, params={"model.size": "small", "measure.repeats": "1"}), made()]
    )
    small, once = first_look.notes
    assert small.startswith("1 of 2 runs are of small networks") and once.startswith("1 of 2 runs have one timing pass")
    assert all(note in text for note in first_look.notes for text in (page(first_look), first_look.to_markdown()))


def test_a_report_on_nothing_says_so() -> None:
    text = page(Report("nothing", []))
    assert text.count("not enough data") >= 13
