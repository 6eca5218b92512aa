"""A loop over time whose weight gradients are one matrix product each, taken after the loop.

Automatic differentiation of tf.while_loop multiplies and adds a whole weight matrix in every step. With few rows a
step (the batch) those sums cost more than the products. Here the loop keeps its products, the backward loop takes
their gradients, and each weight's gradient is a single product over all steps and rows: what cuDNN's fused LSTM does.
"""

import tensorflow as tf


def recurrence(cell, state, sequences, constants, weights):
    """Runs `cell` over the first axis of `sequences`; gives each part of the state after every step, stacked.

    cell(product, inputs, state, constants) -> the next state, a list like `state`. `inputs` are the sequences at one
    step. weights[k] is a list of matrices and product(k, *factors) the sum of factor @ matrix over it, to be called
    once for each k; the weights may be used in `cell` through `product` alone. All tensors have one floating type.
    Differentiable by all four lists.

    The backward loop computes the cell's element-wise operations again rather than keep their results.
    """
    counts = [len(state), len(sequences), len(constants), *map(len, weights)]

    @tf.custom_gradient
    def run(*arrays):
        state, sequences, constants, *weights = split(arrays, counts)
        steps = tf.shape(sequences[0])[0]

        def forward(t, state, states, results):
            found = {}

            def product(k, *factors):
                found[k] = sum(tf.matmul(x, matrix) for x, matrix in zip(factors, weights[k], strict=True))
                return found[k]

            after = cell(product, [s[t] for s in sequences], state, constants)
            states = [array.write(t + 1, part) for array, part in zip(states, after, strict=True)]
            results = [array.write(t, found[k]) for k, array in enumerate(results)]
            return t + 1, after, states, results

        states = [array_of(part, steps + 1).write(0, part) for part in state]
        results = [array_of(matrices[0], steps) for matrices in weights]
        _, _, states, results = loop(forward, steps, (0, state, states, results))
        states = [array.stack() for array in states]
        results = [array.stack() for array in results]

        def gradient(*upstream):
            return backward(cell, states, results, sequences, constants, weights, upstream)

        return [stack[1:] for stack in states], gradient

    return run(*state, *sequences, *constants, *flat(weights))


def backward(cell, states, results, sequences, constants, weights, upstream):
    """The gradients by the initial state, the sequences, the constants and the weights, in one flat list."""
    steps = tf.shape(results[0])[0]

    def body(n, state_gradients, constant_gradients, sequence_arrays, factors, result_gradients):
        t = steps - 1 - n
        state, inputs = [stack[t] for stack in states], [s[t] for s in sequences]
        factors_of, result_gradient = {}, {}

        def product(k, *factors):
            factors_of[k] = factors

            @tf.custom_gradient
            def kept(*factors):
                def gradient(by_result):
                    result_gradient[k] = by_result
                    return [tf.matmul(by_result, matrix, transpose_b=True) for matrix in weights[k]]

                return results[k][t], gradient

            return kept(*factors)

        with tf.GradientTape() as tape:
            tape.watch([state, inputs, constants])
            after = cell(product, inputs, state, constants)
        by_after = [g + up[t] for g, up in zip(state_gradients, upstream, strict=True)]
        by_state, by_inputs, by_constants = tape.gradient(
            after, [state, inputs, constants], by_after, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        return (
            n + 1,
            by_state,
            [total + g for total, g in zip(constant_gradients, by_constants, strict=True)],
            [array.write(t, g) for array, g in zip(sequence_arrays, by_inputs, strict=True)],
            [
                [array.write(t, x) for array, x in zip(arrays, factors_of[k], strict=True)]
                for k, arrays in enumerate(factors)
            ],
            [array.write(t, result_gradient[k]) for k, array in enumerate(result_gradients)],
        )

    start = (
        0,
        [tf.zeros_like(stack[0]) for stack in states],
        [tf.zeros_like(constant) for constant in constants],
        [array_of(s, steps) for s in sequences],
        [[array_of(matrix, steps) for matrix in matrices] for matrices in weights],
        [array_of(matrices[0], steps) for matrices in weights],
    )
    _, by_state, by_constants, by_sequences, factors, result_gradients = loop(body, steps, start)
    by_weights = []
    for arrays, gradients in zip(factors, map(rows, result_gradients), strict=True):
        by_weights += [tf.matmul(rows(array), gradients, transpose_a=True) for array in arrays]
    return [*by_state, *[array.stack() for array in by_sequences], *by_constants, *by_weights]


def split(arrays, counts):
    """The flat list cut into consecutive lists of the given lengths."""
    arrays, found = list(arrays), []
    for count in counts:
        found.append(arrays[:count])
        arrays = arrays[count:]
    return found


def flat(lists):
    return [one for part in lists for one in part]


def array_of(like, size):
    """An empty TensorArray of the tensor's type."""
    return tf.TensorArray(like.dtype, size)


def loop(body, steps, start):
    # one iteration at a time: steps depend on each other, and more in flight would only hold memory
    return tf.while_loop(lambda t, *_: t < steps, body, start, parallel_iterations=1)


def rows(array):
    """A TensorArray of (batch, features) as one (steps x batch, features) tensor."""
    stacked = array.stack()  # concat() is not to be had under XLA
    return tf.reshape(stacked, [-1, stacked.shape[-1]])
