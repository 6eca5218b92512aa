"""From a composed configuration to a plan: what is filled in, and what is refused in which words."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tbd.config.errors import BadConfig
from tbd.config.plan import Plan, repeated
from tbd.launch import managers
from tbd.models.seq2seq.specification import Seq2Seq

PlanOf = Callable[..., Plan]
SLEEP = str(Path(__file__).parent.parent / "sleep_framework")


def test_the_models_options_are_filled_in_from_its_size(plan_of: PlanOf) -> None:
    model = plan_of("model=resnet50", "model.size=small", "model.classes=7").config["model"]
    assert {key: model[key] for key in ("image_size", "classes", "width", "blocks")} == {
        "image_size": 32,
        "classes": 7,
        "width": 8,
        "blocks": "1,1,1,1",
    }


def test_the_source_resolves_its_options(plan_of: PlanOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TBD_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    data = plan_of("model=seq2seq", "data=gettext").config["data"]
    assert data["root"] == str(tmp_path / "home" / "data" / "gettext")
    assert data["catalogues"] and all(Path(folder).is_dir() for folder in data["catalogues"])
    assert plan_of("data=iwslt15", "data.root=texts").config["data"]["root"] == str(tmp_path / "texts")


def test_the_request_says_all_that_the_worker_needs_and_nothing_of_the_controllers(
    plan_of: PlanOf, tmp_path: Path
) -> None:
    plan = plan_of("model=resnet50", "data=synthetic", "measure.repeats=2", "batch_size=3", "precision=fp64")
    request = plan.request("0" * 32, tmp_path)
    assert request["model"] == dict(
        name="resnet50", size="full", image_size=224, classes=1000, width=64, blocks="3,4,6,3"
    )
    assert (request["batch_size"], request["precision"], request["data"]) == (3, "fp64", {"name": "synthetic"})
    assert request["measure"]["passes"] == ["timing", "timing.2", "trace", "memory"]
    assert not {"timeout_s", "repeats"} & set(request["measure"])
    assert (request["rank"], request["world_size"], request["output"]) == (0, 1, str(tmp_path))
    assert plan.title.split()[0] == plan.tags["tbd.model"] == "resnet50"


def test_compile_is_resolved_to_the_frameworks_usual(plan_of: PlanOf) -> None:
    usual, asked = plan_of("framework=pytorch"), plan_of("framework=pytorch", "compile=inductor", "precision=bf16")
    assert (usual.config["compile"], asked.config["compile"]) == ("eager", "inductor")
    assert asked.unsupported is None
    assert (asked.tags["tbd.compile"], asked.tags["tbd.precision"]) == ("inductor", "bf16")


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["framework=pytorch", "compile=xla"], "compile=xla: pytorch runs eager or inductor"),
        (["framework=pytorch", "precision=tf32"], "tf32 is for a gpu"),
    ],
)
def test_what_a_framework_does_not_offer_is_unsupported_with_its_reason(
    plan_of: PlanOf, overrides: list[str], said: str
) -> None:
    assert said in str(plan_of(*overrides).unsupported)


def test_only_the_timing_pass_is_repeated() -> None:
    assert repeated(["trace", "timing"], 3) == ["trace", "timing", "timing.2", "timing.3"]
    assert repeated(["memory"], 3) == ["memory"]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["model.width=0"], "model.width=0 must be a whole number of at least 1"),
        (["model.width=true"], "model.width=True must be a whole number of at least 1"),
        (["model.size=tiny"], "model.size=tiny is not one of full, small"),
        (["+model.depth=3"], "model=seq2seq has no option depth; it has layers, source_vocabulary"),
        (["model=resnet50", "model.blocks=x"], "model.blocks=x must be four whole numbers of at least 1"),
        (["model=resnet50", "model.blocks='0,1'"], "model.blocks=0,1 must be four whole numbers of at least 1"),
        (["model=resnet50", "model.blocks=3"], "model.blocks=3 must be text"),
        (["data.max_length=0"], "data.max_length=0 must be a whole number of at least 1"),
        (["data=iwslt15"], "data.root must be given: add data.root=..."),
        (["+framework.pyton=/usr/bin/python"], "+framework.pyton: there is no such key"),
        (["+hardware.gpus=2"], "+hardware.gpus: there is no such key"),
        (["+measure.step=3"], "+measure.step: there is no such key"),
        (["+tracking.url=x"], "+tracking.url: there is no such key"),
        (["+x=1"], "+x: there is no such key"),
        (["+framework.options.xla=true"], "framework.options.xla: framework=tensorflow has no options"),
        (["framework.env_manager=pip"], f"is not one of {', '.join(managers.NAMES)}"),
        (["measure.passes=[timing,timing]"], "each once: timing, trace, memory"),
        (["measure.passes=[speed]"], "measure.passes=speed is not one of timing, trace, memory"),
        (["precision=fp8"], "precision=fp8 is not one of fp32, fp64, tf32, bf16, fp16"),
        (["compile=cc"], "compile=cc is not one of eager, "),
        (["seed=4294967296"], "seed=4294967296 is too large: at most 4294967295"),
        (["hardware=single_gpu", "hardware.nodes=2"], "hardware=single_gpu is one device of one machine"),
        (["framework=custom", "framework.name=x", "framework.project=/nowhere"], "/nowhere"),
    ],
)
def test_what_cannot_be_run_is_one_line(plan_of: PlanOf, overrides: list[str], said: str) -> None:
    with pytest.raises(BadConfig, match=re.escape(said)) as caught:
        plan_of(*overrides)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", managers.SYNONYMS)
def test_other_names_of_an_environment_manager_are_taken(plan_of: PlanOf, name: str) -> None:
    assert plan_of(f"framework.env_manager={name}").config["framework"]["env_manager"] == name


def test_a_project_of_the_users_own_has_its_own_options(plan_of: PlanOf) -> None:
    plan = plan_of("framework=custom", "framework.name=sleep", f"framework.project={SLEEP}", "+framework.options.x=1")
    assert plan.config["framework"]["options"] == {"x": 1}
    assert plan.unsupported is None


def test_a_model_refuses_a_batch_size_that_it_cannot_train_at(plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch) -> None:
    def only_one(self: Seq2Seq, batch_size: int) -> None:
        if batch_size != 1:
            raise ValueError(f"batch_size={batch_size}: the canonical training is one sentence at a time")

    monkeypatch.setattr(Seq2Seq, "check", only_one)
    assert plan_of("model=seq2seq", "batch_size=1").config["batch_size"] == 1
    with pytest.raises(BadConfig, match="^batch_size=2: the canonical training is one sentence at a time$"):
        plan_of("model=seq2seq", "batch_size=2")
