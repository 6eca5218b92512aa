"""Pictures are well formed, described, follow the page's colours, and hold what they are given."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from tbd.analysis.charts import MOST_BARS, Bars, Chart, Line, Lines, draw

LINES = Lines("Rate <over> batch", "batch", "images/s", {
    "resnet50": [Line("pytorch & co", [8, 16, 32], [1.0, 2.0, 3.0], [0.9, 1.9, 2.9], [1.1, 2.1, 3.1])],
    "wgan": [Line("jax", [4], [5.0])],
})  # fmt: skip
BARS = Bars("Memory", "MB", ["a <b>", "c"], {"weights": [1.0, 2.0], "feature maps": [3.0, 0.0]}, mark=2.0)


@pytest.mark.parametrize("chart", [LINES, BARS])
def test_it_is_a_picture_for_a_page(chart: Chart) -> None:
    text = draw(chart)
    root = ElementTree.fromstring(text)
    assert root.tag == "svg" and root.get("role") == "img" and root.get("aria-label") == chart.title
    assert "viewBox" in root.attrib and "width" not in root.attrib
    assert not re.search(r"https?:|#fe00", text), "no address, and no colour but the page's"
    assert "var(--c0)" in text
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_every_word_is_in_it() -> None:
    shown = {element.text for element in ElementTree.fromstring(draw(LINES)).iter("text")}
    assert {"pytorch & co", "jax", "resnet50", "wgan", "8", "16", "32", "images/s", "batch"} <= shown
    shown = {element.text for element in ElementTree.fromstring(draw(BARS)).iter("text")}
    assert {"a <b>", "c", "weights", "feature maps", "MB"} <= shown


def test_bars_are_as_long_as_what_they_stand_for() -> None:
    """The second bar's first part is twice the first's."""
    widths = []
    for element in ElementTree.fromstring(draw(BARS)).iter("path"):
        if element.get("style") == "fill: var(--c0)" and element.get("clip-path"):
            x = [float(point.split()[0]) for point in re.split("[ML]", element.get("d", ""))[1:]]
            widths.append(max(x) - min(x))
    assert len(widths) == 2 and widths[1] == pytest.approx(2 * widths[0], rel=1e-4)


def test_two_pictures_share_no_ids() -> None:
    other = Lines("Another", "batch", "", LINES.panels)
    ids = [set(re.findall(r' id="([^"]+)"', draw(chart))) for chart in (LINES, other)]
    assert not ids[0] & ids[1]


def test_a_picture_has_an_end() -> None:
    many = Bars("Many", "MB", [f"bar {n}" for n in range(500)], {"MB": [1.0] * 500})
    assert draw(many).count("bar ") == MOST_BARS
