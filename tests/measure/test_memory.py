"""The live set at the peak, and its agreement with the allocator."""

import json

import numpy as np
import pytest

from tbd.measure import memory
from tbd.measure.events import Absent, Model


def record(tmp_path, buffers, peak=None, slack=0, steps=(1, 100), **allocator):
    keys = ("bytes", "born", "died", "category", "name")
    content = {
        "schema": 1,
        "buffers": [dict(zip(keys, (*buffer, "n"), strict=True)) for buffer in buffers],
        "steps": steps,
        "allocator": {"name": "a", "peak_bytes": peak, "slack_bytes": slack, **allocator},
        "method": "",
    }
    path = tmp_path / "memory.json"
    path.write_text(json.dumps(content))
    return memory.read(path)


def test_a_buffer_is_dead_from_its_death_on(tmp_path):
    """One that dies when another is born is not alive beside it."""
    found = memory.breakdown(record(tmp_path, [(10, 2, 5, "workspace"), (10, 5, 9, "workspace")]))
    assert found.tracked_bytes == 10


def test_a_buffer_that_dies_where_it_was_born_never_lived(tmp_path):
    found = memory.breakdown(record(tmp_path, [(10, 2, 9, "workspace"), (90, 5, 5, "workspace")]))
    assert found.tracked_bytes == 10


def test_what_died_before_the_step_does_not_count(tmp_path):
    buffers = [(900, 0, 3, "workspace"), (10, 0, None, "weights"), (5, 7, 8, "workspace"), (700, 60, 70, "workspace")]
    found = memory.breakdown(record(tmp_path, buffers, steps=(5, 50)))
    assert (found.tracked_bytes, found.position) == (15, 7)


def test_the_live_set_is_that_of_a_slow_reckoning(tmp_path):
    generator = np.random.default_rng(1)
    buffers = []
    for _ in range(300):
        born = int(generator.integers(0, 100))
        died = None if generator.random() < 0.2 else born + int(generator.integers(0, 50))
        buffers.append((int(generator.integers(1, 1000)), born, died, str(generator.choice(memory.CATEGORIES))))

    def live(t, category):
        return sum(b for b, born, died, c in buffers if c == category and born <= t and (died is None or t < died))

    totals = {t: sum(live(t, c) for c in memory.CATEGORIES) for t in range(10, 91)}
    found = memory.breakdown(record(tmp_path, buffers, steps=(10, 90)))
    assert found.tracked_bytes == max(totals.values())
    assert found.live == {c: live(found.position, c) for c in memory.CATEGORIES}


def test_the_live_set_is_that_at_the_allocators_peak_where_that_is_known(tmp_path):
    """Slack may make the allocator's peak elsewhere than the buffers': both are taken at the same moment."""
    buffers = [(30, 2, 5, "feature_maps"), (40, 6, 9, "workspace")]
    found = memory.breakdown(record(tmp_path, buffers, peak=100, slack=70, peak_at=4))
    assert (found.live["feature_maps"], found.live["workspace"], found.untracked_bytes) == (30, 0, 0)


def test_the_categories_sum_to_the_allocators_peak(tmp_path):
    read = record(tmp_path, [(1000, 0, None, "weights"), (500, 3, 9, "feature_maps")], peak=1600, slack=95)
    found = memory.breakdown(read)
    assert sum(found.live.values()) == 1600
    assert found.live["other"] == 100
    assert found.untracked_bytes == 5
    assert memory.warnings(read, found, None) == []


@pytest.mark.parametrize(("peak", "told"), [(2000, "25.0% less"), (1200, "25.0% more")])
def test_buffers_that_do_not_add_up_are_told(tmp_path, peak, told):
    read = record(tmp_path, [(1500, 0, None, "weights")], peak=peak)
    found = memory.breakdown(read)
    assert [warning for warning in memory.warnings(read, found, None) if told in warning]


def test_buffers_and_slack_that_exceed_the_peak_are_told_by_how_much(tmp_path):
    read = record(tmp_path, [(985, 0, None, "weights")], peak=1000, slack=40)
    assert memory.warnings(read, memory.breakdown(read), None) == [
        "the recorded buffers and the allocator's slack sum to 2.5% more than the allocator's peak memory"
    ]


def test_more_buffers_than_the_allocators_peak_are_not_cut(tmp_path):
    found = memory.breakdown(record(tmp_path, [(1500, 0, None, "weights")], peak=1200))
    assert (found.live["weights"], found.live["other"], found.untracked_bytes) == (1500, 0, -300)


def test_without_the_allocators_peak_there_is_no_peak(tmp_path):
    read = record(tmp_path, [(1500, 0, None, "weights")])
    figures = memory.figures(read, memory.breakdown(read))
    assert "memory/peak_mb" not in figures
    assert figures["memory/weights_mb"] == 0.0015


def test_weights_of_the_wrong_size_are_told(tmp_path):
    read = record(tmp_path, [(1500, 0, None, "weights")])
    model = Model("images", weights_bytes=1504, optimizer_state_bytes=0)
    assert memory.warnings(read, memory.breakdown(read), model) == [
        "weights take 1500 bytes in memory, by the specification 1504"
    ]


def test_outside_the_allocator():
    assert memory.outside_allocator_mb(3e6, 1e6) == 2
    with pytest.raises(Absent, match="never touched"):
        memory.outside_allocator_mb(1e6, 3e6)
    with pytest.raises(Absent, match="resident memory in the warm steps is not known"):
        memory.outside_allocator_mb(None, 3e6)
    with pytest.raises(Absent, match="allocator told no peak"):
        memory.outside_allocator_mb(3e6, None)


def test_a_long_timeline_is_thinned_but_keeps_its_peak(tmp_path):
    buffers = [(1, t, None if t == 2500 else t + 1, "workspace") for t in range(1, 5000)] + [(7, 2501, 2502, "input")]
    table = memory.timeline_table(record(tmp_path, buffers, steps=(1, 5000)))
    totals = [sum(row[category] for category in memory.CATEGORIES) for row in table]
    assert len(table) == memory.TIMELINE_POINTS
    assert max(totals) == pytest.approx(9e-6)


@pytest.mark.parametrize(
    "damage",
    [{"category": "feature maps"}, {"bytes": -1}, {"bytes": "x"}, {"born": None}, {"died": -1}, {"died": float("nan")}],
    ids=repr,
)
def test_a_damaged_buffer_is_a_damaged_record(tmp_path, damage):
    record(tmp_path, [(1500, 0, None, "weights")])
    path = tmp_path / "memory.json"
    content = json.loads(path.read_text())
    content["buffers"][0].update(damage)
    path.write_text(json.dumps(content))
    with pytest.raises(Absent, match=r"not as docs/memory\.md says"):
        memory.read(path)


def test_no_buffers(tmp_path):
    with pytest.raises(Absent, match="no buffer"):
        memory.breakdown(record(tmp_path, []))


def test_feature_maps_highest_is_not_theirs_at_the_peak_of_all(tmp_path):
    # 30 MB of feature maps in the forward pass, then 40 MB of workspace after they are gone: that is the peak
    buffers = [(30e6, 1, 5, "feature_maps"), (40e6, 6, 8, "workspace")]
    recorded = record(tmp_path, buffers, peak=40e6)
    assert memory.breakdown(recorded).live["feature_maps"] == 0
    assert memory.feature_maps_highest_mb(recorded) == 30
