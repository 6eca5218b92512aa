"""Whether two observations (observe.py) are of the same network in training, within bounds.

The reference is PyTorch in float64 on the CPU. Errors, all relative:

    loss/UPDATE, losses   |observed - reference| / |reference|, the largest over the steps
    gradient/UPDATE/NAME  norm of the difference / norm of the reference
    trained/NAME          norm of the difference / norm of what 10 steps changed in the reference: the drift

Weights as built must be the specification's, to the bit.

In float64 a loss may differ by 1e-9 and a gradient, or a drift, by 1e-6. In float32 no fixed bound is honest: rounding
flips ReLUs, and those flip gradients. So it is calibrated: the first loss 1e-5, every other error at most 3 times the
one that PyTorch in float32 makes itself on the same batch, or 1e-5 where that is more. One rounding may be a lucky one:
it is the larger of two errors of PyTorch's, with oneDNN's kernels and with its own, which round in another order.

In mixed precision the factors of products are rounded to u = 2^-8 (bf16) or 2^-11 (fp16). The loss may differ by 32
u: one that is the difference of two means, as WGAN's, loses 29 u in PyTorch, every other less than 2 u. The gradients
of these small networks, whose batch norms divide by the spread of few values, are another matter: all of an update
together may differ by 60 % of their norm (PyTorch's do by a third, JAX's by 45 %). That is a bound against mistakes,
such as a scale that is not divided out or a cast that cuts gradients off; what the network computes is what float32
and float64 show. And they must differ by more than float32's: else nothing was rounded.
"""

import collections

import numpy

LOSS, GRADIENT = 1e-9, 1e-6  # float64
LOSS_FP32, FLOOR_FP32, OWN_ERRORS_FP32 = 1e-5, 1e-5, 3.0


def errors(observed, reference):
    """{key: relative error} of two observations with the same keys and shapes."""
    found = {}
    for key, right in reference.items():
        kind, _, name = key.partition("/")
        difference = numpy.abs(numpy.asarray(observed[key], numpy.float64) - right)
        if kind in ("loss", "losses"):
            found[key] = float(numpy.max(difference / numpy.abs(right)))
        elif kind == "gradient":
            found[key] = ratio(norm(difference), norm(right))
        elif kind == "trained":
            found[key] = ratio(norm(difference), norm(right - reference["initial/" + name]))
    return found


def largest_errors(observations, reference):
    """{key: the largest relative error of any of the observations}."""
    found = [errors(one, reference) for one in observations]
    return {key: max(one[key] for one in found) for key in (found[0] if found else ())}


def failures(observed, reference, own=()):
    """What is wrong, a line each; empty where `observed` passes.

    `own` are PyTorch's observations in float32: with them, `observed` is held to the calibrated bounds of float32.
    """
    wrong = different_arrays(observed, reference)
    if wrong:
        return wrong
    own_errors = largest_errors(own, reference)
    for key, error in errors(observed, reference).items():
        allowed = bound(key, own_errors.get(key))
        if not error <= allowed:  # a NaN fails too
            wrong.append(f"{key}: error {error:.2e}, bound {allowed:.2e}")
    return wrong


def different_arrays(observed, reference):
    """Keys and shapes that differ, and initial weights that are not the canonical ones."""
    wrong = [f"{key}: missing" for key in sorted(set(reference) - set(observed))]
    wrong += [f"{key}: not of this model" for key in sorted(set(observed) - set(reference))]
    for key in sorted(set(reference) & set(observed)):
        shapes = numpy.shape(observed[key]), numpy.shape(reference[key])
        if shapes[0] != shapes[1]:
            wrong.append(f"{key}: shape {shapes[0]}, not {shapes[1]}")
        elif key.startswith("initial/") and not numpy.array_equal(
            observed[key], reference[key.replace("initial", "canonical", 1)]
        ):
            wrong.append(f"{key}: not the specification's initial weights")
    return wrong


def bound(key, own_error=None):
    """How large the error of a key may be: in float64, or where PyTorch's own in float32 is given, in float32."""
    if own_error is None:
        return LOSS if is_loss(key) or key == "losses" else GRADIENT
    return LOSS_FP32 if is_loss(key) else max(FLOOR_FP32, OWN_ERRORS_FP32 * own_error)


def is_loss(key):
    return key.startswith("loss/")


def norm(array):
    return float(numpy.linalg.norm(numpy.asarray(array, numpy.float64)))


def ratio(difference, size):
    """difference / size, and 0 where both are."""
    return 0.0 if difference == 0.0 else float(numpy.divide(difference, size))


ROUNDING = {"bf16": 2.0**-8, "fp16": 2.0**-11}
LOSS_MIXED, GRADIENTS_MIXED = 32, 0.6  # the loss in units of the rounding


def mixed_failures(observed, reference, own, precision):
    """What is wrong of a mixed precision's losses and gradients; `own` is PyTorch's observation in float32."""
    wrong, sums = [], collections.defaultdict(lambda: numpy.zeros(3))
    for key, array in observed.items():
        kind, update = key.split("/")[:2]
        if kind == "loss":
            error = abs(array - reference[key]) / abs(reference[key])
            if not error <= LOSS_MIXED * ROUNDING[precision]:
                wrong.append(f"{key}: error {error:.2e}, bound {LOSS_MIXED * ROUNDING[precision]:.2e}")
        else:
            right = reference[key]
            sums[update] += [norm(array - right) ** 2, norm(own[key] - right) ** 2, norm(right) ** 2]
    for update, (difference, of_fp32, size) in sums.items():
        error, least = numpy.sqrt(difference / size), numpy.sqrt(of_fp32 / size)
        if not least < error <= GRADIENTS_MIXED:
            wrong.append(f"gradient/{update}: error {error:.2e}, not between {least:.2e} and {GRADIENTS_MIXED}")
    return wrong
