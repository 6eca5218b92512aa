"""Wasserstein GAN with gradient penalty on small pictures: the residual generator and critic of Gulrajani et al. 2017.

Source: arXiv 1704.00028 (algorithm 1) and its released code, igul222/improved_wgan_training, gan_64x64.py, its
GoodGenerator and GoodDiscriminator at DIM 64: 8,540,483 and 7,491,841 weights at 64x64 pixels.

    generator   noise -> input (dense, to 8 x width channels of 4x4 pixels, channel first) -> a block for each doubling
                of the size -> norm, relu -> output (3x3 convolution to RGB) -> tanh
    its block   x -> norm1, relu, up, conv1 (3x3, no bias), norm2, relu, conv2 (3x3), plus up(shortcut (1x1) of x)
    critic      picture -> input (3x3 convolution) -> a block for each halving of the size -> flattened, channel first
                -> output (dense): one number, the score
    its block   x -> norm1, relu, conv1 (3x3, no bias), norm2, relu, conv2 (3x3), down, plus shortcut (1x1) of down(x)

`up` repeats each pixel 2x2 times and `down` takes the mean of each 2x2 pixels. Convolutions have stride 1 and padding
(kernel - 1) / 2, and a bias where it isn't said otherwise. The released code applies the generator's shortcut after
`up`; a 1x1 convolution gives the same numbers before it, of a quarter of the pixels. Channels: `Wgan.channels`.

The generator's norms are batch norm, always with the statistics of its own batch: there are no running ones, as the
released code moves and reads none. The critic's norms are layer norm over channels, height and width of each picture
with a weight and a bias a channel. Both: y = (x - mean) / sqrt(variance + epsilon) * weight + bias with the biased
variance.

Pictures are bytes b, which the critic sees as b / 127.5 - 1.

A step is the released code's iteration: one update of the generator, then five of the critic, each with pictures and
noise of its own. (The released code leaves the very first update of the generator out.) The losses, with D the critic:

    generator   -mean D(fake), fake = G(noise): moves the generator
    critic      mean D(fake) - mean D(real) + 10 mean((|gradient of D at mix| - 1)^2): moves the critic. Each picture of
                mix is real + mixture * (fake - real) with a number `mixture` of its own, uniform in 0..1; |gradient| is
                the norm over a picture's pixels and channels. The penalty's own gradient is of second order.

The generator isn't differentiated in the critic's updates, nor the critic's weights in the generator's.

`lipschitz=weight_clipping` is the way of Arjovsky et al., arXiv 1701.07875 (algorithm 1), for the same two networks: no
penalty, RMSProp, and the critic's weights are cut to [-0.01, 0.01] after each of its updates. (The released code then
has batch norm in the critic too; here both ways differ in nothing else.)

The loss of a step, that of its last update, is the critic's: what the released code plots. It falls while the critic
learns to tell the pictures apart; its negative (without the penalty) estimates the distance between the two kinds of
pictures, so it rises again as the generator learns.

Some biases shift the score of every picture alike, or are taken out again by the batch norm that follows on each of
their ways. No loss depends on them: they are frozen at 0, where the released code leaves it to rounding to move them.
"""

import collections

import numpy

from tbd.data import kinds
from tbd.data.options import Option
from tbd.models.specification import Specification, Update, adam, parameter, rmsprop

START = 4  # pixels, height and width, of the generator's first map and the critic's last
WIDEST = 8  # times the width: the most channels

# One convolution or dense layer: its MACs for one picture, and what its parameters are made of. `scale`: the variance
# of its weights is scale / (fan in + fan out).
Layer = collections.namedtuple("Layer", "name kind channels out kernel scale bias macs")
GLOROT, HE = 2.0, 4.0


