"""memory_breakdown.json of a step whose every buffer is known."""

import json

import pytest

from tbd.measure import memory_report
from tbd.measure.events import Absent
from tbd.measure.run import Run

MB = 10**6


def buffer(mb, born, died, category, name="", **more):
    return {"bytes": mb * MB, "born": born, "died": died, "category": category, "name": name, **more}


MEMORY = {
    "schema": 1,
    "buffers": [
        buffer(10, 0, None, "weights", "block.conv.weight"),
        buffer(2, 0, None, "weights", "block.conv.bias"),
        buffer(4, 0, None, "weights", "fc.weight"),
        buffer(10, 0, None, "optimizer_state", "block.conv.weight exp_avg"),
        buffer(30, 1, 7, "feature_maps", "relu", layer="block.conv"),
        buffer(5, 2, 6, "feature_maps", "pool"),
        buffer(20, 4, 5, "workspace", "conv scratch", layer="block.conv"),
        buffer(4, 6, 9, "weight_gradients", "fc.weight"),
    ],
    "steps": [0, 10],
    "phases": {"forward": [0, 3], "backward": [3, 8], "update": [8, 10]},
    "allocator": {"name": "known", "peak_bytes": 84 * MB, "slack_bytes": 2 * MB},
    "method": "as written",
}


@pytest.fixture
def report(sleep_run):
    spool, _ = sleep_run({"memory": MEMORY, "rss_peak_bytes": 100 * MB})
    return memory_report.report(Run(spool))


def test_the_peak_is_where_the_buffers_are_the_most(report):
    assert report["peak"]["position"] == 4
    assert report["peak"]["phase"] == "backward"
    assert report["peak"]["allocator_mb"] == 84
    assert report["peak"]["categories_mb"] == {
        "weights": 16, "weight_gradients": 0, "optimizer_state": 10, "feature_maps": 35, "workspace": 20, "input": 0,
        "communication": 0, "other": 3,
    }  # fmt: skip


def test_slack_untracked_and_what_is_outside_the_allocator_are_apart(report):
    peak = report["peak"]
    assert (peak["slack_mb"], peak["untracked_mb"], peak["outside_allocator_mb"]) == (2, 1, 16)


def test_every_share_has_its_denominator(report):
    shares = report["shares"]
    assert shares["of_peak"]["feature_maps"] == pytest.approx(35 / 84)
    assert shares["of_peak_denominator"] == "the allocator's peak"
    assert shares["of_structures"]["feature_maps"] == pytest.approx(35 / 81)
    assert shares["of_structures_denominator"].split(" + ") == list(shares["of_structures"])


def test_layers_are_those_of_the_parameters_and_of_the_operations(report):
    rows = {row.pop("layer"): row for row in report["layers"]}
    assert list(rows) == ["block.conv", "fc", ""]
    assert rows["block.conv"] == {
        "weights_mb": 12, "weight_gradients_mb": 0, "optimizer_state_mb": 10, "feature_maps_mb": 30,
    }  # fmt: skip
    assert (rows["fc"]["weights_mb"], rows["fc"]["weight_gradients_mb"]) == (4, 4)
    assert rows[""]["feature_maps_mb"] == 5


def test_the_timeline_begins_with_what_was_there_and_has_the_phases(report):
    first = report["timeline"][0]
    assert (first["position"], first["weights"], first["feature_maps"]) == (0, 16, 0)
    assert max(sum(row[name] for name in row if name != "position") for row in report["timeline"]) == 81
    assert report["phases"]["backward"] == [3, 8]


def test_without_the_allocators_peak_shares_are_of_the_buffers(sleep_run):
    spool, _ = sleep_run({"memory": {**MEMORY, "allocator": {"name": "mute"}}})
    found = memory_report.report(Run(spool))
    assert found["peak"]["allocator_mb"] is None
    assert found["shares"]["of_peak_denominator"] == "the recorded buffers' sum"
    assert sum(found["shares"]["of_peak"].values()) == pytest.approx(1)


def test_a_run_without_the_record_has_no_report(sleep_run):
    spool, _ = sleep_run({"absent": {"memory": "no way to know"}})
    with pytest.raises(Absent, match="no way to know"):
        memory_report.report(Run(spool))


def test_it_is_plain_json(report):
    assert json.loads(json.dumps(report, allow_nan=False)) == report
