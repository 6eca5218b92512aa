"""XPlane events and the Chrome trace made of them, on constructed profiles."""

from tbd.frameworks.tensorflow import xplane as tensorflow
from tbd.frameworks.xla import chrome, xplane
from tbd.frameworks.xla.messages import HloProto, XSpace
from tbd.frameworks.xla.xplane import Event


def host(name, begin_ns=0, end_ns=1000, line=7, line_name="tf_Compute/7", **stats):
    return Event("/host:CPU", line, line_name, begin_ns, end_ns, name, stats)


def stream(name, begin_ns=0, end_ns=1000, line_name="Stream #13(Memset,Compute)", **stats):
    return Event("/device:GPU:0", 13, line_name, begin_ns, end_ns, name, stats)


def space(name, stat_names, **plane):
    """An XSpace of one plane."""
    pairs = [{"key": key, "value": {"name": stat}} for key, stat in stat_names.items()]
    return XSpace(planes=[dict(plane, name=name, stat_metadata=pairs)])


def test_events_have_times_in_nanoseconds_and_named_stats():
    stats = [{"metadata_id": 1, "int64_value": 0}, {"metadata_id": 2, "ref_value": 3}]
    event = {"metadata_id": 1, "offset_ps": 2_000, "duration_ps": 3_500, "stats": stats}
    line = {"id": 5, "name": "thread", "timestamp_ns": 100, "events": [event]}
    metadata = [{"key": 1, "value": {"name": "forward/MatMul:MatMul"}}]
    names = {1: "addr", 2: "tf_op", 3: "forward/MatMul"}
    assert list(xplane.events(space("/host:CPU", names, lines=[line], event_metadata=metadata))) == [
        Event("/host:CPU", 5, "thread", 102, 105.5, "forward/MatMul:MatMul", {"addr": 0, "tf_op": "forward/MatMul"})
    ]


def test_compiled_programs_are_found_by_their_ids():
    program = HloProto(hlo_module={"name": "jit_step"})
    stats = [{"metadata_id": 1, "uint64_value": 7}, {"metadata_id": 2, "bytes_value": program.SerializeToString()}]
    metadata = [{"key": 1, "value": {"name": "jit_step(7)", "stats": stats}}]
    names = {1: "program_id", 2: "Hlo Proto"}
    assert xplane.programs(space("/host:metadata", names, event_metadata=metadata)) == {7: program}


def test_an_operation_is_named_by_name_and_type():
    assert tensorflow.operation(host("forward/Conv2D_3:Conv2D")) == ("forward/Conv2D_3", "Conv2D")


def test_functions_and_annotations_are_no_operations():
    for name in ("KernelAndDeviceFunc::Run", "EagerLocalExecute: one_step", "one_step", "ParallelFor"):
        assert tensorflow.operation(host(name)) == ("", "")


def test_the_trace_has_operations_by_type_in_microseconds_from_the_first():
    events = [host("forward/MatMul:MatMul", 5_000, 9_000), host("forward/Relu:Relu", 3_000, 4_500), host("one_step")]
    found = [event for event in chrome.chrome_trace(events, tensorflow.operation)["traceEvents"] if event["ph"] == "X"]
    assert [(e["cat"], e["name"], e["ts"], e["dur"], e["args"]["op"]) for e in found] == [
        ("cpu_op", "Relu", 0, 1.5, "forward/Relu"),
        ("cpu_op", "MatMul", 2, 4, "forward/MatMul"),
    ]


def test_the_trace_sorts_gpu_work_by_kind_and_leaves_out_derived_lines():
    events = [
        stream("volta_sgemm", tf_op="forward/MatMul:MatMul"),
        stream("MemcpyH2D"),
        stream("Memset"),
        stream("forward/MatMul", line_name="TensorFlow Ops"),
    ]
    found = [event for event in chrome.chrome_trace(events, tensorflow.operation)["traceEvents"] if event["ph"] == "X"]
    assert [(e["cat"], e["name"]) for e in found] == [
        ("kernel", "volta_sgemm"),
        ("gpu_memcpy", "MemcpyH2D"),
        ("gpu_memset", "Memset"),
    ]


def test_threads_and_processes_are_named_once():
    events = [host("a/Relu:Relu"), host("b/Relu:Relu"), host("c/Relu:Relu", line=8, line_name="python"), stream("k")]
    names = [e for e in chrome.chrome_trace(events, tensorflow.operation)["traceEvents"] if e["ph"] == "M"]
    assert [(e["name"], e["pid"], e.get("tid"), e["args"]["name"]) for e in names] == [
        ("process_name", 1, None, "/host:CPU"),
        ("process_name", 2, None, "/device:GPU:0"),
        ("thread_name", 1, 1, "tf_Compute"),
        ("thread_name", 1, 2, "python"),
        ("thread_name", 2, 3, "Stream #13(Memset,Compute)"),
    ]


def test_an_empty_profile_is_an_empty_trace():
    assert chrome.chrome_trace([], tensorflow.operation)["traceEvents"] == []
