"""The CTC loss and its gradient by the forward-backward algorithm, in one loop over time, in any floating type."""

import jax
import jax.numpy as jnp
from jax import lax

from tbd.frameworks.jax.layers import at_least_float32

NOTHING = -1e30  # the logarithm of a probability of 0 that can be added and subtracted: its exponential is 0


def ctc_loss(logits, steps, labels, label_lengths, blank):
    """-log P(label | logits) of each row (Graves et al. 2006), in at least float32: (batch,).

    logits (time, batch, classes) and labels (batch, longest) are padded beyond `steps` and `label_lengths`.
    """
    # a blank before each character and after the last: states (batch, 2 longest + 1)
    states = jnp.full((len(labels), 2 * labels.shape[1] + 1), blank, labels.dtype).at[:, 1::2].set(labels)
    return losses(at_least_float32(logits), steps, states, 2 * label_lengths)


@jax.custom_vjp
def losses(logits, steps, states, last):
    return losses_and_gradient(logits, steps, states, last)[0]


def losses_and_gradient(logits, steps, states, last):
    """(losses, gradient of their sum by the logits); `last` is the place of the last state."""
    time, batch, classes = logits.shape
    # from the last but one state into a character that is not the same
    skips = jnp.pad(states[:, 2:] != states[:, :-2], ((0, 0), (2, 0)))
    place = jnp.arange(states.shape[1])
    at_end = (place <= last[:, None]) & (place >= last[:, None] - 1)
    one_hot = jax.nn.one_hot(states, classes, dtype=logits.dtype)
    likelihoods = jax.nn.log_softmax(logits)
    emitted = jnp.einsum("tbc,bsc->tbs", likelihoods, one_hot)
    # the backward variables are the forward ones of reversed time and states: one loop does both
    found = forward(
        jnp.concatenate([emitted, emitted[::-1, :, ::-1]], 1),
        jnp.concatenate([skips, jnp.pad(skips[:, 2:], ((0, 0), (0, 2)))[:, ::-1]]),
        jnp.concatenate([jnp.broadcast_to(place < 2, states.shape), at_end[:, ::-1]]),
        jnp.concatenate([jnp.zeros_like(steps), time - steps]),
    )
    paths = found[:, :batch] + found[::-1, batch:, ::-1] - emitted
    likelihood = jax.nn.logsumexp(paths[0], 1)
    real = (jnp.arange(time)[:, None] < steps)[:, :, None]
    occupied = jnp.exp(jnp.where(real, paths - likelihood[:, None], NOTHING))
    by_logits = jnp.exp(likelihoods) - jnp.einsum("tbs,bsc->tbc", occupied, one_hot)
    return -likelihood, jnp.where(real, by_logits, 0)


losses.defvjp(losses_and_gradient, lambda by_logits, gradient: (by_logits * gradient[:, None], None, None, None))


def forward(emitted, skips, begin, starts):
    """log P(what was emitted up to each time, and being in each state), (time, batch, states).

    Paths enter at the times `starts` (batch,) in the states where `begin` is true; they go on to the same state, the
    next, or, where `skips` is true of it, the next but one.
    """
    first = jnp.where(begin, 0, jnp.array(NOTHING, emitted.dtype))

    def step(paths, inputs):
        emitted, t = inputs
        by_one = jnp.pad(paths[:, :-1], ((0, 0), (1, 0)), constant_values=NOTHING)
        by_two = jnp.where(skips, jnp.pad(paths[:, :-2], ((0, 0), (2, 0)), constant_values=NOTHING), NOTHING)
        largest = jnp.maximum(jnp.maximum(paths, by_one), by_two)
        total = largest + jnp.log(sum(jnp.exp(one - largest) for one in (paths, by_one, by_two)))
        paths = emitted + jnp.where((t <= starts)[:, None], first, total)
        return paths, paths

    return lax.scan(step, first, (emitted, jnp.arange(len(emitted))))[1]
