"""How the convolution oracle reads its arguments, and its messages about impossible ones."""

from __future__ import annotations

import numpy as np
import pytest
from backwarp.reference import conv


@pytest.mark.parametrize(
    "one, other",
    [
        (dict(stride=2), dict(stride=(2, 2))),
        (dict(stride=2), dict(stride=[2])),
        (dict(dilation=2), dict(dilation=np.array([2, 2]))),
        (dict(stride=2), dict(stride=np.int64(2))),
        (dict(padding=1), dict(padding=((1, 1), (1, 1)))),
        (dict(padding=1), dict(padding=[1, (1, 1)])),
        (dict(padding=(1, 2)), dict(padding=((1, 1), (2, 2)))),
        (dict(padding=((1, 0), (1, 0))), dict(padding=((1, 0),))),
        (dict(padding=((1, 0), (2, 1))), dict(padding=np.array([[1, 0], [2, 1]]))),
    ],
)
def test_one_number_or_one_per_dimension(one, other):
    x, w = np.random.default_rng(2).normal(size=(1, 2, 6, 7)), np.ones((1, 2, 2, 3))
    np.testing.assert_array_equal(conv.forward(x, w, **one), conv.forward(x, w, **other))


# ---- errors ----------------------------------------------------------------------------------------


def ones(*shape):
    return np.ones(shape)


X, W, G = ones(2, 4, 7, 5), ones(6, 4, 3, 2), ones(2, 6, 5, 4)


def backward(g=G, x=X, w=W, bias_sizes=(6,), stride=1, padding=0, dilation=1, transposed=False, **more):
    more = dict(output_padding=0, groups=1, output_mask=(True, True, True)) | more
    return conv.convolution_backward(
        g, x, w, bias_sizes, stride, padding, dilation, transposed, *more.values()
    )


