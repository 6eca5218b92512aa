import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tbd.measure import figures
from tbd.measure.figures import Figures
from tbd.tracking.plots import ticks
from tbd.tracking.spool import Spool
from tbd.tracking.summary import number, page, unit_of
from tests.tracking import spools

HOSTILE = "<script>alert(1)</script>\"'&"


class Texts(HTMLParser):
    """The tags and the visible text of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_it_shows_what_was_measured_and_what_was_not(tmp_path: Path) -> None:
    spool = spools.finished(tmp_path)
    computed = figures.compute(spool.path)
    shown = Texts(page(spool, computed))
    for text in (
        "resnet50",
        "pytorch 2.13.0",
        "A CPU",
        "images/s",
        "conv <backward>",
        *computed.metrics,
        *computed.absent,
    ):
        if not text.startswith("throughput_ci"):  # the interval stands beside its figure
            assert text in shown.text
    assert all(reason in shown.text for reason in computed.absent.values())
    assert shown.tags.count("svg") >= 2


def test_it_stands_by_itself_and_nothing_in_it_runs(tmp_path: Path) -> None:
    spool = spools.begun(tmp_path, name=HOSTILE)
    spool.write_request({"model": {"name": HOSTILE}, "hardware": {"name": HOSTILE}})
    events = spools.timing(1.0, 1.0)
    events[1]["devices"] = [{"name": HOSTILE}]
    spools.write_events(spool, events)
    spool.end("crashed", HOSTILE)
    computed = figures.compute(spool.path)
    computed.warnings.append(HOSTILE)
    computed.absent["x"] = HOSTILE
    row = {"name": HOSTILE, "category": HOSTILE, "count_per_step": 1.0, "self_ms_per_step": 1.0, "share": 1.0}
    computed.tables["operators"] = [row]
    text = page(spool, computed)
    shown = Texts(text)
    assert shown.text.count(HOSTILE) >= 8
    assert not {"script", "link", "iframe", "img"} & set(shown.tags)
    assert not re.search(r"https?://|url\(|@import| on\w+=", text.replace(HOSTILE, ""))


def test_memory_states_its_denominator(tmp_path: Path) -> None:
    metrics = {"memory/peak_mb": 200.0, "memory/weights_mb": 50.0, "memory/feature_maps_mb": 150.0}
    text = Texts(page(spools.begun(tmp_path), Figures(metrics=metrics))).text
    assert "25.0%" in text and "75.0%" in text
    assert "the allocator's peak, 200 MB" in text


def test_a_run_without_anything_has_a_page(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path, "early", experiment="e")
    spool.end("environment_failed", "pip found no torch")
    assert "pip found no torch" in page(spool, figures.compute(spool.path))


def test_pictures_are_well_formed_and_described(tmp_path: Path) -> None:
    spool = spools.finished(tmp_path)
    text = page(spool, figures.compute(spool.path))
    for picture in re.findall(r'<svg role="img".*?</svg>', text, re.DOTALL):
        root = ElementTree.fromstring(picture)
        assert root[0].tag == "title" and root[0].text


@pytest.mark.parametrize(
    "name, expected",
    [
        ("throughput", ("images/s", 1.0)),
        ("throughput_source tokens", ("source tokens/s", 1.0)),
        ("step_time_p50_ms", ("ms", 1.0)),
        ("startup_build_s", ("s", 1.0)),
        ("memory/peak_mb", ("MB", 1.0)),
        ("memory/feature_maps_share", ("%", 100.0)),
        ("cpu_utilization", ("%", 100.0)),
        ("achieved_tflops", ("TFLOP/s", 1.0)),
        ("energy_j_per_item", ("J/item", 1.0)),
        ("loss_first", ("", 1.0)),
        ("steady", ("", 1.0)),
    ],
)
def test_units(name: str, expected: tuple[str, float]) -> None:
    assert unit_of(name, "images") == expected


@pytest.mark.parametrize(
    "value, text", [(0, "0"), (1234567.8, "1,234,568"), (77.279, "77.28"), (0.0123456, "0.01235"), (1e-7, "1.00e-07")]
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


def test_ticks_are_round_and_inside() -> None:
    assert ticks(0, 97) == [0, 20, 40, 60, 80]
    assert ticks(3, 3) == [3]
    assert ticks(0.1, 0.35) == pytest.approx([0.1, 0.15, 0.2, 0.25, 0.3, 0.35])
