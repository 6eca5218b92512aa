"""One update of a step, compiled."""

import jax
import numpy

from tbd.frameworks.jax import optimizer as optimizers


class TrainedUpdate:
    """An Update of the specification with the state of its optimizer.

    train() moves the weights and gives the loss; differentiate() gives the loss and {name: gradient}. Operations lie
    in the scopes `forward` (the gradients' too, as transpose(jvp(forward))) and `optimizer`.
    """

    def __init__(self, update, network, parameters, weights, seed):
        self.name, self.repeat = update.name, update.repeat
        self.network = network
        by_name = {p.name: p for p in parameters}
        self.parameters = [by_name[name] for name in update.parameters]
        self.trained = frozenset(update.parameters)
        self.statistics = frozenset(p.name for p in parameters if p.role == "statistic")
        self.optimizer = optimizers.create(update.optimizer, self.parameters)
        self.state = self.optimizer.state(weights)
        self.key = jax.random.key(seed, impl="rbg")  # rbg: a device's own generator, several times as fast as threefry
        self.compiled = jax.jit(self.applied, donate_argnames=("trained", "statistics", "state"))
        self.compiled_gradients = jax.jit(self.loss_and_gradients)

    def train(self, weights, inputs, step, repetition):
        """Move `weights`, {name: array} of the whole network, in place by the update's turn in the step."""
        moved, self.state, loss = self.compiled(**self.arguments(weights, inputs, step, repetition))
        weights.update(moved)
        return loss

    def arguments(self, weights, inputs, step, repetition):
        """What `applied` takes in this turn."""
        turn = step * self.repeat + repetition
        scalars = self.optimizer.scalars(step, turn)
        return dict(self.parts(weights), state=self.state, inputs=inputs, turn=numpy.int32(turn), scalars=scalars)

    def differentiate(self, weights, inputs):
        (loss, _), gradients = self.compiled_gradients(**self.parts(weights), inputs=inputs, turn=numpy.int32(0))
        return loss, gradients

    def parts(self, weights):
        """`weights` as the update sees them: those that it trains, the statistics, and the rest."""
        parts = {"trained": {}, "statistics": {}, "rest": {}}
        for name, array in weights.items():
            part = "trained" if name in self.trained else "statistics" if name in self.statistics else "rest"
            parts[part][name] = array
        return parts

    def loss_and_gradients(self, trained, statistics, rest, inputs, turn):
        """((loss, moved statistics), gradients)."""
        if getattr(self.network, "draws", False):
            inputs = dict(inputs, key=jax.random.fold_in(self.key, turn))

        def loss(trained):
            with jax.named_scope("forward"):
                return self.network({**rest, **statistics, **trained}, inputs, self.name)

        return jax.value_and_grad(loss, has_aux=True)(trained)

    def applied(self, trained, statistics, rest, state, inputs, turn, scalars):
        """({name: array} of what moved, the optimizer's new state, the loss)."""
        (loss, moved), gradients = self.loss_and_gradients(trained, statistics, rest, inputs, turn)
        with jax.named_scope("optimizer"):
            trained, state = self.optimizer.apply(trained, gradients, state, scalars)
        return {**statistics, **moved, **trained}, state, loss
