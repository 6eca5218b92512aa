"""The training loop of JAX's peers: a Flax module and an Optax optimizer in one jitted step that donates its state."""

import os

import jax
import jax.numpy as jnp
import optax

TYPES = {"fp32": jnp.float32, "tf32": jnp.float32, "bf16": jnp.bfloat16}


def set_up(device, precision):
    """Arithmetic, threads and device; gives the type that the module computes in."""
    if precision not in TYPES:
        raise ValueError(f"precision={precision}: peers train in {', '.join(TYPES)}")
    os.environ["PJRT_NPROC"] = os.environ["OMP_NUM_THREADS"]
    jax.config.update("jax_platforms", {"cpu": "cpu", "gpu": "cuda"}[device])
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    matmul = {"fp32": "highest", "tf32": "tensorfloat32", "bf16": "default"}[precision]
    jax.config.update("jax_default_matmul_precision", matmul)
    return TYPES[precision]


def build(module, loss, optimizer, example):
    """(step, sync). loss(apply, inputs) is of a batch; `example` are arguments by which the module makes its arrays.

    apply(*arguments) is the module's call in training, with new masks in every step.
    """
    key = jax.random.key(0, impl="rbg")
    variables = jax.jit(lambda: module.init({"params": key, "dropout": key}, *example))()
    weights, statistics = variables["params"], variables.get("batch_stats", {})
    state = weights, statistics, jax.jit(optimizer.init)(weights), jnp.int32(0)

    def train(state, inputs):
        weights, statistics, kept, number = state
        masks = jax.random.fold_in(key, number)

        def value(weights):
            moved = statistics

            def apply(*arguments):
                nonlocal moved
                both = {"params": weights, "batch_stats": statistics}
                outputs, changed = module.apply(both, *arguments, rngs={"dropout": masks}, mutable=["batch_stats"])
                moved = changed.get("batch_stats", {})
                return outputs

            return loss(apply, inputs), moved

        gradients, statistics = jax.grad(value, has_aux=True)(weights)
        changes, kept = optimizer.update(gradients, kept, weights)
        return optax.apply_updates(weights, changes), statistics, kept, number + 1

    compiled = jax.jit(train, donate_argnums=0)

    def step(arrays):
        nonlocal state
        state = compiled(state, jax.device_put(arrays))

    def sync():
        jax.block_until_ready(state)

    return step, sync
