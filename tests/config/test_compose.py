"""From overrides to configurations: which jobs they ask for, and what is said of those that can't be composed."""

import os
import shutil
from pathlib import Path

import pytest

from tbd.config import compose
from tbd.config.errors import BadConfig


def test_the_groups_bring_their_values_and_overrides_win() -> None:
    (config,) = compose.compose_jobs(["model=resnet50", "framework=pytorch", "model.width=8", "seed=7"], False)
    assert (config.model.name, config.model.width, config.framework.name, config.seed) == ("resnet50", 8, "pytorch", 7)
    assert config.data.name == "synthetic"  # the model's own choice
    assert config.batch_size == config.model.default_batch_size.cpu
    assert config.hardware.threads == len(os.sched_getaffinity(0))


def test_a_given_data_source_wins_over_the_models_choice() -> None:
    (config,) = compose.compose_jobs(["model=seq2seq", "data=synthetic"], False)
    assert config.data.name == "synthetic"


def test_a_sweep_is_the_product_of_its_lists_in_order_and_keeps_single_values() -> None:
    jobs = compose.jobs_of(["model=resnet50,seq2seq", "seed=3", "batch_size=4,8"], multirun=True)
    assert jobs == [
        ["model=resnet50", "seed=3", "batch_size=4"],
        ["model=resnet50", "seed=3", "batch_size=8"],
        ["model=seq2seq", "seed=3", "batch_size=4"],
        ["model=seq2seq", "seed=3", "batch_size=8"],
    ]


def test_a_quoted_comma_is_no_list() -> None:
    override = "model.blocks='1,2,1,1'"
    assert compose.jobs_of([override], multirun=False) == [[override]]
    (config,) = compose.compose_jobs(["model=resnet50", override], False)
    assert config.model.blocks == "1,2,1,1"


def test_a_model_without_its_configuration_is_told_from_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(compose.config_folder(), tmp_path / "conf")
    (tmp_path / "conf" / "model" / "wgan.yaml").unlink()
    monkeypatch.setattr(compose, "config_folder", lambda: tmp_path / "conf")
    with pytest.raises(BadConfig, match="tbd/models/wgan is there, but no conf/model/wgan.yaml"):
        compose.compose_one(["model=wgan"])


def test_composing_again_gives_the_same() -> None:
    first, second = (compose.compose_jobs(["model=seq2seq"], False) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["model=resnet5"], "model=resnet5: there is no such model. Did you mean resnet50? Choices: "),
        (["measure.step=3"], "measure.step: there is no such key. Did you mean measure.steps"),
        (["batch_size=many"], "batch_size=many: Value 'many' of type 'str' could not be converted to Integer"),
        (["framework.options.x=1"], "+framework.options.x="),
        (["foo"], "'foo' is no override"),
        (["seed=1,2"], "seed=1,2: several values need a sweep (add -m)"),
    ],
)
def test_what_cannot_be_composed_is_one_line(overrides: list[str], said: str) -> None:
    with pytest.raises(BadConfig) as caught:
        compose.compose_jobs(overrides, multirun=False)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_flatten_dots_the_keys_and_keeps_lists_and_empty_groups() -> None:
    values = {"a": {"b": 1, "c": {"d": [1, 2]}}, "e": {}}
    assert compose.flatten(values) == {"a.b": 1, "a.c.d": [1, 2], "e": {}}
