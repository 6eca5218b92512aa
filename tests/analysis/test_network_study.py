"""Studies of networks on runs that the model itself made: its parameters come back, and what is said of it is true."""

import pytest

from tbd.analysis.evidence import Evidence
from tbd.analysis.network_study import studies
from tbd.analysis.runs import Run
from tbd.analysis.sections import network
from tbd.measure.network import GBIT_IN_BYTE, Step
from tbd.predict import of_one, taken
from tests.analysis.made import made

STEP, MB, ITEMS = Step(0.1, 0.03), 2.0, 16
SPEEDS = {"100mbit": 0.095, "1gbit": 0.95, "10gbit": 9.5}


def over(name: str, gbit: float, *, slower: float = 1.0, framework: str = "pytorch", **metrics: float) -> Run:
    step_s = STEP.seconds(MB * 1e6 * GBIT_IN_BYTE / gbit) * slower
    found = {"step_time_mean_ms": 1e3 * step_s, "link_gbit_per_s": gbit, "exchanged_of_ring": 2.0, **metrics}
    return made(
        "resnet50", 8, ITEMS / step_s, hardware="multi_node", nodes=2, framework=framework,
        tags={"tbd.network": name}, params={"hardware.network": name, "hardware.device": "cpu"},
        exchanged_mb_per_step=2 * MB, **found,
    )  # fmt: skip


def alone(rate: float) -> Run:
    return made("resnet50", 8, rate, hardware="multi_node", params={"hardware.device": "cpu"})


def test_runs_that_differ_in_the_network_alone_are_one_study() -> None:
    runs = [over(name, gbit) for name, gbit in SPEEDS.items()]
    (study,) = studies([*runs, alone(100.0), over("10gbit", 9.5, framework="mxnet")][::-1])[1:]
    assert [speed.network for speed in study.speeds] == list(SPEEDS)
    assert study.fit is not None and study.fit.step == pytest.approx(STEP)
    assert (study.items, study.sent_bytes, study.single) == pytest.approx((ITEMS, MB * 1e6, 100.0))


def test_repeats_over_a_network_are_one_speed_and_left_out_together() -> None:
    twice = [over("100mbit", 0.095, slower=factor) for factor in (0.9, 1.1)]
    (study,) = studies([*twice, over("1gbit", 0.95), over("10gbit", 9.5)])
    assert len(study.speeds) == 3
    assert study.fit is not None and study.fit.step == pytest.approx(STEP)


def test_one_network_alone_is_no_study_of_its_speed() -> None:
    (study,) = studies([over("1gbit", 0.95)])
    assert study.fit is None
    assert not network(Evidence([over("1gbit", 0.95)])).rows


def test_the_report_tells_where_the_network_is_the_bottleneck() -> None:
    section = network(Evidence([*(over(name, gbit) for name, gbit in SPEEDS.items()), alone(100.0)]))
    assert "compute 100.0 ms, overlap 30.0 ms" in section.text
    enough = STEP.enough_bytes_per_s(MB * 1e6) * GBIT_IN_BYTE
    assert f"the bottleneck up to {enough:.2g} Gbit/s" in section.text
    rows = {row["network"]: row for row in section.rows if row["network"] != "predicted"}
    assert rows["100mbit"]["by one device"] == f"{ITEMS / STEP.seconds(16 / 95) / 100:.2f} times"
    assert [row["Gbit/s"] for row in section.rows if row["network"] == "predicted"] == ["25", "100"]
    (chart,) = section.charts
    assert chart.mark == 100.0


def test_what_the_speeds_cannot_tell_is_said() -> None:
    slow = network(Evidence([over("100mbit", 0.095), over("200mbit", 0.19)]))
    assert "or less, as steps waited at every speed" in slow.text.replace("as much less than 84.2 ms", "or less")
    fast = network(Evidence([over("10gbit", 9.5), over("25gbit", 23.75)]))
    assert "as steps waited at no speed" in fast.text and "compute 100.0 ms" in fast.text


def test_a_prediction_takes_the_model_of_a_study() -> None:
    from unittest.mock import patch

    runs = [over(name, gbit, link_latency_us=40.0) for name, gbit in SPEEDS.items()]
    with patch("tbd.predict.exchanged_bytes", return_value=MB * 1e6):
        measured = taken([*runs, alone(100.0)])
    assert measured.step == pytest.approx(STEP)
    assert (measured.items, measured.latency_s) == pytest.approx((ITEMS / 2, 40e-6))


def test_of_a_run_whose_ranks_tell_their_waits_the_overlap_is_known() -> None:
    # 168.4 ms under way, of which 30 ms beside computation
    transfer = MB * 1e6 * GBIT_IN_BYTE / 0.095
    step_s = STEP.seconds(transfer)
    run = over("100mbit", 0.095, communication_share=(transfer - 0.03) / step_s, exchange_overlap_share=0.03 / transfer)
    assert of_one(run, MB * 1e6, 1).step == pytest.approx(STEP)
