"""A3C's actor-critic: a convolutional network that gives a policy over a game's actions and the value of its state.

Sources: Mnih et al., "Asynchronous Methods for Deep Reinforcement Learning", arXiv 1602.01783: algorithm S3 (the
update), section 5.1 and supplement 8 (t_max 5, entropy 0.01, discount 0.99, RMSProp's decay 0.99); Mnih et al., arXiv
1312.5602, section 4.1 (the network). No LSTM.

    x = frames / 255, the last 4 frames of a step as channels, the oldest first
    conv1 8x8 stride 4, relu; conv2 4x4 stride 2, relu; hidden, dense, relu; policy and value, dense, from hidden
    No convolution is padded: what is left over at the end is not seen. Every layer has a bias. hidden takes conv2's
    output in the order height, width, channels.

    logits = policy(hidden), V = value(hidden); log pi = log-softmax of the logits
    advantage = R - V, a constant to the gradient
    loss of a step = -log pi(action) advantage - 0.01 entropy + 0.5 (R - V)^2,  entropy = -sum of pi log pi
    loss = the mean over the batch's segments of the sum over a segment's steps

    R is worked out with the batch, back through a segment: R[t] = reward[t] + 0.99 R[t + 1], from the value of the
    state after the segment, V(s), as the network gave it when that was played. Where an episode ends with step t,
    R[t] = reward[t], and the next step is of the next episode: a segment always has t_max steps.

A batch: frames (batch, t_max, image_size, image_size, 4) uint8, actions (batch, t_max) int32, returns (batch, t_max)
float32. A row is one actor's segment. In algorithm S3 an actor-learner moves the shared weights by the sum of the
gradients over its segment's steps; an update here moves them by the mean of `batch` of these sums.
"""

import collections
import math

import numpy

from tbd.data import kinds
from tbd.data.options import Option
from tbd.models.specification import Specification, parameter, rmsprop

DISCOUNT = 0.99


class A3C(Specification):
    name = "a3c"
    unit = "frames"
    source = "arXiv 1602.01783 algorithm S3 and supplement 8; arXiv 1312.5602 section 4.1"
    SIZES = {
        "full": {"actions": 4, "t_max": 5, "image_size": 84, "width": 16},
        "small": {"actions": 4, "t_max": 3, "image_size": 36, "width": 4},
    }
    OPTIONS = {
        "actions": Option(int, 2, 18),  # what an Atari joystick can do
        "t_max": Option(int, 1),
        "image_size": Option(int, 20),  # what the two convolutions need
        "width": Option(int, 1),
    }
    takes = (kinds.SEGMENTS,)

    frame_scale = 1.0 / 255
    entropy_coefficient = 0.01
    value_coefficient = 0.5  # of the squared error, as its authors told: github.com/muupan/async-rl/wiki

    @property
    def convolutions(self):
        """(name, in channels, out channels, kernel, stride, output height = width)."""
        width, size = self.options["width"], self.options["image_size"]
        first = (size - 8) // 4 + 1
        return [
            ("conv1", kinds.HISTORY, width, 8, 4, first),
            ("conv2", width, 2 * width, 4, 2, (first - 4) // 2 + 1),
        ]

    @property
    def dense(self):
        """(name, in features, out features)."""
        _, _, channels, _, _, size = self.convolutions[-1]
        hidden = 16 * self.options["width"]
        return [
            ("hidden", size * size * channels, hidden),
            ("policy", hidden, self.options["actions"]),
            ("value", hidden, 1),
        ]

    @property
    def parameters(self):
        found = []
        for name, channels, out, kernel, _, _ in self.convolutions:
            found += layer(name, (out, channels, kernel, kernel), "conv")
        for name, features, out in self.dense:
            found += layer(name, (out, features), "dense")
        return found

    def optimizer(self, batch_size):
        # Decay 0.99 and gradients clipped to the norm 40 by the authors: github.com/miyosuda/async_deep_reinforce,
        # issue 1. Their epsilon 0.1 stands within the root, sqrt(square + 0.1); outside it, sqrt(0.1) does the same
        # where the square is small. The paper draws its rate from 1e-4 to 1e-2 and lowers it to 0 by the end of a run
        # of days; here it is 2.5e-4 throughout.
        return rmsprop(learning_rate=2.5e-4, alpha=0.99, epsilon=math.sqrt(0.1), clip_norm=40.0)

    def synthetic_batch(self, batch_size, random):
        """Noise with a bright band across each step's frames; the action of the band's number is rewarded.

        Actions are the right ones half of the time, else drawn evenly. Learnable: V and the policy can be read off the
        frames. The whole loss falls, first by V's error; it goes on below 0, since the actions here stay what they are
        however unlikely the policy makes them.
        """
        o = self.options
        shape = (batch_size, o["t_max"])
        right = random.randint(0, o["actions"], shape)
        actions = numpy.where(random.uniform(size=shape) < 0.5, right, random.randint(0, o["actions"], shape))
        frames = random.randint(0, 64, shape + (o["image_size"], o["image_size"], kinds.HISTORY)).astype(numpy.uint8)
        band = o["image_size"] // o["actions"]
        rows = numpy.arange(o["image_size"]) // band == right[..., None]
        frames += (rows[:, :, :, None, None] * 160).astype(numpy.uint8)
        rewards = (actions == right).astype(numpy.float32)
        ends = numpy.ones(shape, bool)  # each step for itself: its return is its reward
        return self.batch_of((frames, actions, rewards, ends, numpy.zeros(batch_size, numpy.float32)), None, None)

    def form(self, kind):
        o = self.options
        return kinds.Segments(steps=o["t_max"], size=o["image_size"], actions=o["actions"])

    def batch_of(self, samples, shape, seeds):
        frames, actions, rewards, ends, after = (numpy.asarray(column) for column in samples)
        return {"frames": frames, "actions": actions.astype(numpy.int32), "returns": returns(rewards, ends, after)}

    def items(self, arrays):
        """The game's frames that were played for the batch, and the steps that are trained on."""
        steps = int(arrays["actions"].size)
        return collections.OrderedDict([("frames", steps * kinds.FRAME_SKIP), ("steps", steps)])

    def macs(self, arrays):
        per_step = sum(c * out * k * k * size * size for _, c, out, k, _, size in self.convolutions)
        per_step += sum(features * out for _, features, out in self.dense)
        return int(arrays["actions"].size) * per_step

    def flops(self, arrays):
        # forward, gradient by the weights and gradient by the input are one product each; conv1 needs none by its
        # input. What actors compute to choose their actions is not counted.
        _, channels, out, kernel, _, size = self.convolutions[0]
        first = int(arrays["actions"].size) * channels * out * kernel * kernel * size * size
        return 2 * (3 * self.macs(arrays) - first)


def layer(name, shape, kind):
    """Weight and bias, uniform within 1 / sqrt(fan-in): Torch's default, which the authors trained with."""
    uniform = ("uniform", 1.0 / math.sqrt(numpy.prod(shape[1:])))
    return [parameter(name + ".weight", shape, kind, uniform), parameter(name + ".bias", shape[:1], "vector", uniform)]


def returns(rewards, ends, after):
    """R of every step, (batch, steps) float32; `after` (batch,): the value of the state after the last step."""
    found = numpy.empty(rewards.shape, numpy.float32)
    following = after
    for step in reversed(range(rewards.shape[1])):
        following = rewards[:, step] + DISCOUNT * numpy.where(ends[:, step], 0.0, following)
        found[:, step] = following
    return found


SPECIFICATION = A3C
