"""The specification's optimizers, by PyTorch's own fused implementations."""

import torch

from tbd.models.specification import learning_rate_at


def create(optimizer, parameters, tensors):
    """The torch.optim.Optimizer of `optimizer` over `parameters` (specification), whose tensors are `tensors[name]`.

    torch.optim.SGD's velocity (momentum * velocity + gradient + decay * weight), torch.optim.Adam's epsilon (outside
    the square root, after the bias correction) and torch.optim.RMSprop (which has no fused kernel) are the ones of
    tbd/models/specification.py.
    """
    groups = [
        {"params": chosen, "weight_decay": decay}
        for decay, chosen in (
            (optimizer.weight_decay, [tensors[p.name] for p in parameters if p.decay]),
            (0.0, [tensors[p.name] for p in parameters if not p.decay]),
        )
        if chosen
    ]
    rate = learning_rate_at(optimizer, 0)
    if optimizer.kind == "sgd":
        made = torch.optim.SGD(groups, lr=rate, momentum=optimizer.momentum, fused=True)
        if optimizer.momentum:
            # it makes them at its first step, but leaves them unset where the loss scaling leaves that one out
            for p in parameters:
                made.state[tensors[p.name]]["momentum_buffer"] = torch.zeros_like(tensors[p.name])
        return made
    if optimizer.kind == "adam":
        betas = (optimizer.beta1, optimizer.beta2)
        return torch.optim.Adam(groups, lr=rate, betas=betas, eps=optimizer.epsilon, fused=True)
    if optimizer.kind == "rmsprop":
        o = optimizer
        return torch.optim.RMSprop(groups, lr=rate, alpha=o.alpha, eps=o.epsilon, momentum=o.momentum)
    raise ValueError(f"optimizer {optimizer.kind} is not one of adam, rmsprop, sgd")


def clip(tensors, clip_norm):
    """Multiply the gradients of `tensors` by min(1, clip_norm / global norm), without waiting for the device."""
    norm = torch.nn.utils.get_total_norm([tensor.grad for tensor in tensors])
    # PyTorch divides by norm + 1e-6 (torch/nn/utils/clip_grad.py); the specification divides by the norm
    torch.nn.utils.clip_grads_with_norm_(tensors, clip_norm, norm - 1e-6)


@torch.no_grad()
def clip_weights(tensors, bound):
    """Cut every number of `tensors` to [-bound, bound]."""
    torch._foreach_clamp_min_(tensors, -bound)
    torch._foreach_clamp_max_(tensors, bound)