ERRORS = {
    "no batch": (
        lambda: conv.forward(ones(4, 7, 5), W),
        [
            "input has 3 dimensions, shape (4, 7, 5)",
            "weight (6, 4, 3, 2) has 4",
            "batch size",
            "[np.newaxis]",
        ],
    ),
    "input_shape without the batch": (
        lambda: conv.backward_input(G, W, (4, 7, 5)),
        ["input has 3 dimensions"],
    ),
    "input_shape a number": (lambda: conv.backward_input(G, W, 7), ["input_shape is 7", "such as"]),
    "weight_shape a number": (lambda: conv.backward_weights(G, X, 3), ["weight_shape is 3", "such as"]),
    "weight_shape without channels": (
        lambda: conv.backward_weights(G, X, (3, 2)),
        ["weight has 2 dimensions, shape (3, 2)", "(K, C/groups, R, S)"],
    ),
    "fractions in a shape": (
        lambda: conv.backward_input(G, W, (2, 4, 7.0, 5)),
        ["input_shape is 7.0", "whole"],
    ),
    "below zero in a shape": (
        lambda: conv.backward_input(G, W, (2, 4, -7, 5)),
        ["input_shape is -7", "at least 0"],
    ),
    "4-D filter": (lambda: conv.forward(ones(*[1] * 6), ones(*[1] * 6)), ["weight has 6 dimensions"]),
    "filter without taps": (
        lambda: conv.forward(X, ones(6, 4, 0, 2)),
        ["(6, 4, 0, 2)", "without taps", "at least 1"],
    ),
    "bias gradient of a matrix": (
        lambda: conv.backward_bias(ones(2, 6)),
        ["grad_output has 2 dimensions, shape (2, 6)", "(N, K, P, Q)", "batch size"],
    ),
    "bias gradient beyond 3-D": (
        lambda: conv.backward_bias(ones(*[2] * 6)),
        ["grad_output has 6 dimensions"],
    ),
    "groups do not divide the input": (
        lambda: conv.forward(X, W, groups=3),
        ["4 input channels", "groups=3", "divides 4"],
    ),
    "groups do not divide the output": (
        lambda: conv.forward(X, ones(6, 1, 3, 2), groups=4),
        ["6 output channels", "groups=4", "divides 6"],
    ),
    "weight for other channels": (
        lambda: conv.forward(X, ones(6, 4, 3, 2), groups=2),
        ["weight (6, 4, 3, 2) has 4 channels per filter", "input (2, 4, 7, 5) has 4", "must be 4 / 2 = 2"],
    ),
    "groups 0": (lambda: conv.forward(X, W, groups=0), ["groups is 0", "at least 1"]),
    "filter too high": (
        lambda: conv.forward(X, ones(6, 4, 3, 2), padding=((1, 0), 0), dilation=(4, 1)),
        ["along h", "9 elements (3 taps, dilation 4)", "padded input has 8 (1 + 7 + 0)", "more padding"],
    ),
    "filter too wide": (
        lambda: conv.forward(X, ones(6, 4, 3, 6)),
        ["along w", "6 elements", "has 5 (0 + 5 + 0)"],
    ),
    "filter too deep": (lambda: conv.forward(ones(1, 1, 2, 3, 3), ones(1, 1, 3, 3, 3)), ["along d"]),
    "filter too long": (lambda: conv.forward(ones(1, 1, 2), ones(1, 1, 3)), ["along w"]),
    "stride 0": (lambda: conv.forward(X, W, stride=(1, 0)), ["stride is 0", "at least 1"]),
    "dilation 0": (lambda: conv.forward(X, W, dilation=0), ["dilation is 0", "at least 1"]),
    "padding below 0": (
        lambda: conv.forward(X, W, padding=((0, 0), (0, -1))),
        ["padding is -1", "at least 0"],
    ),
    "stride of three": (
        lambda: conv.forward(X, W, stride=(1, 2, 3)),
        [
            "stride (1, 2, 3) has 3 entries",
            "filter has 2 dimensions",
            "one number, or one entry per dimension",
        ],
    ),
    "pair for one dimension": (
        lambda: conv.forward(ones(1, 1, 4), ones(1, 1, 2), padding=(1, 2)),
        ["1 dimension;"],
    ),
    "empty stride": (lambda: conv.forward(X, W, stride=()), ["stride () has 0 entries"]),
    "triple of padding": (
        lambda: conv.forward(X, W, padding=((1, 2, 3), 0)),
        ["entry (1, 2, 3)", "(before, after)"],
    ),
    "padding by name": (lambda: conv.forward(X, W, padding="same"), ["padding 'same'", "one number"]),
    "stride of 1.5": (lambda: conv.forward(X, W, stride=1.5), ["stride is 1.5", "whole numbers"]),
    "bias too short": (lambda: conv.forward(X, W, ones(4)), ["bias.shape is (4,)", "(6,)"]),
    "bias of one per image": (lambda: conv.forward(X, W, ones(2, 6)), ["bias.shape is (2, 6)", "(6,)"]),
    "grad_output, backward data": (
        lambda: conv.backward_input(ones(2, 6, 5, 5), W, X.shape),
        ["grad_output.shape is (2, 6, 5, 5)", "make it (2, 6, 5, 4)"],
    ),
    "grad_output, backward weights": (
        lambda: conv.backward_weights(ones(1, 6, 5, 4), X, W.shape),
        ["grad_output.shape is (1, 6, 5, 4)", "make it (2, 6, 5, 4)"],
    ),
    "transposed, channels": (
        lambda: conv.transposed(X, W),
        ["weight (6, 4, 3, 2) is for 6 input channels", "input (2, 4, 7, 5) has 4", "(C, K/groups, ...)"],
    ),
    "transposed, groups": (
        lambda: conv.transposed(X, ones(4, 2, 3, 2), groups=3),
        ["4 input channels", "groups=3"],
    ),
    "transposed, groups 0": (lambda: conv.transposed(X, ones(4, 2, 3, 2), groups=0), ["groups is 0"]),
    "transposed, no batch": (
        lambda: conv.transposed(ones(4, 7, 5), ones(4, 2, 3, 2)),
        ["input has 3 dimensions"],
    ),
    "transposed, nothing to start from": (
        lambda: conv.transposed(ones(2, 4, 0, 5), ones(4, 2, 3, 2)),
        ["input (2, 4, 0, 5) is empty along h"],
    ),
    "transposed, stride 0": (lambda: conv.transposed(X, ones(4, 2, 3, 2), stride=0), ["stride is 0"]),
    "transposed, padding takes all": (
        lambda: conv.transposed(ones(1, 1, 2, 3), ones(1, 1, 2, 2), padding=(1, (2, 2))),
        ["along w", "4 elements", "takes away 2 + 2", "less padding"],
    ),
    "output_padding too large": (
        lambda: conv.transposed(X, ones(4, 2, 3, 2), stride=(3, 2), output_padding=2),
        ["output_padding is 2 along w", "stride, 2", "dilation, 1", "at most 1"],
    ),
    "output_padding below 0": (
        lambda: conv.transposed(X, ones(4, 2, 3, 2), output_padding=-1),
        ["output_padding is -1", "at least 0"],
    ),
    "transposed, grad_output, backward data": (
        lambda: conv.transposed_backward_input(ones(2, 3, 6, 4), ones(4, 3, 3, 2), X.shape),
        ["grad_output.shape is (2, 3, 6, 4)", "make it (2, 3, 9, 6)"],
    ),
    "transposed, grad_output, backward weights": (
        lambda: conv.transposed_backward_weights(ones(2, 3, 6, 4), X, (4, 3, 3, 2)),
        ["grad_output.shape is (2, 3, 6, 4)", "make it (2, 3, 9, 6)"],
    ),
    "aten, grad_output": (lambda: backward(g=ones(2, 5, 5, 4)), ["(2, 5, 5, 4)", "(2, 6, 5, 4)"]),
    "aten, grad_output, transposed": (
        lambda: backward(w=ones(4, 3, 3, 2), transposed=True),
        ["grad_output.shape is (2, 6, 5, 4)", "make it (2, 3, 9, 6)"],
    ),
    "aten, sizes that only an unwanted gradient would need": (
        lambda: backward(g=ones(2, 5, 5, 4), output_mask=(False, False, True)),
        ["(2, 5, 5, 4)", "(2, 6, 5, 4)"],
    ),
    "aten, bias_sizes": (lambda: backward(bias_sizes=[4]), ["bias_sizes is (4,)", "make it (6,)"]),
    "aten, bias_sizes a number": (lambda: backward(bias_sizes=6), ["bias_sizes is 6"]),
    "aten, output_padding": (
        lambda: backward(output_padding=[0, 1]),
        ["output_padding is (0, 1)", "not transposed", "make it 0"],
    ),
    "aten, pairs of padding": (
        lambda: backward(padding=((0, 0), (0, 0))),
        ["padding is (0, 0)", "whole numbers"],
    ),
    "aten, mask of two": (
        lambda: backward(output_mask=(True, True)),
        ["output_mask has 2 entries", "three booleans"],
    ),
    "aten, stride 0": (lambda: backward(stride=0), ["stride is 0"]),
    "aten, weight of a matrix": (lambda: backward(w=ones(6, 4)), ["weight has 2 dimensions"]),
}


@pytest.mark.parametrize("call, parts", ERRORS.values(), ids=ERRORS.keys())
def test_error_states_fact_sizes_and_remedy(call, parts):
    with pytest.raises(ValueError) as error:
        call()
    message = str(error.value)
    for part in parts:
        assert part in message
    assert len(message) < 300 and "\n" not in message


def test_the_arguments_of_the_error_cases_are_good_otherwise():
    assert [gradient.shape for gradient in backward()] == [X.shape, W.shape, (6,)]
    assert conv.transposed(X, ones(4, 2, 3, 2), groups=2, stride=(3, 2), output_padding=1).shape == (
        2,
        4,
        22,
        11,
    )
