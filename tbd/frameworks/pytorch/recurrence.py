"""Products of recurrences that are unrolled step by step, for a CPU, where arithmetic counts and not kernels."""

import torch

from tbd.frameworks.pytorch.training import product_type


class Recurrent:
    """A product with a weight (out, in) that is taken at every step of a recurrence.

    Autograd alone would make and add up one gradient of the weight's size a step, each of a product as thin as the
    batch. Here the backward pass keeps the steps' inputs and gradients and multiplies them once.
    """

    def __init__(self, weight):
        self.steps = []  # [(gradient by the product, input)], filled in the backward pass
        self.weight = Gathered.apply(weight.to(product_type(weight)), self.steps)

    def __call__(self, x):
        return Step.apply(x.to(self.weight.dtype), self.weight, self.steps)


class Gathered(torch.autograd.Function):
    """The weight itself; its gradient is worked out when the backward pass of every step is done."""

    @staticmethod
    def forward(context, weight, steps):
        context.steps = steps
        return weight.view_as(weight)

    @staticmethod
    def backward(context, _):
        gradients, inputs = zip(*context.steps, strict=True)
        context.steps.clear()
        return torch.cat(gradients).t() @ torch.cat(inputs), None


class Step(torch.autograd.Function):
    """One product. Gives the weight no gradient, but leaves in `steps` what it is made of."""

    @staticmethod
    def forward(context, x, weight, steps):
        context.save_for_backward(x, weight)
        context.steps = steps
        return x @ weight.t()

    @staticmethod
    def backward(context, gradient):
        x, weight = context.saved_tensors
        context.steps.append((gradient, x))
        return gradient @ weight, None, None
