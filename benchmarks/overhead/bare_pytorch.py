"""A training step as one writes it by hand in PyTorch."""

import torch


def step_of(training):
    """The step, a function of a batch's arrays, over the network and optimizer of a PyTorchTraining."""
    network, (update,) = training.network, training.updates
    optimizer, clip_norm = update.optimizer, update.specified.clip_norm

    def step(arrays):
        loss = network({name: torch.from_numpy(array) for name, array in arrays.items()}, update.name)
        loss.backward()
        if clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(update.tensors, clip_norm)
        optimizer.step()
        optimizer.zero_grad()

    return step
