"""The work of operators from the shapes of their inputs, in the form of PyTorch's profiler."""

import pytest

from tbd.measure.work import Work, of_operator

SCALAR = ("", [])


def args(*dims, types=None, values=None, strides=None):
    found = {"Input Dims": [list(d) for d in dims], "Input type": types or ["float"] * len(dims)}
    found |= {"Concrete Inputs": values or [""] * len(dims)}
    return found | ({"Input Strides": strides} if strides else {})


def convolution(*dims, backward=False, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, **more):
    """Arguments of aten::convolution, or of its gradients with `mask`."""
    lists = [list(stride), list(padding), list(dilation)]
    values = ["", "", ""] + (["[0]"] if backward else []) + [str(v) for v in lists]
    values += [str(more.get("transposed", False)), str(list(more.get("output_padding", (0, 0)))), str(groups)]
    values += [str(more["mask"])] if backward else []
    found = [*dims, *([[]] * (len(values) - len(dims)))]
    types = ["float"] * len(dims) + ["Scalar"] * (len(values) - len(dims))
    return args(*found, types=types, values=values)


@pytest.mark.parametrize(
    ("name", "given", "flops", "elements"),
    [
        # a product of known size: 64 x 32 times 32 x 16
        ("aten::mm", args((64, 32), (32, 16)), 2 * 64 * 32 * 16, 64 * 32 + 32 * 16 + 64 * 16),
        ("aten::addmm", args((16,), (64, 32), (32, 16)), 2 * 64 * 32 * 16, 16 + 64 * 32 + 32 * 16 + 64 * 16),
        ("aten::bmm", args((5, 4, 3), (5, 3, 2)), 2 * 5 * 4 * 3 * 2, 5 * (4 * 3 + 3 * 2 + 4 * 2)),
        ("aten::mv", args((8, 3), (3,)), 2 * 8 * 3, 8 * 3 + 3 + 8),
        ("aten::linear", args((5, 7, 32), (16, 32), (16,)), 2 * 35 * 32 * 16, 35 * 32 + 16 * 32 + 16 + 35 * 16),
        # a tensor that is one number, repeated, is read once
        ("aten::mm", args((4, 3), (3, 2), strides=[[0, 0], [2, 1]]), 2 * 4 * 3 * 2, 1 + 6 + 8),
        # 16 pictures of 3 x 32 x 32, 8 kernels of 3 x 3 x 3 in strides of 2: 8 x 16 x 16 outputs each
        (
            "aten::convolution", convolution((16, 3, 32, 32), (8, 3, 3, 3), stride=(2, 2), padding=(1, 1)),
            2 * 16 * 8 * 16 * 16 * 27, 16 * 3 * 32 * 32 + 8 * 27 + 16 * 8 * 16 * 16,
        ),
        (
            "aten::convolution", convolution((2, 4, 9, 9), (6, 2, 3, 3), groups=2, dilation=(2, 2)),
            2 * 2 * 6 * 5 * 5 * 18, 2 * 4 * 81 + 6 * 18 + 2 * 6 * 25,
        ),
        (
            "aten::convolution", convolution((2, 4, 5, 5), (4, 3, 2, 2), stride=(2, 2), transposed=True),
            2 * 2 * 4 * 25 * 12, 2 * 4 * 25 + 4 * 12 + 2 * 3 * 100,
        ),
        (
            "aten::convolution_backward",
            convolution((16, 8, 16, 16), (16, 3, 32, 32), (8, 3, 3, 3), backward=True, stride=(2, 2), padding=(1, 1),
                        mask=[True, True, False]),
            2 * 2 * 16 * 8 * 16 * 16 * 27, 16 * 8 * 256 + 2 * (16 * 3 * 1024 + 8 * 27),
        ),
        (
            "aten::convolution_backward",
            convolution((16, 8, 16, 16), (16, 3, 32, 32), (8, 3, 3, 3), backward=True, mask=[False, True, False]),
            2 * 16 * 8 * 16 * 16 * 27, 16 * 8 * 256 + 16 * 3 * 1024 + 2 * 8 * 27,
        ),
        # an LSTM layer of 16 units over 5 steps of 4 sequences of 8 features
        (
            "aten::mkldnn_rnn_layer", args((5, 4, 8), (64, 8), (64, 16), (64,), (64,), (4, 16), (4, 16)),
            2 * 20 * 64 * (8 + 16), 160 + 512 + 1024 + 128 + 128 + 20 * 16,
        ),
    ],
)  # fmt: skip
def test_operations_and_bytes_are_those_of_the_shapes(name, given, flops, elements):
    found = of_operator(name, given)
    assert found is not None
    assert (found.type, found.flops, found.bytes) == ("fp32", flops, 4 * elements)


def test_the_type_is_that_of_the_factors():
    given = args((64, 32), (32, 16), types=["c10::BFloat16"] * 2)
    assert of_operator("aten::mm", given) == Work("[64, 32] x [32, 16]", "bf16", 65536, 2 * 3584)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("aten::relu", args((64, 32))),
        ("aten::mm", {}),
        ("aten::mm", args((64, 32), (31, 16))),
        ("aten::mm", args((64, 32))),
        ("aten::mm", args((64, 32), (32, 16), types=["long int"] * 2)),
        ("aten::mm", {"Input Dims": "cut", "Input type": []}),
        ("aten::convolution", args((1, 3, 8, 8), (8, 3, 3, 3))),
        ("aten::mm", args((0, 32), (32, 16))),
    ],
)
def test_what_the_shapes_do_not_tell_is_not_known(name, given):
    assert of_operator(name, given) is None
