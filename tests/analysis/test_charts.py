"""Pictures are well formed, described, follow the page's colours, and hold what they are given."""

import math
import re
import xml.etree.ElementTree as ElementTree

import pytest

from tbd.analysis.charts import MOST_BARS, Bars, Chart, Line, Lines, draw, number

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
    assert not re.search(r"https?:|#[0-9a-f]{3}", text), "no address, and no colour but the page's"
    assert "var(--c0)" in text
    assert " id=" not in text, "several pictures stand in one page"


def test_every_word_is_in_it() -> None:
    shown = {element.text for element in ElementTree.fromstring(draw(LINES)).iter("text")}
    assert {"pytorch & co", "jax", "resnet50", "wgan", "8", "16", "32", "images/s", "batch"} <= shown
    shown = {element.text for element in ElementTree.fromstring(draw(BARS)).iter("text")}
    assert {"a <b>", "c", "weights", "feature maps", "MB"} <= shown


def drawn(element: ElementTree.Element) -> list[tuple[float, float]]:
    """The points of a path of straight lines."""
    return [(float(x), float(y)) for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", element.get("d", ""))]


def test_bars_are_as_long_as_what_they_stand_for() -> None:
    """One MB is as long in every part of every bar, parts stand one after the other, and the mark is where 2 MB end."""
    root = ElementTree.fromstring(draw(BARS))
    bars = [element for element in root.findall("rect") if element.get("height") == "13.5"]
    begin, length = ([float(element.get(name, "nan")) for element in bars] for name in ("x", "width"))
    one = length[0]
    assert length == pytest.approx([one, 2 * one, 3 * one, 0.0], abs=0.02)
    assert begin == pytest.approx([begin[0], begin[0], begin[0] + one, begin[0] + 2 * one], abs=0.02)
    dashed = next(element for element in root.findall("path") if "dasharray" in element.get("style", ""))
    assert drawn(dashed)[0][0] == pytest.approx(begin[0] + 2 * one, abs=0.1)


def test_points_stand_where_their_numbers_say() -> None:
    """Against the axis' own ticks: in doublings across, from 0 upwards, and intervals reach from end to end."""
    panel = Lines("One", "batch", "images/s", {"wgan": LINES.panels["resnet50"]})
    root = ElementTree.fromstring(draw(panel))
    place = {element.text: element for element in root.iter("text")}
    zero, three = (float(place[word].get("y", "nan")) - 3 for word in ("0", "3"))
    by_unit = (zero - three) / 3
    coloured = [drawn(one) for one in root.findall("path") if "stroke:var(--c0)" in one.get("style", "")]
    (line,), intervals = (list(filter(test, coloured)) for test in (lambda p: len(p) == 3, lambda p: len(p) == 2))
    x = [float(place[word].get("x", "nan")) for word in ("8", "16", "32")]
    assert [point[0] for point in line] == pytest.approx(x, abs=0.1)
    assert x[2] - x[1] == pytest.approx(x[1] - x[0], abs=0.1)
    assert [(zero - y) / by_unit for _, y in line] == pytest.approx([1.0, 2.0, 3.0], abs=0.01)
    ends = [(zero - y) / by_unit for points in intervals for _, y in points]
    assert ends == pytest.approx([0.9, 1.1, 1.9, 2.1, 2.9, 3.1], abs=0.01)


def test_what_is_no_number_is_not_drawn() -> None:
    """An interval without an end goes to the top of the axis, which finite values give."""
    line = Line("a", [1, 2, 4], [1.0, math.nan, 2.0], [0.5, math.nan, 0.0], [1.5, math.nan, math.inf])
    text = draw(Lines("One", "x", "y", {"a": [line]}))
    assert not re.search("nan|inf", text)
    assert "1.5" in ElementTree.fromstring(text).itertext(), "an axis of 0 to 2"


@pytest.mark.parametrize(
    "value, word", [(0, "0"), (0.5, "0.5"), (5000, "5000"), (15000, "15k"), (1.5e6, "1.5M"), (2e9, "2G")]
)
def test_numbers_of_an_axis_are_short(value: float, word: str) -> None:
    assert number(value) == word


def test_a_picture_has_an_end() -> None:
    many = Bars("Many", "MB", [f"bar {n}" for n in range(500)], {"MB": [1.0] * 500})
    assert draw(many).count("bar ") == MOST_BARS
