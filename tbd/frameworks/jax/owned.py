"""Arrays that begin in numpy and belong to the device."""

import jax


def owned(array, device):
    """A numpy array's copy on the device, which a program may take over (donate).

    On the CPU device_put alone gives a view, and memory that is numpy's can't be donated. Nothing is compiled for it:
    jnp.copy and jnp.zeros compile a program for each shape, 30 ms each, seconds for all of a network's.
    """
    view = jax.device_put(array, device)
    # waits, as the array may be changed when it is read later
    return jax.device_put(view, device, may_alias=False).block_until_ready()
