"""What a framework's boxes.py makes of boxes: python boxes_facts.py FRAMEWORK FOLDER, for test_boxes.py.

Reads FOLDER/cases.npz and writes FOLDER/found.npz: kept/N, the indices that suppression keeps of boxes/N, and
pooled/TYPE, of features and regions.
"""

import importlib
import os
import sys

import numpy

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

THRESHOLD, MOST = 0.7, 300  # of suppression
POOLED, STRIDE, OFFSET = 5, 16, 0.5  # of pooling


def pytorch(boxes):
    import torch

    def suppressed(rows, scores, count):
        order = torch.as_tensor(scores).sort(descending=True, stable=True).indices
        kept, found = boxes.suppress(torch.as_tensor(rows)[order], torch.as_tensor(count), THRESHOLD, MOST)
        return order[kept[:found]].numpy()

    def pooled(features, regions):
        features = torch.as_tensor(features).permute(0, 3, 1, 2)
        found = boxes.roi_align(features, torch.as_tensor(regions), POOLED, STRIDE, OFFSET)
        return found.permute(0, 2, 3, 1).numpy()

    return suppressed, pooled


def tensorflow(boxes):
    def suppressed(rows, scores, count):
        kept, found = boxes.suppress(rows, scores, THRESHOLD, MOST)
        return kept.numpy()[: int(found)]

    return suppressed, lambda features, regions: boxes.roi_align(features, regions, POOLED, STRIDE, OFFSET).numpy()


def jax(boxes):
    import jax

    jax.config.update("jax_enable_x64", True)

    def suppressed(rows, scores, count):
        _, order = jax.lax.top_k(scores, len(scores))
        kept, found = boxes.suppress(rows[order], count, THRESHOLD, MOST)
        return numpy.asarray(order[kept[:found]])

    def pooled(features, regions):
        return numpy.asarray(boxes.roi_align(features, jax.numpy.asarray(regions), POOLED, STRIDE, OFFSET))

    return suppressed, pooled


def mxnet(boxes):
    import mxnet

    def run(function, *arrays):
        arrays = {str(n): mxnet.nd.array(array, dtype=array.dtype) for n, array in enumerate(arrays)}
        inputs = [mxnet.sym.Variable(name, shape=array.shape, dtype=array.dtype) for name, array in arrays.items()]
        executor = mxnet.sym.Group(function(*inputs)).bind(mxnet.cpu(), arrays)
        return [array.asnumpy() for array in executor.forward()]

    def suppressed(rows, scores, count):
        kept, real = run(lambda *inputs: boxes.suppress(*inputs, THRESHOLD, len(rows), MOST), rows[None], scores[None])
        return kept[real > 0]

    def pooled(features, regions):
        features = numpy.ascontiguousarray(features.transpose(0, 3, 1, 2))
        (found,) = run(lambda *inputs: [boxes.roi_align(*inputs, POOLED, STRIDE, OFFSET)], features, regions)
        return found.transpose(0, 2, 3, 1)

    return suppressed, pooled


def cntk(boxes):
    import cntk as C

    def suppressed(rows, scores, count):
        order = numpy.argsort(-scores, kind="stable")[:count]
        return order[boxes.suppress(rows[order], THRESHOLD, MOST)]

    def pooled(features, regions):
        features = numpy.ascontiguousarray(features.transpose(0, 3, 1, 2))
        with C.default_options(dtype=features.dtype.type):
            x, y = (C.input_variable(array.shape[1:]) for array in (features, regions))
            found = boxes.roi_align(x, y, len(features), POOLED, STRIDE, OFFSET)
        return found.eval({x: features, y: regions}).transpose(0, 2, 3, 1)

    return suppressed, pooled


def main():
    name, folder = sys.argv[1:]
    suppressed, pooled = globals()[name](importlib.import_module(f"tbd.frameworks.{name}.boxes"))
    cases = dict(numpy.load(os.path.join(folder, "cases.npz")))
    found = {
        key.replace("boxes", "kept"): suppressed(
            rows, cases[key.replace("boxes", "scores")], int(cases[key + "/count"])
        )
        for key, rows in cases.items()
        if key.startswith("boxes") and not key.endswith("count")
    }
    for dtype in ("float32", "float64"):
        found["pooled/" + dtype] = pooled(cases["features"].astype(dtype), cases["regions"].astype(dtype))
    numpy.savez(os.path.join(folder, "found.npz"), **found)


if __name__ == "__main__":
    main()
