"""A3C's actor-critic in CNTK, channels first. See specification.py for the definition. Python 3.6 syntax."""

import cntk as C

from tbd.data.kinds import HISTORY
from tbd.frameworks.cntk.layers import channels_first, convolution, dense, mean_of_all


class Network:
    """The loss of a batch, and what actors need of the frames that they see (tbd/frameworks/cntk/training.py)."""

    def __init__(self, specification, weights):
        self.specification, self.weights = specification, weights
        self.strides = {name: stride for name, _, _, _, stride, _ in specification.convolutions}

    def __call__(self, inputs, update, rows):
        s = self.specification
        steps, size = s.options["t_max"], s.options["image_size"]
        # the steps of all segments are the rows from here on
        frames, actions, returns = (
            C.to_batch(C.reshape(C.unpack_batch(inputs[name]), (rows * steps,) + shape))
            for name, shape in (("frames", (size, size, HISTORY)), ("actions", ()), ("returns", ()))
        )
        logits, value = self.heads(frames)
        error = returns - value
        log_policy = C.log_softmax(logits)
        chosen = C.reduce_sum(log_policy * C.one_hot(actions, s.options["actions"]), 0)
        entropy = -C.reduce_sum(C.exp(log_policy) * log_policy, 0)
        loss = s.value_coefficient * C.square(error) - chosen * constant(error) - s.entropy_coefficient * entropy
        return steps * mean_of_all(loss), []

    def outputs(self, inputs):
        """policy: logits (n, actions), value: (n,), of frames (n, size, size, 4)."""
        logits, value = self.heads(inputs["frames"])
        return {"policy": logits, "value": value}

    def heads(self, frames):
        x = channels_first(frames) * self.specification.frame_scale
        for name, stride in self.strides.items():
            x = convolution(x, self.weights[name + ".weight"], stride, padded=False)
            x = C.relu(x + C.reshape(self.weights[name + ".bias"], (-1, 1, 1)))
        features = C.reshape(C.transpose(x, (1, 2, 0)), (-1,))
        x = C.relu(self.dense(features, "hidden"))
        return self.dense(x, "policy"), C.reshape(self.dense(x, "value"), ())

    def dense(self, x, name):
        return dense(x, self.weights[name + ".weight"], self.weights[name + ".bias"])


def constant(x):
    """What the gradient does not go through."""
    return C.stop_gradient(x)


NETWORK = Network
