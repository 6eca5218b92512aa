"""lax.scan whose gradients by the weights are one product each, after the loop.

By itself the backward loop of a scan adds up a gradient of the weight's size at every step, each of a product as thin
as the batch. Here the loop gives the gradients by the products, step by step, and each weight's is one product of them.
"""

import jax
import jax.numpy as jnp
from jax import lax


def recurrence(cell, state, sequences, constants, weights):
    """The outputs of all steps, stacked: cell(product, state, inputs, constants) gives (state, output) of one.

    `inputs` are one step's of `sequences`, arrays (steps, ...) in any nesting, as `state`, of arrays (batch, ...), and
    `constants` may be. `weights` is {name: array (in, out)}; product(name, x) is x (batch, in) times that weight, which
    a cell takes once.
    """

    @jax.custom_vjp
    def outputs(weights, state, sequences, constants):
        return forward(weights, state, sequences, constants)[0]

    def forward(weights, state, sequences, constants):
        def loop(added, *arguments):
            return scanned(cell, weights, added, *arguments)

        steps, batch = len(jax.tree.leaves(sequences)[0]), len(jax.tree.leaves(state)[0])
        added = {name: jnp.zeros((steps, batch, w.shape[1]), w.dtype) for name, w in weights.items()}
        found, backward_loop, factors = jax.vjp(loop, added, state, sequences, constants, has_aux=True)
        return found, (backward_loop, factors)

    def backward(saved, gradients):
        backward_loop, factors = saved
        by_products, *others = backward_loop(gradients)
        return {name: rows(x).T @ rows(by_products[name]) for name, x in factors.items()}, *others

    outputs.defvjp(forward, backward)
    return outputs(weights, state, sequences, constants)


def scanned(cell, weights, added, state, sequences, constants):
    """(outputs, {name: x of each product}), stacked. `added` {name: zeros (steps, batch, out)} is what the products'
    gradients come by: it is added to them."""

    def step(state, inputs):
        inputs, added = inputs
        factors = {}

        def product(name, x):
            factors[name] = x
            return x @ weights[name] + added[name]

        state, output = cell(product, state, inputs, constants)
        return state, (output, factors)

    return lax.scan(step, state, (sequences, added))[1]


def rows(array):
    """(steps, batch, features) as (steps x batch, features)."""
    return array.reshape(-1, array.shape[-1])
