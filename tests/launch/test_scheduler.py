"""What a scheduler's variables say of this process, and what they can't say."""

import pytest

from tbd.config.compose import compose_one
from tbd.config.errors import BadConfig
from tbd.config.plan import plan
from tbd.launch import scheduler
from tbd.train import main

TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
HERE = {"MASTER_ADDR": "first", "MASTER_PORT": "29500"}


def test_the_place_of_a_process_that_torchrun_started() -> None:
    place = scheduler.place({**TORCHRUN, **HERE, "TORCHELASTIC_USE_AGENT_STORE": "True"})
    assert place == (5, 8, 1, 4, "first", 29501)  # torchrun's own agent has the port that it names
    assert (place.node, place.nodes) == (1, 2)


def test_the_place_of_one_process_a_node_as_kubernetes_starts_them() -> None:
    place = scheduler.place({"RANK": "1", "WORLD_SIZE": "2", **HERE})
    assert place == (1, 2, 0, 1, "first", 29500)
    assert (place.node, place.nodes) == (1, 2)


@pytest.mark.parametrize("source", [{}, {"RANK": "0"}, {"RANK": "0", "WORLD_SIZE": "1"}])
def test_one_process_has_no_place_among_others(source: dict[str, str]) -> None:
    assert scheduler.place(source) is None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"MASTER_PORT": ""}, "MASTER_PORT is not: where is rank 0 to be reached?"),
        ({"MASTER_PORT": "here"}, "MASTER_PORT=here is no whole number"),
        ({"MASTER_PORT": "65536"}, "there is no port 65536"),
        ({"RANK": "-1"}, "RANK=-1 is no whole number of at least 0"),
        ({"RANK": "8"}, "can't be nodes with as many processes each"),
        ({"LOCAL_RANK": "0"}, "can't be nodes with as many processes each"),
        ({"LOCAL_WORLD_SIZE": "3"}, "can't be nodes with as many processes each"),
    ],
)
def test_variables_that_cannot_be_are_said(changed: dict[str, str], said: str) -> None:
    with pytest.raises(scheduler.BadVariables, match=said):
        scheduler.place({**TORCHRUN, **HERE, **changed})


@pytest.mark.parametrize(
    ("source", "task"),
    [
        ({}, None),
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}, None),
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "0"}, None),
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1"}, 1),
    ],
)
def test_the_first_task_of_a_step_has_the_run(source: dict[str, str], task: int | None) -> None:
    assert scheduler.later_task(source) == task


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**TORCHRUN, **HERE}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("overrides", [[], ["hardware=multi_node", "hardware.devices=2"]])
def test_other_nodes_and_devices_than_the_schedulers_are_refused(started: None, overrides: list[str]) -> None:
    with pytest.raises(BadConfig, match="say hardware.nodes=2 hardware.devices=4; or hardware.engine=processes"):
        plan(compose_one(["hardware.device=cpu", *overrides]))


def test_the_schedulers_nodes_are_taken_unless_processes_are_asked_for(started: None) -> None:
    overrides = ["hardware=multi_node", "hardware.device=cpu", "hardware.devices=4"]
    engine = plan(compose_one(overrides)).engine
    assert engine is not None and (engine.name, engine.why) == ("variables", "RANK=5 of WORLD_SIZE=8")
    engine = plan(compose_one([*overrides, "hardware.engine=processes"])).engine
    assert engine is not None and engine.name == "processes"


def test_variables_that_are_asked_for_and_not_there_are_said() -> None:
    with pytest.raises(BadConfig, match="hardware.engine=variables: RANK and WORLD_SIZE are not set"):
        plan(compose_one(["hardware.engine=variables"]))


def test_a_sweep_is_one_process(started: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-m", "seed=1,2"]) == 2
    assert "a sweep needs one process that starts its jobs" in capsys.readouterr().err
