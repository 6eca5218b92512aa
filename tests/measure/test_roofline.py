"""The roofline of operators whose work is known."""

import json

import pytest

from tbd.measure import roofline, trace
from tbd.measure.roofline import Roof
from tbd.measure.trace import Call
from tbd.measure.work import Work

ROOF = Roof(2.0, 100.0)  # 2 TFLOP/s, 100 GB/s: from 20 FLOP/byte on arithmetic is the limit
BIG = Work("[1000, 1000] x [1000, 1000]", "fp32", 2 * 10**9, 12 * 10**6)
SMALL = Work("[1000, 1] x [1, 1000]", "fp32", 2 * 10**6, 4 * 10**6)


def test_the_roof_is_the_lower_of_arithmetic_and_memory():
    assert ROOF.ridge == 20
    assert [ROOF.at(intensity) for intensity in (2, 20, 200)] == [0.2, 2.0, 2.0]


def test_equal_calls_are_a_row_with_their_place_below_the_roof():
    calls = [
        Call("aten::mm", "fc", "forward", BIG, 2000.0), Call("aten::mm", "fc", "forward", BIG, 3000.0),
        Call("aten::mm", "a", "backward", SMALL, 80.0), Call("aten::mm", "b", "backward", SMALL, 80.0),
    ]  # fmt: skip
    big, small = roofline.table(calls, steps=2, device_us=10_000.0, roof=ROOF)
    assert (big["operator"], big["shapes"], big["layer"], small["layer"]) == ("aten::mm", BIG.shapes, "fc", "2 layers")
    assert (big["count_per_step"], big["ms_per_step"], big["share"]) == (1, 2.5, 0.5)
    assert big["intensity"] == pytest.approx(2e9 / 12e6)
    assert big["tflops"] == pytest.approx(0.8) and big["of_roof"] == big["of_peak"] == pytest.approx(0.4)
    assert small["intensity"] == 0.5 and small["roof_tflops"] == pytest.approx(0.05)
    assert small["of_roof"] == pytest.approx(0.5) and small["of_peak"] == pytest.approx(0.0125)
    # 4.004 GFLOP in 10 ms at 2 TFLOP/s
    told = roofline.summary(calls, 10_000.0, ROOF)
    assert told["mean_of_peak"] == pytest.approx(0.2002) and told["known_share"] == pytest.approx(0.516)
    assert (big["above_mean"], small["above_mean"]) == (True, False)


def test_without_a_measured_peak_there_is_no_roof_and_the_rest_stands():
    (row,) = roofline.table([Call("aten::mm", "", "", BIG, 1000.0)], 1, 1000.0, None)
    assert (row["tflops"], row["roof_tflops"], row["of_roof"], row["above_mean"]) == (2.0, None, None, None)
    assert roofline.summary([], 1000.0, None)["mean_of_peak"] is None


def event(name, category, begin, duration, tid=1, **args):
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": begin, "dur": duration, "args": args}


SHAPES = {"Input Dims": [[64, 32], [32, 16]], "Input type": ["float", "float"]}
LINEAR = {"Input Dims": [[64, 32], [16, 32]], "Input type": ["float", "float"]}


def calls(tmp_path, events):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(events))
    return [(call.operator, call.work.flops, call.us) for call in trace.read(path).calls]


def test_on_a_cpu_a_call_takes_its_own_time_and_that_of_what_it_calls(tmp_path):
    inner = event("aten::mm", "cpu_op", 12, 5, **SHAPES)
    alone = event("aten::mm", "cpu_op", 30, 5, **SHAPES)
    found = calls(tmp_path, [inner, event("aten::linear", "cpu_op", 10, 9, **LINEAR), alone])
    assert sorted(found) == [("aten::linear", 65536, 9), ("aten::mm", 65536, 5)], "nothing counts twice"


def test_on_a_gpu_a_call_takes_the_time_of_what_it_and_its_callees_launched(tmp_path):
    events = [
        event("aten::linear", "cpu_op", 0, 9, **{"External id": 1}, **LINEAR),
        event("aten::addmm", "cpu_op", 1, 5, **{"External id": 2}),
        event("aten::relu", "cpu_op", 20, 5, **{"External id": 3}),
        event("gemm", "kernel", 30, 40, tid=7, **{"External id": 2}),
        event("splitK", "kernel", 70, 4, tid=7, **{"External id": 2}),
        event("copy", "gpu_memcpy", 80, 1, tid=7, **{"External id": 1}),
        event("relu", "kernel", 90, 10, tid=7, **{"External id": 3}),
    ]
    assert calls(tmp_path, events) == [("aten::linear", 65536, 45)]
