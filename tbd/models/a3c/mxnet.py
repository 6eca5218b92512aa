"""A3C's actor-critic in MXNet, channels first. See specification.py for the definition."""

from mxnet import sym

from tbd.frameworks.mxnet.layers import convolution, dense, pick, relu, shape_of


class Network:
    """The loss of a batch, and what actors need of the frames that they see (tbd/frameworks/mxnet/training.py)."""

    def __init__(self, specification):
        self.specification = specification
        self.strides = {name: stride for name, _, _, _, stride, _ in specification.convolutions}

    def __call__(self, weights, inputs, update):
        batch, steps, *frame = shape_of(inputs["frames"])
        logits, values = self.heads(weights, sym.reshape(inputs["frames"], (batch * steps, *frame)))
        actions, returns = (sym.reshape(inputs[name], (batch * steps,)) for name in ("actions", "returns"))
        error = returns - values
        log_policy = sym.log_softmax(logits)
        entropy = -sym.sum(sym.exp(log_policy) * log_policy, axis=1)
        s = self.specification
        loss = s.value_coefficient * sym.square(error) - pick(log_policy, actions) * constant(error)
        return sym.sum(loss - s.entropy_coefficient * entropy) / batch, {}

    def outputs(self, weights, inputs):
        """policy: logits (n, actions), value: (n,), of frames (n, size, size, 4)."""
        logits, values = self.heads(weights, inputs["frames"])
        return {"policy": logits, "value": values}

    def heads(self, weights, frames):
        """(logits, values) of frames as bytes."""
        x = sym.transpose(frames, (0, 3, 1, 2))
        x = sym.cast(x, weights["conv1.weight"].infer_type()[1][0]) * self.specification.frame_scale
        for name, stride in self.strides.items():
            x = relu(convolution(x, weights[name + ".weight"], stride, padded=False, bias=weights[name + ".bias"]))
        # hidden takes them in the order height, width, channels
        x = sym.Flatten(sym.transpose(x, (0, 2, 3, 1)))
        x = relu(dense(x, weights["hidden.weight"], weights["hidden.bias"]))
        logits, values = (dense(x, weights[n + ".weight"], weights[n + ".bias"]) for n in ("policy", "value"))
        return logits, sym.reshape(values, (-1,))


def constant(x):
    """What the gradient does not go through."""
    return sym.BlockGrad(x)


NETWORK = Network
