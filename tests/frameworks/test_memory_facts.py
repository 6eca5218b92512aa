"""Memory at four batch sizes in every framework: linear where it must be, and of the canonical layers."""

import json
import pathlib
import subprocess

import numpy
import pytest

from tbd.frameworks.attribution import layer_of
from tests.parity import cells

SCRIPT = pathlib.Path(__file__).with_name("memory_facts.py")


@pytest.fixture(scope="module", params=[framework for model, framework in cells.CELLS if model == "resnet50"])
def facts(request):
    command = [cells.framework_python(request.param), str(SCRIPT), request.param]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(json.loads(done.stdout.splitlines()[-1]), framework=request.param)


def held(record, category):
    """The most bytes that the category holds at any moment of the step."""
    of_it = [b for b in record["buffers"] if b["category"] == category]
    changes = [(b["born"], b["bytes"]) for b in of_it]
    changes += [(b["died"], -b["bytes"]) for b in of_it if b["died"] is not None]
    return max(numpy.cumsum([size for _, size in sorted(changes)]), default=0)


def test_feature_maps_are_linear_in_the_batch(facts):
    maps = numpy.array([held(record, "feature_maps") for record in facts["records"]], float)
    line = numpy.polyval(numpy.polyfit(facts["sizes"], maps, 1), facts["sizes"])
    unexplained = ((maps - line) ** 2).sum() / ((maps - maps.mean()) ** 2).sum()
    assert 1 - unexplained > 0.999
    assert maps[-1] > 3 * maps[0], "four times the batch"


def test_weights_and_optimizer_state_are_the_same_at_every_batch(facts):
    for category in ("weights", "optimizer_state"):
        assert len({held(record, category) for record in facts["records"]}) == 1


def test_feature_maps_are_of_canonical_layers(facts):
    layers = {layer_of(name) for name in facts["parameters"]}
    known = layers | {layer.rpartition(".")[0] for layer in layers}
    maps = [b for b in facts["records"][-1]["buffers"] if b["category"] == "feature_maps"]
    of_layers = [b for b in maps if b.get("layer")]
    assert {b["layer"] for b in of_layers} <= known
    assert len({b["layer"] for b in of_layers}) > 0.5 * len(layers)
    # beside them only the batch's own copies and what is made of it before the first layer
    before = sum(b["bytes"] for b in maps) - sum(b["bytes"] for b in of_layers)
    assert before <= 0.15 * sum(b["bytes"] for b in maps)


def test_pytorchs_own_tracker_finds_the_same_peak(facts):
    """MemTracker sees what operators return, as our recorder does, and not the scratch memory within them."""
    if facts["framework"] != "pytorch":
        assert "tracked_by_torch" not in facts
        return
    assert facts["communicated"] == ["communication", "workspace"], "what collectives work on is apart"
    record = facts["records"][-1]
    buffers = [b for b in record["buffers"] if not b["name"].endswith("scratch")]
    changes = [(b["born"], b["bytes"]) for b in buffers]
    changes += [(b["died"], -b["bytes"]) for b in buffers if b["died"] is not None]
    ours = max(numpy.cumsum([size for _, size in sorted(changes)]))
    assert facts["tracked_by_torch"] == pytest.approx(ours, rel=0.01)
