"""Where a GPU's step goes, on constructed events: a launch-bound, a synchronising and a busy step."""

import pytest

from tbd.measure import idle, trace
from tbd.measure.events import Absent


def host(name, begin, end, category="cpu_op"):
    return trace.Event(name, category, begin, end, ("1", "1"))


def gpu(begin, end, category="kernel", stream=7, name="gemm"):
    return trace.Event(name, category, begin, end, ("0", str(stream)), "gpu:0")


def seconds(us):
    return us / 1e6


def test_a_device_that_waits_for_the_hosts_operators_is_launch_bound():
    events = [host("step", 0, 100), gpu(10, 20), gpu(50, 60), gpu(90, 100)]
    found = idle.step(events, seconds(80))
    assert found.active_s["compute"] == pytest.approx(30e-6)
    assert found.idle_share == pytest.approx(50 / 80), "of the unprofiled time"
    assert found.causes == {"launch": pytest.approx(50 / 80), "synchronisation": 0, "outside": 0}
    assert found.bound == "launch"


def test_each_idle_moment_has_one_cause():
    events = [
        host("conv", 0, 10), gpu(5, 20),
        host("cudaStreamSynchronize", 12, 30, "cuda_runtime"),  # the device is done at 20: 10 are the host's waiting
        host("relu", 30, 40), gpu(40, 60),  # 10 by launching
        host("end", 95, 100), gpu(95, 100),  # 35 in which the host is in no operator
    ]  # fmt: skip
    found = idle.step(events, seconds(100))
    # 5 more at the begin by launching; of 60 us of idle time in the trace, and as many of the unprofiled 100
    assert found.causes == pytest.approx({"launch": 0.15, "synchronisation": 0.10, "outside": 0.35})
    assert sum(found.causes.values()) == pytest.approx(found.idle_share)


def test_the_profilers_stretching_is_taken_out_of_the_idle_time_alone():
    """The trace is idle for 80 of 100 us, the unprofiled steps took 40: 20 are busy still, so 20 are idle."""
    events = [host("step", 0, 100), gpu(0, 20)]
    found = idle.step(events, seconds(40))
    assert found.share("compute") == pytest.approx(0.5)
    assert found.causes["launch"] == pytest.approx(0.5)


def test_what_overlaps_compute_is_not_exposed():
    events = [
        host("step", 0, 100), gpu(0, 60), gpu(40, 80, "gpu_memcpy", 8, "Memcpy HtoD"),
        gpu(70, 100, stream=9, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
    ]  # fmt: skip
    found = idle.step(events, seconds(100))
    assert found.share("copy") == pytest.approx(0.4)
    assert found.exposed_share("copy") == pytest.approx(0.2)
    assert found.share("communication") == pytest.approx(0.3)
    assert found.exposed_share("communication") == pytest.approx(0.3)
    assert (found.idle_share, found.bound) == (0, "")


def test_streams_that_run_at_once_are_busy_once():
    found = idle.step([host("step", 0, 100), gpu(0, 50), gpu(0, 50, stream=8), gpu(50, 95)], seconds(100))
    assert found.share("compute") == pytest.approx(0.95)
    assert found.bound == ""


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        ("cudaDeviceSynchronize", True), ("cudaStreamSynchronize", True), ("cuStreamSynchronize", True),
        ("cudaMemcpy", True), ("cudaMemcpyAsync", False), ("cuMemcpyDtoHAsync_v2", False), ("cuMemcpyDtoH_v2", True),
        ("cudaLaunchKernel", False), ("aten::_local_scalar_dense", False),
    ],
)  # fmt: skip
def test_the_calls_that_wait_for_the_device(name, waits):
    assert bool(idle.WAITS.search(name)) == waits


def test_a_cpus_trace_has_no_step_of_a_gpu():
    with pytest.raises(Absent, match="no GPU"):
        idle.step([host("step", 0, 100)], 1.0)


def test_a_gpu_that_is_busier_than_the_step_is_long_is_no_figure():
    with pytest.raises(Absent, match=r"2\.00 times"):
        idle.step([gpu(0, 100)], seconds(50))


def test_without_the_unprofiled_time_there_is_no_share():
    with pytest.raises(Absent, match="unprofiled_s"):
        idle.step([gpu(0, 100)], None)
