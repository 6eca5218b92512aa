"""Return codes become a status and a cause in the user's words."""

import signal

import pytest

from tbd.launch.ends import end_of, oom_kills_so_far
from tbd.worker import status


@pytest.mark.parametrize("name", status.EXIT_CODES)
def test_the_workers_own_exit_codes_are_its_statuses(name):
    found, cause = end_of(status.EXIT_CODES[name], ["first", "tbd: said why", ""])
    assert found == name
    assert cause == ("" if name == status.OK else "tbd: said why")


@pytest.mark.parametrize("code", [-signal.SIGSEGV, 128 + signal.SIGSEGV])
def test_a_signal_is_named_as_subprocess_and_as_a_shell_give_it(code):
    assert end_of(code, []) == (status.CRASHED, "killed by SIGSEGV")


def test_sigkill_is_out_of_memory_only_where_the_kernel_killed_for_memory():
    assert end_of(-signal.SIGKILL, [], oom_kills=0) == (status.CRASHED, "killed by SIGKILL")
    assert end_of(-signal.SIGKILL, [], oom_kills=1)[0] == status.OUT_OF_MEMORY
    assert end_of(-signal.SIGSEGV, [], oom_kills=1)[0] == status.CRASHED


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_request_to_end_is_an_interruption(number):
    assert end_of(-number, []) == (status.INTERRUPTED, f"ended by {number.name}")


def test_a_signal_without_a_name_is_given_by_its_number():
    assert end_of(-(signal.SIGRTMIN + 3), [])[1] == f"killed by signal {signal.SIGRTMIN + 3}"


def test_a_command_that_is_not_there_is_the_environments_fault():
    assert end_of(127, ["bash: python: command not found"]) == (
        status.ENVIRONMENT_FAILED,
        "bash: python: command not found",
    )


def test_any_other_code_is_a_crash_with_its_last_line():
    assert end_of(1, ["Traceback", "ValueError: no"]) == (status.CRASHED, "exit status 1: ValueError: no")
    assert end_of(1, []) == (status.CRASHED, "exit status 1: it printed nothing")


def test_the_kernels_count_can_be_read():
    assert oom_kills_so_far() >= 0