class Wgan(Specification):
    name = "wgan"
    unit = "images"
    source = "arXiv 1704.00028; igul222/improved_wgan_training, gan_64x64.py; arXiv 1701.07875"
    SIZES = {
        "full": {"image_size": 64, "width": 64, "noise": 128, "lipschitz": "gradient_penalty"},
        "small": {"image_size": 16, "width": 4, "noise": 16, "lipschitz": "gradient_penalty"},
    }
    OPTIONS = {
        "image_size": Option(int, 2 * START),
        "width": Option(int, 1),
        "noise": Option(int, 1),
        "lipschitz": Option(str, choices=("gradient_penalty", "weight_clipping")),
    }
    takes = (kinds.SMALL_PICTURES,)

    critic_updates = 5  # a step (arXiv 1704.00028, algorithm 1)
    penalty = 10.0  # the same; lambda there
    batch_norm_epsilon = 1e-5  # tflib/ops/batchnorm.py of the released code
    layer_norm_epsilon = 1e-5  # tflib/ops/layernorm.py

    def check(self, batch_size):
        size = self.options["image_size"]
        if size & (size - 1):
            raise ValueError("model.image_size=%d must be a power of 2: blocks halve it down to %d" % (size, START))

    @property
    def penalised(self):
        """Whether the critic's loss has the penalty."""
        return self.options["lipschitz"] == "gradient_penalty"

    @property
    def channels(self):
        """Channels of the maps of image_size pixels, of half of it, ..., of 4: width times 1, 2, 4, 8, 8, ..."""
        halvings = (self.options["image_size"] // START).bit_length() - 1
        return [self.options["width"] * min(2**n, WIDEST) for n in range(halvings + 1)]

    @property
    def generator_blocks(self):
        """(channels, out channels, height = width of its output) of each block."""
        channels = self.channels[::-1]
        return [(a, b, START * 2 ** (n + 1)) for n, (a, b) in enumerate(zip(channels, channels[1:]))]

    @property
    def critic_blocks(self):
        """(channels, out channels, height = width of its input) of each block."""
        size = self.options["image_size"]
        return [(a, b, size // 2**n) for n, (a, b) in enumerate(zip(self.channels, self.channels[1:]))]

    @property
    def generator_layers(self):
        first, last, size = self.channels[-1], self.channels[0], self.options["image_size"]
        layers = [dense("generator.input", self.options["noise"], first * START**2)]
        for n, (channels, out, block_size) in enumerate(self.generator_blocks):
            name = "generator.blocks.%d." % n
            layers.append(convolution(name + "conv1", channels, out, 3, block_size, bias=False))
            layers.append(convolution(name + "conv2", out, out, 3, block_size))
            layers.append(convolution(name + "shortcut", channels, out, 1, block_size // 2, GLOROT))
        return layers + [convolution("generator.output", last, 3, 3, size)]

    @property
    def critic_layers(self):
        first, last, size = self.channels[0], self.channels[-1], self.options["image_size"]
        layers = [convolution("critic.input", 3, first, 3, size, GLOROT)]
        for n, (channels, out, block_size) in enumerate(self.critic_blocks):
            name = "critic.blocks.%d." % n
            layers.append(convolution(name + "conv1", channels, channels, 3, block_size, bias=False))
            layers.append(convolution(name + "conv2", channels, out, 3, block_size))
            layers.append(convolution(name + "shortcut", channels, out, 1, block_size // 2, GLOROT))
        return layers + [dense("critic.output", last * START**2, 1)]

    @property
    def norms(self):
        """(name, channels) of every norm."""
        found = []
        for n, (channels, out, _) in enumerate(self.generator_blocks):
            found += [("generator.blocks.%d.norm1" % n, channels), ("generator.blocks.%d.norm2" % n, out)]
        found.append(("generator.norm", self.channels[0]))
        for n, (channels, _, _) in enumerate(self.critic_blocks):
            found += [("critic.blocks.%d.norm%d" % (n, place), channels) for place in (1, 2)]
        return found

    @property
    def without_effect(self):
        """The biases on which no loss depends: those of all the generator's blocks and of the critic's end."""
        blocks = ["generator.blocks.%d" % n for n in range(len(self.generator_blocks))]
        blocks.append("critic.blocks.%d" % (len(self.critic_blocks) - 1))
        return ["%s.%s.bias" % (b, layer) for b in blocks for layer in ("conv2", "shortcut")] + ["critic.output.bias"]

    @property
    def parameters(self):
        found, frozen = [], self.without_effect
        for layer in self.generator_layers + self.critic_layers:
            # uniform, of this variance: tflib/ops/conv2d.py and linear.py of the released code
            area = layer.kernel**2
            half_width = (3.0 * layer.scale / (area * (layer.channels + layer.out))) ** 0.5
            shape = (layer.out, layer.channels) + (() if layer.kind == "dense" else (layer.kernel, layer.kernel))
            found.append(parameter(layer.name + ".weight", shape, layer.kind, ("uniform", half_width)))
            if layer.bias:
                name = layer.name + ".bias"
                role = "frozen" if name in frozen else "weight"
                found.append(parameter(name, (layer.out,), "vector", ("constant", 0.0), role))
        for name, channels in self.norms:
            found.append(parameter(name + ".weight", (channels,), "vector", ("constant", 1.0)))
            found.append(parameter(name + ".bias", (channels,), "vector", ("constant", 0.0)))
        return found

    def updates(self, batch_size):
        if self.penalised:
            generator = critic = adam(1e-4, beta1=0.0, beta2=0.9)  # arXiv 1704.00028, algorithm 1
        else:
            # arXiv 1701.07875, algorithm 1; alpha and epsilon are those of its released code, torch.optim.RMSprop's own
            generator = rmsprop(5e-5, alpha=0.99, epsilon=1e-8)
            critic = generator._replace(clip_weights=0.01)
        return (
            Update("generator", self.weights_of("generator"), generator, 1),
            Update("critic", self.weights_of("critic"), critic, self.critic_updates),
        )

    def weights_of(self, part):
        """The names of the weights of the generator or the critic that are trained."""
        return tuple(p.name for p in self.parameters if p.role == "weight" and p.name.startswith(part + "."))

    def update_arrays(self, arrays, update, repetition):
        if update == "generator":
            return {"noise": arrays["generator_noise"]}
        return {name: array[:, repetition] for name, array in arrays.items() if name != "generator_noise"}

    def synthetic_batch(self, batch_size, random):
        """Pictures with a pattern of 4x4 colours in common, of another strength in each, under noise."""
        size, updates = self.options["image_size"], self.critic_updates
        colours = numpy.random.RandomState(0).uniform(-1.0, 1.0, (START, START, 3))
        pattern = colours.repeat(size // START, 0).repeat(size // START, 1)
        strength = random.uniform(0.5, 1.0, (batch_size, updates, 1, 1, 1))
        noise = random.standard_normal((batch_size, updates, size, size, 3))
        images = numpy.clip(127.5 + 100.0 * strength * pattern + 15.0 * noise, 0.0, 255.0)
        latent = random.standard_normal((batch_size, updates + 1, self.options["noise"]))
        return self.batch(images.astype(numpy.uint8), latent, random.uniform(size=(batch_size, updates)))

    def batch(self, images, latent, mixture):
        """The arrays of a step; of `latent` (rows, critic's updates + 1, noise) the last is for the generator's update.

        images  (rows, critic's updates, height, width, 3)   uint8
        noise   (rows, critic's updates, noise)              float32, of the standard normal distribution
        mixture (rows, critic's updates)                     float32, uniform in 0..1; only where there is a penalty
        generator_noise (rows, noise)                        float32, as noise
        """
        arrays = {
            "images": images,
            "noise": latent[:, :-1].astype(numpy.float32),
            "generator_noise": latent[:, -1].astype(numpy.float32),
        }
        if self.penalised:
            arrays["mixture"] = mixture.astype(numpy.float32)
        return arrays

    def form(self, kind):
        return kinds.SmallPictures(size=self.options["image_size"])

    def rows(self, shape, batch_size):
        return self.critic_updates * batch_size

    def batch_of(self, samples, shape, seeds):
        """The first rows' samples are for the critic's first update, and so on: so ranks share each update's pictures.

        A sample's seed draws its noise and its mixture; the generator's noise is drawn by the first update's.
        """
        (pictures,) = samples
        updates, rows = self.critic_updates, len(pictures) // self.critic_updates
        latent = numpy.empty((updates + 1, rows, self.options["noise"]))
        mixture = numpy.empty((updates, rows))
        random = numpy.random.RandomState()
        for n, seed in enumerate(seeds):
            random.seed(seed)  # 10 times as fast as a RandomState for each
            place = divmod(n, rows)
            latent[place] = random.standard_normal(self.options["noise"])
            mixture[place] = random.uniform()
            if n < rows:
                latent[updates, n] = random.standard_normal(self.options["noise"])
        images = pictures.reshape((updates, rows) + pictures.shape[1:])
        return self.batch(images.swapaxes(0, 1), latent.swapaxes(0, 1), mixture.swapaxes(0, 1))

    def items(self, arrays):
        """The real pictures that the critic sees in a step."""
        return collections.OrderedDict(images=arrays["images"].shape[0] * arrays["images"].shape[1])

    def macs(self, arrays):
        """The gradient by the mixed pictures, which the critic's loss is made of, counts as forward."""
        generator, critic = total(self.generator_layers), total(self.critic_layers)
        critic_update = generator + 2 * critic + (2 * critic if self.penalised else 0)
        return len(arrays["images"]) * (generator + critic + self.critic_updates * critic_update)

    def flops(self, arrays):
        """Backward, of each layer once by its weights and once by its input, but what has no use, for one picture:

        generator's update      the critic by its input alone; the generator, but its first layer's input (noise)
        critic's, fake + real   twice the critic, but its first layer's input (pictures)
        critic's, the penalty   twice the critic on the way of the gradient, but the output by the score (a constant);
                                and twice the critic on the way forward, but what comes after its last norm and the
                                first layer's input: nothing depends on those
        """
        generator, critic = total(self.generator_layers), total(self.critic_layers)
        noise, pictures = self.generator_layers[0].macs, self.critic_layers[0].macs
        output = self.critic_layers[-1].macs
        after_norms = total(self.critic_layers[-3:])  # the last block's conv2 and shortcut, and the output
        generator_update = critic + 2 * generator - noise
        critic_update = 2 * (2 * critic - pictures)
        if self.penalised:
            critic_update += 2 * critic - output + 2 * (critic - after_norms) - pictures
        backward = generator_update + self.critic_updates * critic_update
        return 2 * (self.macs(arrays) + len(arrays["images"]) * backward)


def convolution(name, channels, out, kernel, size, scale=HE, bias=True):
    """The Layer of a convolution whose output is `size` pixels high and wide."""
    return Layer(name, "conv", channels, out, kernel, scale, bias, channels * out * kernel**2 * size**2)


def dense(name, channels, out):
    return Layer(name, "dense", channels, out, 1, GLOROT, True, channels * out)


def total(layers):
    """The MACs of all layers together."""
    return sum(layer.macs for layer in layers)


SPECIFICATION = Wgan
