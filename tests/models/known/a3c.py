"""What the tests must know of a3c."""

import contextlib
import importlib
import unittest.mock

from tests.parity.fault import Fault

# 4 x 16 x 8 x 8 + 16, 16 x 32 x 4 x 4 + 32, 9 x 9 x 32 x 256 + 256, 256 x 4 + 4, 256 + 1
PARAMETERS = 677_429
MEMORY_OPTIONS = {"width": 16, "image_size": 84}
CLIP_NORM = 2.0  # of 2.9: a tenth of it would leave steps of the size of float32's rounding of the weights
LEARNING_STEPS = 150


class AdvantageNotConstant(Fault):
    """The policy's gradient goes through the advantage into the value too."""

    @contextlib.contextmanager
    def planted(self):
        network = importlib.import_module("tbd.models.a3c." + self.framework)
        with unittest.mock.patch.object(network, "constant", lambda x: x):
            yield


class EntropySign(Fault):
    """The policy is driven to certainty instead of from it."""

    def specification(self, specification):
        specification.entropy_coefficient = -specification.entropy_coefficient
        return specification


class WholeSquaredError(Fault):
    """The squared error of the value without its coefficient."""

    def specification(self, specification):
        specification.value_coefficient = 1.0
        return specification


class FramesNotScaled(Fault):
    def specification(self, specification):
        specification.frame_scale = 1.0
        return specification


class ChannelsFirst(Fault):
    """hidden takes conv2's output in the order channels, height, width."""

    def weights_in(self, weights):
        return reordered(weights, lambda size, channels: (size, size, channels), (2, 0, 1))

    def weights_out(self, weights):
        return reordered(weights, lambda size, channels: (channels, size, size), (1, 2, 0))


class EpsilonOfTheOtherFormula(Fault):
    """The epsilon that belongs within the root, added outside of it."""

    def specification(self, specification):
        right = specification.optimizer(1)
        specification.optimizer = lambda batch_size: right._replace(epsilon=right.epsilon**2)
        return specification


def reordered(weights, shape, axes):
    """The weights with hidden's input features, of the shape(size, channels), in another order of their axes."""
    out, features = weights["hidden.weight"].shape
    channels = len(weights["conv2.bias"])
    size = int(round((features / channels) ** 0.5))
    array = weights["hidden.weight"].reshape((out,) + shape(size, channels))
    array = array.transpose([0] + [1 + axis for axis in axes]).reshape(out, features)
    return dict(weights, **{"hidden.weight": array.copy()})


FAULTS = {
    "advantage_not_constant": AdvantageNotConstant,
    "entropy_sign": EntropySign,
    "whole_squared_error": WholeSquaredError,
    "frames_not_scaled": FramesNotScaled,
    "channels_first": ChannelsFirst,
    "epsilon_of_the_other_formula": EpsilonOfTheOtherFormula,
}
