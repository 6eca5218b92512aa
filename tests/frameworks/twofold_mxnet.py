"""twofold.py's network in MXNet."""

from mxnet import sym


class Network:
    def __init__(self, specification):
        pass

    def __call__(self, weights, inputs, update):
        w = weights
        if update == "second":
            scaled = sym.broadcast_mul(inputs["z"], w["first"] * w["second"])
            return sym.mean(sym.square(scaled)), {}
        y = sym.broadcast_add(sym.broadcast_mul(inputs["x"], w["first"]), w["second"])
        y = sym.broadcast_mul(y, w["scale"])
        return sym.mean(sym.square(y - inputs["y"])), {"seen": w["seen"] + sym.mean(inputs["x"], axis=0)}


NETWORK = Network
