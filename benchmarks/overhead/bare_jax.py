"""A training step as one writes it by hand in JAX."""

import functools

import jax


def step_of(training):
    """The step, a function of a batch's arrays, over the network, weights and optimizer of a JaxTraining."""
    (update,) = training.updates
    number = 0

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def updated(weights, state, batch, scalars):
        def loss_of(trained):
            return update.network({**rest, **trained}, batch, update.name)

        trained = {name: array for name, array in weights.items() if name in update.trained}
        rest = {name: array for name, array in weights.items() if name not in update.trained}
        (loss, moved), gradients = jax.value_and_grad(loss_of, has_aux=True)(trained)
        trained, state = update.optimizer.apply(trained, gradients, state, scalars)
        return {**rest, **moved, **trained}, state, loss

    def step(arrays):
        nonlocal number
        scalars = update.optimizer.scalars(number, number)
        training.weights_now, update.state, loss = updated(
            training.weights_now, update.state, jax.device_put(arrays), scalars
        )
        loss.block_until_ready()  # on a CPU nothing is gained by going on before
        number += 1

    return step
