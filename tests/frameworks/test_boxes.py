"""Suppression and pooling of boxes in every framework, against the plainest numpy."""

import pathlib
import subprocess

import numpy
import pytest

from tbd.models.faster_rcnn import anchors
from tests.frameworks.boxes_facts import MOST, OFFSET, POOLED, STRIDE, THRESHOLD
from tests.parity import cells

FRAMEWORKS = [framework for network, framework in cells.CELLS if network == "faster_rcnn"]


def boxes_of(random, count, least, spread):
    corners = random.uniform(0, 600, (count, 2))
    return numpy.concatenate([corners, corners + random.uniform(least, least + spread, (count, 2))], 1)


def cases():
    """{array's name: array}: boxes/N and scores/N, of which boxes/N/count are real, the best ones."""
    random = numpy.random.RandomState(0)
    kinds = {
        "apart": (boxes_of(random, 900, 16, 200), 900),  # more are kept than wanted
        "alike": (boxes_of(random, 900, 180, 10), 700),  # long chains: what suppresses is itself suppressed
        "few": (boxes_of(random, 40, 16, 100), 30),
        "none": (boxes_of(random, 40, 16, 100), 0),
    }
    found = {}
    for name, (boxes, count) in kinds.items():
        scores = numpy.where(random.permutation(len(boxes)) < count, random.standard_normal(len(boxes)), -numpy.inf)
        if name == "apart":
            boxes[random.randint(0, 900, 100)] = boxes[random.randint(0, 900, 100)]  # the same box twice
            scores = numpy.round(scores, 1)  # equal scores: the first comes first
        found.update({f"boxes/{name}": boxes.astype("f4"), f"scores/{name}": scores.astype("f4")})
        found[f"boxes/{name}/count"] = count
    found["features"] = random.standard_normal((2, 9, 12, 3))
    inside = random.uniform(0, 1, (2, 30, 2, 2)) * (12 * STRIDE, 9 * STRIDE)
    found["regions"] = numpy.concatenate([inside.min(2), inside.max(2)], -1)
    found["regions"][:, 0] = (0, 0, 12 * STRIDE, 9 * STRIDE)
    return found


def greedy(boxes, scores):
    """Indices of the boxes kept, one after another."""
    kept = []
    for n in sorted(range(len(boxes)), key=lambda n: -scores[n]):
        free = not kept or anchors.overlaps(boxes[[n]], boxes[kept]).max() <= THRESHOLD
        if free and scores[n] > -numpy.inf and len(kept) < MOST:
            kept.append(n)
    return kept


def sampled(features, box):
    """(pooled, pooled, channels): the features at the bins' centres, each interpolated by itself."""
    height, width, channels = features.shape
    found = numpy.empty((POOLED, POOLED, channels))
    for i in range(POOLED):
        for j in range(POOLED):
            y = (box[1] + (i + 0.5) * (box[3] - box[1]) / POOLED) / STRIDE - OFFSET
            x = (box[0] + (j + 0.5) * (box[2] - box[0]) / POOLED) / STRIDE - OFFSET
            y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
            rows, columns = numpy.arange(height), numpy.arange(width)
            weights = numpy.maximum(1 - abs(rows - y), 0)[:, None] * numpy.maximum(1 - abs(columns - x), 0)
            found[i, j] = (features * weights[..., None]).sum((0, 1))
    return found


@pytest.fixture(scope="module", params=FRAMEWORKS)
def found(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    numpy.savez(folder / "cases.npz", **cases())
    script = pathlib.Path(__file__).with_name("boxes_facts.py")
    command = [cells.framework_python(request.param), str(script), request.param, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(numpy.load(folder / "found.npz"))


@pytest.mark.parametrize("case", ["apart", "alike", "few", "none"])
def test_suppression_is_greedy_to_the_box(found, case):
    known = cases()
    assert found["kept/" + case].tolist() == greedy(known["boxes/" + case], known["scores/" + case])


@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-5), ("float64", 1e-12)])
def test_pooling_is_linear_between_features_and_constant_beyond_them(found, dtype, bound):
    known = cases()
    pairs = zip(known["features"], known["regions"], strict=True)
    expected = [sampled(features, box) for features, regions in pairs for box in regions]
    assert found["pooled/" + dtype].dtype == dtype
    assert abs(found["pooled/" + dtype] - expected).max() < bound
