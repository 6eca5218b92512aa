"""The CTC losses of a batch and their gradients in one framework, in float64, in its own environment.

python tests/frameworks/ctc_facts.py FRAMEWORK BATCH.npz RESULT.npz
"""

import os
import sys

import numpy

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def pytorch(logits, steps, labels, label_lengths, weights):
    import torch

    logits = torch.tensor(logits, requires_grad=True)
    lengths = torch.tensor(steps), torch.tensor(label_lengths)
    likelihoods = torch.log_softmax(logits, 2)
    losses = torch.nn.functional.ctc_loss(likelihoods, torch.tensor(labels).long(), *lengths, 0, reduction="none")
    (losses * torch.tensor(weights)).sum().backward()
    return losses.detach().numpy(), logits.grad.numpy()


def tensorflow(logits, steps, labels, label_lengths, weights):
    import tensorflow as tf

    from tbd.frameworks.tensorflow.ctc import ctc_loss

    @tf.function
    def run(logits, *lengths):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            losses = ctc_loss(logits, *lengths, 0)
            loss = tf.reduce_sum(losses * weights)
        return losses, tape.gradient(loss, logits)

    return [found.numpy() for found in run(*(tf.constant(array) for array in (logits, steps, labels, label_lengths)))]


def jax(logits, steps, labels, label_lengths, weights):
    import jax

    from tbd.frameworks.jax.ctc import ctc_loss

    jax.config.update("jax_enable_x64", True)

    def loss(logits):
        losses = ctc_loss(logits, steps, labels, label_lengths, 0)
        return (losses * weights).sum(), losses

    (_, losses), gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))(logits)
    return losses, gradient


def mxnet(logits, steps, labels, label_lengths, weights):
    import mxnet

    from tbd.frameworks.mxnet.ctc import ctc_loss

    arrays = {"logits": logits, "steps": steps, "labels": labels, "label_lengths": label_lengths}
    arrays = {name: mxnet.nd.array(array, dtype=array.dtype) for name, array in arrays.items()}
    inputs = [mxnet.sym.Variable(name, shape=array.shape, dtype=array.dtype) for name, array in arrays.items()]
    gradient = mxnet.nd.zeros_like(arrays["logits"])
    requests = {name: "write" if name == "logits" else "null" for name in arrays}
    executor = ctc_loss(*inputs).bind(mxnet.cpu(), arrays, {"logits": gradient}, requests)
    (losses,) = executor.forward(is_train=True)
    executor.backward([mxnet.nd.array(weights, dtype=logits.dtype)])
    return losses.asnumpy(), gradient.asnumpy()


def cntk(logits, steps, labels, label_lengths, weights):
    import cntk as C

    from tbd.frameworks.cntk.ctc import ctc_loss

    arrays = [numpy.ascontiguousarray(array, "f8") for array in (logits.swapaxes(0, 1), steps, labels, label_lengths)]
    with C.default_options(dtype=numpy.float64):
        inputs = [C.input_variable(array.shape[1:], needs_gradient=array.ndim == 3) for array in arrays]
        # of a whole batch it is a sum: so row by row
        total = ctc_loss(C.to_sequence(inputs[0]), len(logits), *inputs[1:])
        factor = C.Constant(numpy.ones(()))
        scaled = total * factor
    losses, by_logits = [], []
    for row, weight in enumerate(weights):
        factor.value = numpy.asarray(weight)
        fed = {inputs[n]: array[row : row + 1] for n, array in enumerate(arrays)}
        gradient, loss = scaled.grad(fed, wrt=inputs[:1], outputs=[total.output])
        losses.append(loss)
        by_logits.append(gradient[0])
    return losses, numpy.stack(by_logits, 1)


def main():
    framework, batch, result = sys.argv[1:]
    with numpy.load(batch) as arrays:
        functions = {"pytorch": pytorch, "tensorflow": tensorflow, "jax": jax, "mxnet": mxnet, "cntk": cntk}
        losses, gradient = functions[framework](**arrays)
    numpy.savez(result, losses=losses, gradient=gradient)


if __name__ == "__main__":
    main()
