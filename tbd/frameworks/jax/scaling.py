"""fp16's loss scaling (tbd/frameworks/base.py) as pure functions."""

import jax
import jax.numpy as jnp

from tbd.frameworks import base


def initial():
    """The scale, how many updates in a row were applied, and how many in all were left out."""
    return {"scale": jnp.float32(base.LOSS_SCALE), "applied": jnp.int32(0), "left_out": jnp.int32(0)}


def unscaled(gradients, state):
    """(whether all are finite, the gradients divided by the scale)."""
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(g)) for g in jax.tree.leaves(gradients)]))
    return finite, jax.tree.map(lambda g: g / state["scale"], gradients)


def moved(state, finite):
    """The state after an update whose gradients were `finite`."""
    applied = jnp.where(finite, state["applied"] + 1, 0)
    grown = applied >= base.LOSS_SCALE_INTERVAL
    after = jnp.where(grown, base.LOSS_SCALE_GROWTH, 1.0)
    return {
        "scale": state["scale"] * jnp.where(finite, after, base.LOSS_SCALE_BACKOFF),
        "applied": jnp.where(grown, 0, applied),
        "left_out": state["left_out"] + jnp.where(finite, 0, 1),
    }
