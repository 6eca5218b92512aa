"""Operator, layer and phase of events, on a constructed trace in the form of PyTorch's profiler."""

import json

import pytest

from tbd.measure import breakdown, trace
from tbd.measure.events import Absent


def event(name, category, begin, duration, tid=1, **args):
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": begin, "dur": duration, "args": args}


def mark(name, begin, end):
    return event(name, "user_annotation", begin, end - begin)


KINETO = [
    mark("tbd forward", 0, 40), mark("tbd backward", 40, 90), mark("tbd update", 90, 120),
    mark("tbd layer block", 5, 38), mark("tbd layer block.conv", 10, 20),
    event("aten::conv2d", "cpu_op", 10, 9, **{"External id": 1, "Sequence number": 11}),
    event("cudaLaunchKernel", "cuda_runtime", 12, 2, correlation=101, **{"External id": 1}),
    event("aten::relu", "cpu_op", 25, 5, **{"External id": 2, "Sequence number": 12}),
    event("cudaLaunchKernel", "cuda_runtime", 26, 2, correlation=102, **{"External id": 2}),
    # the backward pass runs in a thread of its own
    event("ConvolutionBackward0", "cpu_op", 50, 20, tid=2, **{"External id": 3, "Sequence number": 11}),
    event("cudaLaunchKernel", "cuda_runtime", 55, 2, tid=2, correlation=103, **{"External id": 3}),
    event("Optimizer.step", "cpu_op", 95, 20, **{"External id": 4}),
    event("cudaLaunchKernel", "cuda_runtime", 100, 2, correlation=104, **{"External id": 4}),
    # the device is late: the forward pass's second kernel runs while the host is in the backward pass
    event("implicit_gemm", "kernel", 30, 30, tid=7, device=1, correlation=101, **{"External id": 1}),
    event("relu_kernel", "kernel", 60, 10, tid=7, device=1, correlation=102, **{"External id": 2}),
    event("dgrad", "kernel", 70, 40, tid=7, device=1, correlation=103, **{"External id": 3}),
    event("sgd", "kernel", 110, 20, tid=7, device=1, correlation=104, **{"External id": 4}),
]  # fmt: skip


@pytest.fixture
def read(tmp_path):
    def read(events):
        path = tmp_path / "trace.json"
        path.write_text(json.dumps({"traceEvents": events}))
        return trace.read(path).events

    return read


def test_a_kernel_is_of_the_operator_layer_and_phase_that_launched_it(read):
    found = {e.name: (e.device, e.operator, e.layer, e.phase) for e in read(KINETO) if e.on_gpu}
    assert found == {
        "implicit_gemm": ("gpu:1", "aten::conv2d", "block.conv", "forward"),
        "relu_kernel": ("gpu:1", "aten::relu", "block", "forward"),
        "dgrad": ("gpu:1", "ConvolutionBackward0", "block.conv", "backward"),
        "sgd": ("gpu:1", "Optimizer.step", "", "update"),
    }


def test_the_order_of_the_file_does_not_matter(read):
    assert sorted(read(KINETO)) == sorted(read(KINETO[::-1]))


def test_time_by_phase_and_layer_is_the_devices(read):
    found = breakdown.timed(read(KINETO))
    assert [breakdown.phase_share(found, p) for p in ("forward", "backward", "update")] == [0.4, 0.4, 0.2]
    rows = breakdown.by_layer(found, steps=2)
    assert rows[0] == {
        "layer": "block.conv", "ms": 0.035, "forward_ms": 0.015, "backward_ms": 0.02, "update_ms": 0,
    }  # fmt: skip
    assert [row["layer"] for row in rows] == ["block.conv", "", "block"]


def test_kernels_are_grouped_by_their_operators(read):
    found = breakdown.timed(read(KINETO))
    assert breakdown.by_operator(found, steps=1)[0] == {
        "operator": "ConvolutionBackward0", "ms_per_step": 0.04, "kernels_per_step": 1,
    }  # fmt: skip
    first, *_ = breakdown.longest(found, steps=1)
    assert (first["name"], first["operator"], first["layer"]) == ("dgrad", "ConvolutionBackward0", "block.conv")
    assert first["share"] == 0.4


def test_an_event_that_says_where_it_belongs_is_believed(read):
    of_xla = event("fusion", "kernel", 0, 5, op="jit(f)/transpose(jvp(forward))/dot", layer="fc", phase="backward")
    (found,) = read([of_xla, mark("tbd forward", 0, 10)])
    assert (found.operator, found.layer, found.phase) == ("jit(f)/transpose(jvp(forward))/dot", "fc", "backward")


def test_on_a_cpu_time_is_an_operators_own(read):
    events = [mark("tbd forward", 0, 50), mark("tbd backward", 50, 100), event("outer", "cpu_op", 0, 40)]
    found = breakdown.timed(read([*events, event("inner", "cpu_op", 10, 20), event("grad", "cpu_op", 60, 20)]))
    assert [(e.name, t) for e, t in found] == [("outer", 20), ("inner", 20), ("grad", 20)]
    assert breakdown.phase_share(found, "backward") == pytest.approx(1 / 3)


def test_what_an_operator_calls_is_of_its_layer(read):
    engine = event("evaluate_function: MmBackward0", "cpu_op", 50, 20, tid=2, **{"Sequence number": 11})
    inner = event("aten::mm", "cpu_op", 55, 10, tid=2)
    found = {e.name: e.layer for e in read([*KINETO, engine, inner])}
    assert found["aten::mm"] == "block.conv"


def test_a_sequence_number_ties_the_backward_pass_alone(read):
    """Outside of it an operator bears the number of the one that comes next."""
    copy = event("aten::to", "cpu_op", 0, 2, tid=3, **{"Sequence number": 11})
    assert [e.layer for e in read([*KINETO, copy]) if e.name == "aten::to"] == [""]


def test_a_phase_that_no_event_is_of_has_no_share(read):
    found = breakdown.timed(read([event("a", "cpu_op", 0, 5, phase="forward")]))
    assert breakdown.phase_share(found, "forward") == 1
    with pytest.raises(Absent, match="what is of the update"):
        breakdown.phase_share(found, "update")


def test_a_trace_without_phases_has_no_split(read):
    with pytest.raises(Absent, match="doesn't tell"):
        breakdown.phase_share(breakdown.timed(read([event("a", "cpu_op", 0, 5)])), "forward")


@pytest.mark.parametrize(
    ("name", "category", "alone", "beside_a_gpu"),
    [
        ("aten::mm", "cpu_op", "compute", "host"),
        ("gloo:all_reduce", "cpu_op", "communication", "communication"),
        ("c10d::allreduce_", "cpu_op", "communication", "communication"),
        ("cudaLaunchKernel", "cuda_runtime", "host", "host"),
    ],
)
def test_the_kind_of_what_is_on_the_host(read, name, category, alone, beside_a_gpu):
    one, kernel = event(name, category, 0, 5), event("gemm", "kernel", 1, 2)
    assert trace.kinds(read([one])) == [alone]
    assert trace.kinds(read([one, kernel])) == [beside_a_gpu, "compute"]


@pytest.mark.parametrize(
    ("name", "category", "kind"),
    [
        ("ampere_sgemm_128x64_nn", "kernel", "compute"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "kernel", "communication"),
        ("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", "copy"),
        ("Memset (Device)", "gpu_memset", "copy"),
    ],
)
def test_the_kind_of_what_is_on_a_gpu(read, name, category, kind):
    assert trace.kinds(read([event(name, category, 0, 5)])) == [kind]
