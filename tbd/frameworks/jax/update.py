"""One update of a step, compiled."""

import functools

import jax
import jax.numpy as jnp
import numpy

from tbd.frameworks.jax import optimizer as optimizers
from tbd.frameworks.jax import ranks, scaling

IN_PRODUCTS = ("conv", "dense", "embedding")  # kinds of parameters that mixed precision gives in the products' type
CAST = "cast_weights"  # the scope of that
WEIGHT = "loss weight"  # among the inputs of several ranks: what the loss is a mean of


class TrainedUpdate:
    """An Update of the specification with the state of its optimizer.

    train() moves the weights and gives the loss; differentiate() gives the loss and {name: gradient}. Operations lie
    in the scopes `forward` (the gradients' too, as transpose(jvp(forward))) and `optimizer`.

    `products`: the type of products. Where that is not the weights' own, the network gets casts of them.
    """

    def __init__(self, update, network, parameters, weights, seed, products, together=None):
        self.name, self.repeat = update.name, update.repeat
        self.network = network
        by_name = {p.name: p for p in parameters}
        self.parameters = [by_name[name] for name in update.parameters]
        self.trained = frozenset(update.parameters)
        self.statistics = frozenset(p.name for p in parameters if p.role == "statistic")
        self.products = products
        self.cast = frozenset(p.name for p in parameters if p.role != "statistic" and p.kind in IN_PRODUCTS)
        self.loss_scale = scaling.initial() if products == "float16" else None
        self.left_out_read = 0
        self.optimizer = optimizers.create(update.optimizer, self.parameters)
        self.state = self.optimizer.state(weights)
        self.key = jax.random.key(seed, impl="rbg")  # rbg: a device's own generator, several times as fast as threefry
        self.together = together
        applied = self.applied
        if together:
            applied = together.mapped(self.applied)
            self.state, self.loss_scale = jax.tree.map(together.replicated, (self.state, self.loss_scale))
        self.compiled = jax.jit(applied, donate_argnames=("trained", "statistics", "state", "loss_scale"))
        self.compiled_gradients = jax.jit(self.loss_and_gradients)

    def train(self, weights, inputs, step, repetition):
        """Move `weights`, {name: array} of the whole network, in place by the update's turn in the step."""
        moved, self.state, self.loss_scale, loss = self.compiled(**self.arguments(weights, inputs, step, repetition))
        weights.update(moved)
        return loss

    def arguments(self, weights, inputs, step, repetition):
        """What `applied` takes in this turn."""
        turn = step * self.repeat + repetition
        scalars = self.optimizer.scalars(step, turn)
        return dict(
            self.parts(weights),
            state=self.state,
            loss_scale=self.loss_scale,
            inputs=inputs,
            turn=numpy.int32(turn),
            scalars=scalars,
        )

    def differentiate(self, weights, inputs):
        """(loss, {name: gradient}); with loss scaling at the present scale, or the next below with finite ones."""
        gradients_at = functools.partial(
            self.compiled_gradients, **self.parts(weights), inputs=inputs, turn=numpy.int32(0)
        )
        if self.loss_scale is None:
            (loss, _), gradients = gradients_at(loss_scale=None)
            return loss, gradients
        state = self.loss_scale
        while True:
            (loss, _), gradients = gradients_at(loss_scale=state)
            finite, gradients = scaling.unscaled(gradients, state)
            if finite or state["scale"] <= 1:
                return loss, gradients
            state = dict(state, scale=state["scale"] / 2)

    def read_left_out(self):
        """How many updates the loss scaling left out since the last call. Waits."""
        if self.loss_scale is None:
            return 0
        total = int(self.loss_scale["left_out"])
        count, self.left_out_read = total - self.left_out_read, total
        return count

    def parts(self, weights):
        """`weights` as the update sees them: those that it trains, the statistics, and the rest."""
        parts = {"trained": {}, "statistics": {}, "rest": {}}
        for name, array in weights.items():
            part = "trained" if name in self.trained else "statistics" if name in self.statistics else "rest"
            parts[part][name] = array
        return parts

    def given(self, weights):
        """What the network gets of the weights."""
        with jax.named_scope(CAST):
            return {n: w.astype(self.products) if n in self.cast else w for n, w in weights.items()}

    def loss_and_gradients(self, trained, statistics, rest, inputs, turn, loss_scale):
        """((loss, moved statistics), gradients; with loss scaling, of the scaled loss)."""
        weight = inputs.pop(WEIGHT) if WEIGHT in inputs else None
        if getattr(self.network, "draws", False):
            key = jax.random.fold_in(self.key, turn)
            inputs = dict(inputs, key=key if weight is None else ranks.own_key(key))

        def target(trained):
            with jax.named_scope("forward"):
                loss, moved = self.network(self.given({**rest, **statistics, **trained}), inputs, self.name)
                if weight is not None:
                    loss = loss * ranks.share(weight).astype(loss.dtype)
                return loss if loss_scale is None else loss * loss_scale["scale"], (loss, moved)

        (_, found), gradients = jax.value_and_grad(target, has_aux=True)(trained)
        return found, gradients if weight is None else ranks.mean(gradients)

    def applied(self, trained, statistics, rest, state, loss_scale, inputs, turn, scalars):
        """({name: array} of what moved, the optimizer's new state, the loss scaling's, the loss)."""
        (loss, moved), gradients = self.loss_and_gradients(trained, statistics, rest, inputs, turn, loss_scale)
        with jax.named_scope("optimizer"):
            if loss_scale is None:
                trained, state = self.optimizer.apply(trained, gradients, state, scalars)
            else:
                finite, gradients = scaling.unscaled(gradients, loss_scale)
                after = self.optimizer.apply(trained, gradients, state, scalars, loss_scale["left_out"])
                trained, state = jax.tree.map(lambda new, old: jnp.where(finite, new, old), after, (trained, state))
                loss_scale = scaling.moved(loss_scale, finite)
        return {**statistics, **moved, **trained}, state, loss_scale, loss
