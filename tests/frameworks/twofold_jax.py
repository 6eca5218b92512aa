"""twofold.py's network in JAX."""

import jax.numpy as jnp

from tbd.frameworks.jax.layers import at_least_float32


class Network:
    def __init__(self, specification):
        pass

    def __call__(self, weights, inputs, update):
        w, inputs = weights, {name: at_least_float32(array) for name, array in inputs.items()}
        if update == "second":
            return jnp.mean(jnp.square(w["first"] * w["second"] * inputs["z"])), {}
        difference = w["scale"] * (w["first"] * inputs["x"] + w["second"]) - inputs["y"]
        return jnp.mean(jnp.square(difference)), {"seen": w["seen"] + jnp.mean(inputs["x"], 0)}


NETWORK = Network
