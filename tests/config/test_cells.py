"""Which cells work is known from plain facts, and every reason names the way out."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tbd import frameworks, models
from tbd.config import cells
from tbd.frameworks import cuda
from tbd.frameworks.base import PRECISIONS
from tests.parity.cells import CELLS, model_of, options_of

ROOT = Path(__file__).parent.parent.parent
FULL = {model: models.create(model, {"size": "full"}).options for model in models.names()}


def unsupported(model="resnet50", framework="pytorch", device="cpu", precision="fp32", compiler=None, **options):
    return cells.unsupported(model, {**FULL[model], **options}, framework, device, precision, compiler)


@pytest.mark.parametrize(("network", "framework"), CELLS)
def test_a_network_works_on_the_cpu_in_every_framework_in_which_it_is_written(network, framework):
    model, options = model_of(network), options_of(network, "full")
    facts = frameworks.facts(framework)
    assert {unsupported(model, framework, precision=p, **options) for p in facts.PRECISIONS["cpu"]} == {None}
    refused = {c for c in facts.COMPILE if unsupported(model, framework, compiler=c, **options)}
    assert refused == ({"inductor"} if (network, framework) == ("wgan", "pytorch") else set())


@pytest.mark.parametrize("framework", frameworks.names())
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"device": "abacus"}, "hardware.device=abacus"),
        ({"precision": "fp8"}, "precision=fp8"),
        ({"compiler": "cc"}, "compile=cc"),
    ],
)
def test_what_is_not_offered_has_a_reason(framework, asked, said):
    model = next(model for model in models.names() if framework in models.frameworks(model))
    assert said in unsupported(model, framework, **asked)


def test_tf32_is_a_gpus():
    said = "precision=tf32: pytorch trains in fp32, fp64, bf16, fp16 on a cpu; tf32 is for a gpu"
    assert unsupported(precision="tf32") == said
    assert unsupported(precision="tf32", device="gpu") is None


@pytest.mark.parametrize("capability", [(9, 0), None])
def test_a_device_that_a_framework_is_not_on_has_its_reason_and_a_way_out(monkeypatch, capability):
    monkeypatch.setattr(cuda, "compute_capability", lambda number: capability)
    reason = unsupported(framework="mxnet", device="gpu")
    assert reason.startswith("hardware.device=gpu: mxnet trains on cpu here: ")
    assert "up to 8.6" in reason
    assert ("this machine's GPU has compute capability 9.0" in reason) == (capability is not None)
    assert "Use hardware=cpu, or on a gpu framework=" in reason
    assert "pytorch" in reason.partition(" framework=")[2]


def test_a_framework_without_an_adapter_is_told_from_those_with_one():
    ways_out = " or ".join(frameworks.names())
    assert unsupported(framework="abacus") == f"framework abacus has no adapter: use {ways_out}"


def test_a_framework_says_which_value_of_an_option_it_is_without(monkeypatch):
    without = {("resnet50", "width", 32): "no odd widths: use model.width=64"}
    monkeypatch.setattr(frameworks.facts("pytorch"), "WITHOUT", without)
    assert unsupported(width=32) == "no odd widths: use model.width=64"
    assert unsupported(width=64) is None
    assert unsupported(width=32, framework="tensorflow") is None


def test_a_framework_says_which_model_it_is_without(monkeypatch):
    monkeypatch.setattr(frameworks.facts("pytorch"), "WITHOUT", {("seq2seq", None, None): "it has no recurrence"})
    assert unsupported("seq2seq") == "it has no recurrence"
    assert unsupported("resnet50") is None


def test_a_file_beside_the_specification_is_a_framework_by_its_name_alone(monkeypatch, tmp_path):
    for name in ("specification.py", "pytorch.py", "anchors.py"):
        (tmp_path / "detector").mkdir(exist_ok=True)
        (tmp_path / "detector" / name).touch()
    monkeypatch.setattr(models, "__file__", str(tmp_path / "__init__.py"))
    assert models.frameworks("detector") == ["pytorch"]


def test_gradients_of_gradients_are_not_compiled_by_torch():
    assert "no gradients of second order" in unsupported("wgan", compiler="inductor")
    assert unsupported("wgan", compiler="inductor", lipschitz="weight_clipping") is None


@pytest.mark.parametrize("framework", frameworks.names())
def test_the_facts_of_a_framework_name_what_there_is(framework):
    facts = frameworks.facts(framework)
    assert facts.DEVICES and set(facts.DEVICES) <= {"cpu", "gpu"}
    assert set(facts.PRECISIONS) == set(facts.DEVICES)
    assert all("fp32" in offered and set(offered) <= set(PRECISIONS) for offered in facts.PRECISIONS.values())
    assert facts.COMPILE
    uncompiled = getattr(facts, "UNCOMPILED", {})
    assert set(uncompiled) <= set(facts.COMPILE[1:])
    told = [*facts.WITHOUT.items(), *(item for part in uncompiled.values() for item in part.items())]
    for (model, option, value), reason in told:
        assert model in models.names() and reason
        assert (option is None) == (value is None)
        assert option is None or option in FULL[model]
        assert option is not None or framework not in models.frameworks(model)


def command(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tbd.cells", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_command_lists_every_cell():
    listed = [line.split()[:2] for line in command().splitlines()[1:]]
    assert listed == [[model, framework] for model in models.names() for framework in frameworks.names()]


def test_the_command_gives_json():
    found = json.loads(command("--json"))
    assert len(found) == len(models.names()) * len(frameworks.names())
    for cell in found:
        assert set(cell) == {"model", "framework", "status", "reason"}
        works = (cell["model"], cell["framework"]) in CELLS
        assert cell["status"] == ("works" if works else "unsupported")
        assert (cell["reason"] is None) == works


@pytest.mark.parametrize("model", models.names())
def test_a_models_configuration_leaves_every_option_to_its_size(model):
    composed = yaml.safe_load((ROOT / "conf" / "model" / f"{model}.yaml").read_text())
    own = {
        key: value for key, value in composed.items() if key not in ("defaults", "name", "size", "default_batch_size")
    }
    assert own == dict.fromkeys(models.specification_class(model).OPTIONS)
    assert (composed["name"], composed["size"]) == (model, "full")


@pytest.mark.parametrize("framework", frameworks.names())
def test_a_framework_is_whole(framework):
    """The files that CONTRIBUTING.md asks for."""
    composed = yaml.safe_load((ROOT / "conf" / "framework" / f"{framework}.yaml").read_text())
    assert composed["name"] == framework
    for name in ("MLproject", "python_env.yaml", "conda.yaml", "requirements.txt"):
        assert (ROOT / "entrypoints" / "frameworks" / framework / name).is_file(), name
    assert (ROOT / "tests" / "frameworks" / f"twofold_{framework}.py").is_file()
    missing = set(models.names()) - {model for model in models.names() if framework in models.frameworks(model)}
    explained = {model for model, option, _ in frameworks.facts(framework).WITHOUT if option is None}
    assert missing == explained
