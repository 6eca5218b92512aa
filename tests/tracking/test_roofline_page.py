"""What is shown of a run's roofline: a picture, and the longest operators above and below the mean."""

from tbd.measure import roofline
from tbd.measure.figures import Figures
from tbd.measure.roofline import Roof
from tbd.measure.trace import Call
from tbd.measure.work import Work
from tbd.tracking import roofline_page
from tests.tracking.pages import Page

ROOF = Roof(2.0, 100.0)
HOSTILE = "<script>alert(1)</script>\"'&"
CALLS = [
    Call("aten::mm", HOSTILE, "forward", Work("[1000, 1000] x [1000, 1000]", "fp32", 2 * 10**9, 12 * 10**6), 2000.0),
    Call("aten::bmm", "attention", "backward", Work("[9, 9, 9] x [9, 9, 9]", "fp32", 13122, 8748), 500.0),
]


def figures(calls: list[Call], roof: Roof | None) -> Figures:
    table, summary = roofline.table(calls, 1, 10_000.0, roof), roofline.summary(calls, 10_000.0, roof)
    return Figures(tables={"roofline": table, "roof": [summary]})


def test_each_point_says_what_it_is_and_the_tables_divide_by_the_mean() -> None:
    page = Page(roofline_page.section(figures(CALLS, ROOF)))
    assert page.tags.count("circle") == 2 and "script" not in page.tags
    point = next(line for line in page.text.splitlines() if line.startswith("aten::bmm [9, 9, 9] x [9, 9, 9] fp32"))
    assert "backward, attention: 0.5 ms a step in 1 calls, 5.0% of the time; 1.5 FLOP/byte" in point
    below, above = page.text.index("longest below the mean"), page.text.index("longest above the mean")
    assert below < page.text.index("aten::bmm", below) < above < page.text.index("aten::mm", above)
    assert "Of 25% of the device's time the operations are known" in page.text
    assert page.text.count(HOSTILE) == 2, "in its point and in its row"


def test_the_picture_is_a_png() -> None:
    assert roofline_page.picture(HOSTILE, figures(CALLS, ROOF)).startswith(b"\x89PNG")


def test_the_roof_begins_within_the_picture_and_bends_at_the_ridge() -> None:
    found = figures(CALLS, ROOF)
    low_x, high_x, low_y, _ = roofline_page._frame(found.tables["roofline"], found.tables["roof"][0])
    corners = roofline_page._line(low_x, high_x, low_y, found.tables["roof"][0])
    assert corners[1:] == [(20.0, 2.0), (high_x, 2.0)]
    assert corners[0][0] >= low_x and corners[0][1] >= low_y


def test_without_a_roof_or_without_operators_nothing_is_shown() -> None:
    for found in (figures(CALLS, None), figures([], ROOF), Figures()):
        assert roofline_page.section(found) == "" and roofline_page.picture("run", found) == b""
