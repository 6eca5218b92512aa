import math

import pytest
from mlflow.utils.validation import _validate_metric, _validate_param, _validate_tag

from tbd.measure.figures import Point
from tbd.tracking import record

ODD = [
    "throughput",
    "memory/peak_mb",
    "a(b)%@c",
    "../up",
    "/top",
    "a//b",
    "a/./b",
    "ünï/ko de",
    "",
    ".",
    "..",
    "a" * 400,
]


@pytest.mark.parametrize("name", ODD)
def test_names_are_legal_in_mlflow(name: str) -> None:
    key = record.legal(name)
    _validate_metric(key, 1.0, 0, 0)
    _validate_param(key, "value")
    _validate_tag(key, "value")


def test_good_names_stay() -> None:
    assert record.legal("memory/feature_maps_mb") == "memory/feature_maps_mb"


def test_params_are_flat_and_distinct() -> None:
    config = {"a": {"b": 1, "c": [1, 2]}, "x%": "p=q, 'r'", "x@": None, "e": {}}
    assert record.params(config) == {"a.b": "1", "a.c": "[1, 2]", "x_": "p=q, 'r'", "x__": "None", "e": "{}"}


def test_long_values_are_cut_with_a_note() -> None:
    value = record.params({"a": "x" * 7000})["a"]
    assert len(value) == 6000
    assert value.endswith(" [cut: 7000 characters in all]")
    assert record.params({"a": "x" * 6000})["a"] == "x" * 6000


@pytest.mark.parametrize(
    "status, expected", [("ok", "FINISHED"), ("interrupted", "KILLED"), ("out_of_memory", "FAILED"), ("x", "FAILED")]
)
def test_status(status: str, expected: str) -> None:
    assert record.terminal_status(status) == expected


def test_short_series_go_as_they_are() -> None:
    points = [Point(3, 1.5, 2.0), Point(4, 2.5, 1.0)]
    assert record.series({"loss": points}) == {"loss": points}


def numbers(count: int) -> list[Point]:
    return [Point(n, float(n), float(n)) for n in range(count)]


def test_long_series_are_thinned_to_means_up_to_the_last_point() -> None:
    points = record.series({"x": numbers(2501)})["x"]
    assert points[:500] == numbers(500)
    assert points[500] == Point(501, 501.0, 500.5) and points[1000] == Point(1503, 1503.0, 1501.5)
    assert len(points) == 500 + 500 + 251
    assert points[-1] == Point(2500, 2500.0, 2500.0)
    assert len(record.series({"x": numbers(100_000)})["x"]) < 4100


def test_a_series_that_goes_on_keeps_the_points_that_it_has() -> None:
    whole = record.series({"x": numbers(5000)})["x"]
    for count in (3, 500, 501, 502, 1499, 1503, 4999):
        so_far = record.series({"x": numbers(count)}, goes_on=True)["x"]
        assert so_far == whole[: len(so_far)] and whole[len(so_far)].step >= count


def test_what_mlflow_cannot_hold_is_counted() -> None:
    points = [Point(step, 0.0, value) for step, value in enumerate([1.0, math.nan, math.inf, 2.0])]
    kept, skipped = record.finite({"a": points, "b": points[:1]})
    assert kept == {"a": [points[0], points[3]], "b": points[:1]}
    assert skipped == {"a": 2}
