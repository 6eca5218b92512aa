"""Two ranks make the steps that one process makes of both their rows, in every framework that has several ranks."""

import json
import os
import pathlib
import subprocess

import numpy
import pytest

from tbd import frameworks, models
from tbd.worker import network
from tests.models import known
from tests.parity import cells, compare

ROWS = 4  # of each rank
# The loss is a mean over words, of which ranks have different numbers, and gradients are clipped; a mean over rows.
NETWORKS = ("seq2seq", "a3c")
# With batch norm; wgan has two networks besides, and several updates a step.
NORMALISED = ("resnet50", "wgan")
TOGETHER = [name for name in frameworks.names() if "cpu" in frameworks.together(name)]


def cells_of(networks):
    return [(n, f) for n in networks for f in TOGETHER if (n, f) in cells.CELLS]


def precision_of(framework):
    return "fp64" if "fp64" in frameworks.facts(framework).PRECISIONS["cpu"] else "fp32"


def train(folder, network_name, framework, ranks, rows, same="0"):
    """[{key: array} of each rank] after 10 steps."""
    port, holder = network.held_port("127.0.0.1")
    place = {"address": "127.0.0.1", "port": port}
    processes = []
    try:
        for rank in range(ranks):
            request = cells.request(network_name, framework, precision_of(framework), str(folder))
            model = models.create(cells.model_of(network_name), cells.options_of(network_name))
            request.update(
                rank=rank, local_rank=rank, node=0, world_size=ranks, rendezvous=place, address="127.0.0.1",
                batch_size=known.batch_size(model, rows),
            )  # fmt: skip
            path = folder / f"{ranks}-{rank}-{same}"
            pathlib.Path(f"{path}.json").write_text(json.dumps(request))
            script = str(pathlib.Path(__file__).parent / "ranks.py")
            command = [cells.framework_python(framework), script, f"{path}.json", f"{path}.npz", same]
            variables = {**os.environ, "OMP_NUM_THREADS": "1"}
            processes.append((path, subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=variables)))
        for _, process in processes:
            _, error = process.communicate(timeout=300)
            assert process.returncode == 0, error[-4000:]
    finally:
        holder.close()
        for _, process in processes:
            process.kill()
    return [dict(numpy.load(f"{path}.npz")) for path, _ in processes]


def bounds(framework):
    """(of the losses, of the weights): the parity ladder's, compare.py."""
    if precision_of(framework) == "fp32":
        return compare.LOSS_FP32, compare.FLOOR_FP32
    return compare.LOSS, compare.GRADIENT


def assert_same(together, alone, initial, framework):
    loss, weights = bounds(framework)
    numpy.testing.assert_allclose(numpy.mean([one["losses"] for one in together], axis=0), alone["losses"], rtol=loss)
    for one in together:
        for key, right in alone.items():
            if key.startswith("trained/"):
                drift = compare.norm(right - initial[key.partition("/")[2]])
                assert compare.ratio(compare.norm(one[key] - right), drift) <= weights, key


def initial_of(network_name):
    return known.weights(models.create(cells.model_of(network_name), cells.options_of(network_name)), 1)


@pytest.mark.parametrize(("network_name", "framework"), cells_of(NETWORKS))
def test_two_ranks_are_one_process_on_both_their_rows(tmp_path, network_name, framework):
    together = train(tmp_path, network_name, framework, 2, ROWS)
    (alone,) = train(tmp_path, network_name, framework, 1, 2 * ROWS)
    assert_same(together, alone, initial_of(network_name), framework)


@pytest.mark.parametrize(("network_name", "framework"), cells_of(NORMALISED))
def test_batch_norm_is_over_a_ranks_own_rows(tmp_path, network_name, framework):
    """By rule: so two ranks with the same rows are one process on them, and with different rows they are not."""
    together = train(tmp_path, network_name, framework, 2, ROWS, str(ROWS))
    (alone,) = train(tmp_path, network_name, framework, 1, 2 * ROWS, str(ROWS))
    assert_same(together, alone, initial_of(network_name), framework)
    (alone,) = train(tmp_path, network_name, framework, 1, 2 * ROWS)
    with pytest.raises(AssertionError):
        assert_same(together, alone, initial_of(network_name), framework)
