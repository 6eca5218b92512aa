"""WGAN-GP on Keras layers: the residual networks of gan_64x64.py, one tf.function for all updates of a step."""

import keras
import tensorflow as tf
from keras import layers

from peers.tensorflow import loop

SOURCE = "by hand, keras.layers, after improved_wgan_training"


def block(x, norm, out, upsample):
    """norm, relu, convolution, twice, beside a shortcut."""
    between = out if upsample else x.shape[-1]
    y = layers.ReLU()(norm()(x))
    if upsample:
        y = layers.UpSampling2D()(y)
    y = layers.ReLU()(norm()(layers.Conv2D(between, 3, padding="same", use_bias=False)(y)))
    y = layers.Conv2D(out, 3, padding="same")(y)
    if upsample:
        return layers.Add()([y, layers.UpSampling2D()(layers.Conv2D(out, 1)(x))])
    pool = layers.AveragePooling2D(2)
    return layers.Add()([pool(y), layers.Conv2D(out, 1)(pool(x))])


def batch_norm():
    return layers.BatchNormalization(epsilon=1e-5)


def layer_norm():
    return layers.GroupNormalization(groups=1, epsilon=1e-5)


def networks(options):
    """(generator, critic)."""
    size = options["image_size"]
    channels = [options["width"] * min(2**n, 8) for n in range((size // 4).bit_length())]
    noise, pictures = keras.Input((options["noise"],)), keras.Input((size, size, 3))
    x = layers.Reshape((4, 4, channels[-1]))(layers.Dense(channels[-1] * 16)(noise))
    for out in channels[-2::-1]:
        x = block(x, batch_norm, out, upsample=True)
    x = layers.Conv2D(3, 3, padding="same", activation="tanh")(layers.ReLU()(batch_norm()(x)))
    generator = keras.Model(noise, x)
    x = layers.Conv2D(channels[0], 3, padding="same")(pictures)
    for out in channels[1:]:
        x = block(x, layer_norm, out, upsample=False)
    return generator, keras.Model(pictures, layers.Dense(1)(layers.Flatten()(x)))


def build(options, batch_size, device, precision, compile):
    if options["lipschitz"] != "gradient_penalty":
        raise ValueError("only with a gradient penalty")
    loop.set_up(device, precision)
    generator, critic = networks(options)
    dtype = generator.compute_dtype
    optimizers = {network: keras.optimizers.Adam(1e-4, beta_1=0.0, beta_2=0.9) for network in (generator, critic)}
    for network, optimizer in optimizers.items():
        optimizer.build(network.trainable_variables)

    def score(pictures):
        return tf.cast(critic(pictures, training=True), tf.float32)

    def moved(network, loss):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([variable.value for variable in network.trainable_variables])
            value = loss()
        variables = network.trainable_variables
        optimizers[network].apply(tape.gradient(value, variables), variables)
        return value

    def critics_loss(real, fake, mixture):
        mix = real + mixture[:, None, None, None] * (fake - real)
        with tf.GradientTape() as tape:
            tape.watch(mix)
            scores = score(mix)
        slopes = tf.norm(tf.reshape(tf.cast(tape.gradient(scores, mix), tf.float32), [tf.shape(mix)[0], -1]), axis=1)
        penalty = 10 * tf.reduce_mean(tf.square(slopes - 1))
        return tf.reduce_mean(score(fake)) - tf.reduce_mean(score(real)) + penalty

    @tf.function(jit_compile=compile == "xla")
    def train(inputs):
        moved(generator, lambda: -tf.reduce_mean(score(generator(inputs["generator_noise"], training=True))))
        for n in range(inputs["images"].shape[1]):
            real = tf.cast(inputs["images"][:, n], dtype) / 127.5 - 1
            fake = generator(inputs["noise"][:, n], training=True)
            mixture = tf.cast(inputs["mixture"][:, n], dtype)
            loss = moved(critic, lambda: critics_loss(real, fake, mixture))  # noqa: B023, called at once
        return loss

    last = []

    def step(arrays):
        last[:] = [train({name: tf.constant(array) for name, array in arrays.items()})]

    return step, lambda: last[0].numpy()
