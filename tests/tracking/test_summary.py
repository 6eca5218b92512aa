import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tbd.measure import figures
from tbd.measure.figures import Figures
from tbd.measure.metrics import find, number
from tbd.tracking.plots import ticks
from tbd.tracking.spool import Spool
from tbd.tracking.summary import page
from tests.tracking import spools
from tests.tracking.pages import Page

HOSTILE = "<script>alert(1)</script>\"'&"


def test_it_shows_what_was_measured_and_what_was_not(tmp_path: Path) -> None:
    spool = spools.finished(tmp_path)
    computed = figures.compute(spool.path)
    shown = Page(page(spool, computed))
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
    shown = Page(text)
    assert shown.text.count(HOSTILE) >= 8
    assert not {"script", "link", "iframe", "img"} & set(shown.tags)
    assert not re.search(r"https?://|url\(|@import| on\w+=", text.replace(HOSTILE, ""))


def test_memory_states_its_denominator(tmp_path: Path) -> None:
    metrics = {"memory/peak_mb": 200.0, "memory/weights_mb": 50.0, "memory/feature_maps_mb": 150.0}
    text = Page(page(spools.begun(tmp_path), Figures(metrics=metrics))).text
    assert "25.0%" in text and "75.0%" in text
    assert "the allocator's peak, 200 MB" in text


def test_the_slack_and_the_profilers_cost_are_stated(tmp_path: Path) -> None:
    row = {"name": "mm", "category": "cpu_op", "count_per_step": 1.0, "self_ms_per_step": 1.0, "share": 1.0}
    metrics = {"memory/peak_mb": 200.0, "memory/other_mb": 50.0, "memory/slack_mb": 12.5, "trace_disturbance": 1.5}
    text = Page(page(spools.begun(tmp_path), Figures(metrics=metrics, tables={"operators": [row]}))).text
    assert "within other: the allocator's slack, handed out beyond what was asked for: 12.50 MB" in text
    assert "The profiler made these steps take 1.50 times as long." in text


def test_repeats_have_a_row_each(tmp_path: Path) -> None:
    rows = [{"pass": f"timing.{n}", "throughput": 10.0 + n, "steps": 16, "seconds": 4.0} for n in (2, 3)]
    text = Page(page(spools.begun(tmp_path), Figures(metrics={"throughput": 12.5}, tables={"repeats": rows}))).text
    assert "timing.2" in text and "12.00" in text and "timing.3" in text and "13.00" in text


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
    "name, value, expected",
    [
        ("throughput", 1234.567, ("1,234.57", "images/s")),
        ("throughput_source tokens", 5.0, ("5.00", "source tokens/s")),
        ("throughput_repeats_median", 5.0, ("5.00", "images/s")),
        ("throughput_repeats_spread", 0.125, ("12.5", "%")),
        ("step_time_p50_ms", 77.279, ("77.3", "ms")),
        ("startup_build_s", 0.25, ("0.25", "s")),
        ("memory/peak_mb", 462.14, ("462.1", "MB")),
        ("memory/feature_maps_share", 0.25, ("25.0", "%")),
        ("cpu_utilization", 1.0, ("100.0", "%")),
        ("achieved_tflops", 0.04567, ("0.04567", "TFLOP/s")),
        ("trace_disturbance", 1.834, ("1.83", "times")),
        ("energy_j_per_item", 0.5, ("0.5", "J/item")),
        ("loss_first", 6.9, ("6.9000", "")),
        ("steady", 1.0, ("1", "")),
    ],
)
def test_numbers_and_units(name: str, value: float, expected: tuple[str, str]) -> None:
    metric = find(name)
    assert (metric.number(value), metric.unit_shown("images")) == expected


@pytest.mark.parametrize(
    "value, text", [(0, "0"), (1234567.8, "1,234,568"), (77.279, "77.28"), (0.0123456, "0.01235"), (1e-7, "1.00e-07")]
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


def test_ticks_are_round_and_inside() -> None:
    assert ticks(0, 97) == [0, 20, 40, 60, 80]
    assert ticks(3, 3) == [3]
    assert ticks(0.1, 0.35) == pytest.approx([0.1, 0.15, 0.2, 0.25, 0.3, 0.35])
