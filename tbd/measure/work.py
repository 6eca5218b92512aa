"""The arithmetic that an operator of a trace does and the memory that it has to touch, from the shapes of its inputs.

PyTorch's profiler writes with an operator the shapes, strides and types of its inputs, and the values of its scalars
(torch.profiler, `record_shapes`). Known are products alone: matrix products, convolutions and recurrences, 2
operations a multiply-accumulate. They have nearly all the operations of a network; of what else runs the number is not
known, and none is made up.

`bytes` is the compulsory traffic (Hill and Smith 1989: what even an infinite cache must fetch): each input read once
and each output written once. What an operator really moves is no less, so that the arithmetic intensity made of it,
operations / bytes (Williams, Waterman and Patterson 2009, "Roofline"), is the highest that it can have.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

# Type names as C++ has them (c10/core/ScalarType.h), and ours.
TYPES = {"float": ("fp32", 4), "double": ("fp64", 8), "c10::BFloat16": ("bf16", 2), "c10::Half": ("fp16", 2)}

Shape = tuple[int, ...]


class Work(NamedTuple):
    """Of one call: `shapes` of its factors in words, `type` of their numbers, `flops`, `bytes`."""

    shapes: str
    type: str
    flops: int
    bytes: int


class _Unknown(Exception):
    """The inputs are not as the operator's formula takes them."""


def of_operator(name: str, args: dict[str, Any]) -> Work | None:
    """The operator's work, None where it is not known."""
    formula = FORMULAS.get(name)
    if formula is None or "Input Dims" not in args:
        return None
    try:
        call = _Call(args)
        factors, outputs, flops = formula(call)
        kind, itemsize = TYPES[call.types[call.first]]
        moved = call.input_elements() + sum(math.prod(shape) for shape in outputs)
        shapes = " x ".join(str(list(shape)) for shape in factors)
    except (_Unknown, KeyError, IndexError, ValueError, TypeError):
        return None
    return Work(shapes, kind, flops, moved * itemsize) if flops > 0 else None


class _Call:
    """An operator's inputs as the profiler writes them. `first`: the input whose type is that of the products."""

    def __init__(self, args: dict[str, Any]):
        self.dims: list[Any] = args["Input Dims"]
        self.strides: list[Any] = args.get("Input Strides") or []
        self.types: list[str] = args["Input type"]
        self.values: list[str] = args.get("Concrete Inputs") or []
        self.first = 0

    def shape(self, place: int, rank: int | None = None) -> Shape:
        found = self.dims[place]
        if not found or any(not isinstance(size, int) for size in found) or (rank and len(found) != rank):
            raise _Unknown
        return tuple(found)

    def flags(self, place: int) -> list[bool]:
        """A scalar or list of true and false."""
        words = self.values[place].strip("[]").replace(" ", "").split(",")
        if not set(words) <= {"True", "False"}:
            raise _Unknown
        return [word == "True" for word in words]

    def numbers(self, place: int) -> list[int]:
        return [int(word) for word in self.values[place].strip("[]").replace(" ", "").split(",")]

    def input_elements(self) -> int:
        """Of all inputs of the products' type; what a stride of 0 repeats counts once."""
        total = 0
        for place, dims in enumerate(self.dims):
            if self.types[place] == self.types[self.first]:
                strides = self.strides[place] if place < len(self.strides) else [1] * len(dims)
                total += math.prod(size for size, stride in zip(dims, strides, strict=True) if stride != 0)
        return total


# (shapes of the factors, shapes of what is written, operations)
_Found = tuple[list[Shape], list[Shape], int]
_Formula = Callable[[_Call], _Found]


def _matrices(left: int) -> _Formula:
    """Input `left` (..., n, k) times the next one (..., k, m)."""

    def found(call: _Call) -> _Found:
        a, b = call.shape(left), call.shape(left + 1)
        call.first = left
        if len(a) != len(b) or len(a) < 2 or a[-1] != b[-2] or a[:-2] != b[:-2]:
            raise _Unknown
        out = (*a[:-1], b[-1])
        return [a, b], [out], 2 * math.prod(out) * a[-1]

    return found


def _matrix_vector(call: _Call) -> _Found:
    a, b = call.shape(0, 2), call.shape(1, 1)
    return [a, b], [(a[0],)], 2 * math.prod(a)


def _linear(call: _Call) -> _Found:
    """(..., k) times the transpose of (m, k)."""
    x, weight = call.shape(0), call.shape(1, 2)
    out = (*x[:-1], weight[0])
    return [x, weight], [out], 2 * math.prod(out) * x[-1]


def _macs_of_convolution(image: Shape, weight: Shape, out: Shape, transposed: bool) -> int:
    """Each output is a sum over weight[1:]; of a transposed convolution each input goes into weight[1:] outputs."""
    return math.prod(image if transposed else out) * math.prod(weight[1:])


def _convolution(call: _Call) -> _Found:
    """input, weight, bias, stride, padding, dilation, transposed, output_padding, groups."""
    image, weight = call.shape(0), call.shape(1)
    (transposed,) = call.flags(6)
    stride, padding, dilation, more = (call.numbers(place) for place in (3, 4, 5, 7))
    (groups,) = call.numbers(8)
    axes = range(len(image) - 2)
    kernel = [dilation[a] * (weight[2 + a] - 1) + 1 for a in axes]
    if transposed:
        sizes = [(image[2 + a] - 1) * stride[a] - 2 * padding[a] + kernel[a] + more[a] for a in axes]
        out = (image[0], weight[1] * groups, *sizes)
    else:
        out = (image[0], weight[0], *((image[2 + a] + 2 * padding[a] - kernel[a]) // stride[a] + 1 for a in axes))
    return [image, weight], [out], 2 * _macs_of_convolution(image, weight, out, transposed)


def _convolution_backward(call: _Call) -> _Found:
    """grad_output, input, weight, bias sizes, stride, padding, dilation, transposed, output_padding, groups, mask.

    The gradients by input and by weight are as many products each as the convolution itself.
    """
    gradient, image, weight = call.shape(0), call.shape(1), call.shape(2)
    (transposed,) = call.flags(7)
    by_image, by_weight, _ = call.flags(10)
    macs = _macs_of_convolution(image, weight, gradient, transposed)
    written = [shape for shape, asked in ((image, by_image), (weight, by_weight)) if asked]
    return [gradient, image, weight], written, 2 * macs * len(written)


def _recurrence(products: int) -> _Formula:
    """input, its weight, the state's weight, two biases, state: a layer in one direction, as oneDNN has it.

    Each matrix is multiplied by a vector in each step of each sequence, `products` times.
    """

    def found(call: _Call) -> _Found:
        x, by_input, by_state, state = call.shape(0), call.shape(1, 2), call.shape(2, 2), call.shape(5)
        flops = products * 2 * math.prod(x[:-1]) * (math.prod(by_input) + math.prod(by_state))
        written = [(*x[:-1], state[-1])] if products == 1 else [x, by_input, by_state]
        return [x, by_input, by_state], written, flops

    return found


FORMULAS: dict[str, _Formula] = {
    "aten::mm": _matrices(0),
    "aten::bmm": _matrices(0),
    "aten::addmm": _matrices(1),
    "aten::baddbmm": _matrices(1),
    "aten::mv": _matrix_vector,
    "aten::linear": _linear,
    "aten::convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
    "aten::mkldnn_rnn_layer": _recurrence(1),
    "aten::mkldnn_rnn_layer_backward": _recurrence(2),  # the gradients by what is multiplied and by the matrix
}
