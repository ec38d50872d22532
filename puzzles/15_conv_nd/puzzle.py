"""Puzzle 15: convolution in one, two and three dimensions and its gradients, one thread per answer."""

from __future__ import annotations

import numpy as np

from harness.course import Case, Gradient, In, Int, Kernel, Misconception, Mutant, Out, Puzzle
from harness.course.conv_cases import one_thread_each, shape
from reference import conv

FORWARD, INPUT, WEIGHTS = "conv_nd_forward", "conv_nd_backward_input", "conv_nd_backward_weights"
SIDES = "d", "h", "w"
IMAGE, TAPS, GRID = ("D", "H", "W"), ("T", "R", "S"), ("D_out", "H_out", "W_out")


def size(
    batch, C_in, image, C_out, taps, stride=(1, 1, 1), pad=(0, 0, 0), dilation=(1, 1, 1), groups=1, **more
):
    """The dims of a case; triples are (depth, rows, columns)."""
    triples = {"stride": stride, "pad": pad, "dilation": dilation}
    each = {f"{name}_{side}": n for name, triple in triples.items() for side, n in zip(SIDES, triple)}
    sides = dict(zip(IMAGE + TAPS, image + taps))
    return dict(batch=batch, C_in=C_in, C_out=C_out, **sides, **each, groups=groups, **more)


def own_sizes(pick):
    groups = pick(2, 3)
    image, taps, stride, pad = (
        tuple(pick(*limits) for _ in range(3)) for limits in ((2, 4), (1, 2), (1, 2), (0, 1))
    )
    return size(pick(257, 262), groups * pick(1, 2), image, groups * pick(1, 2), taps, stride, pad,
                groups=groups, threads=pick(20, 90))  # fmt: skip


def sound(batch, C_in, W, C_out, S, stride=1, pad=0, dilation=1, **more):
    """The dims of a case with one dimension."""
    triples = (1, 1, stride), (0, 0, pad), (1, 1, dilation)
    return size(batch, C_in, (1, 1, W), C_out, (1, 1, S), *triples, **more)


def completed(d):
    """The sizes of a case, with those that follow from them."""
    grid = {
        count: (d[n] + 2 * pad - dilation * (d[taps] - 1) - 1) // stride + 1
        for count, n, taps, (stride, pad, dilation) in zip(GRID, IMAGE, TAPS, steps(d))
    }
    return {**grid, "C_group": d["C_in"] // d["groups"], "threads": 128, **d}


def steps(d):
    """(stride, padding, dilation) of every side."""
    return [tuple(d[f"{name}_{side}"] for name in ("stride", "pad", "dilation")) for side in SIDES]


def options(d):
    stride, padding, dilation = zip(*steps(d))
    return {"stride": stride, "padding": padding, "dilation": dilation, "groups": d["groups"]}


# ---- wrong kernels in NumPy --------------------------------------------------------------------------
# A wrong kernel has other numbers in the dims (`but(d, stride=1)`), or other rules for places and channels.


def but(d, **values):
    """The dims with one value for all sides: but(d, stride=1)."""
    return d | {f"{name}_{side}": value for name, value in values.items() for side in SIDES}


def exchanged(d, name, one, other):
    """The dims with the parameter `name` of two sides exchanged."""
    return d | {f"{name}_{one}": d[f"{name}_{other}"], f"{name}_{other}": d[f"{name}_{one}"]}


def place(p, tap, stride, pad, dilation):
    """Where in the input a tap lies when the filter stands at p."""
    return p * stride - pad + tap * dilation


def position(x, tap, stride, pad, dilation):
    """Where the filter stands when a tap lies on x; -1 where there is no such position."""
    way = x + pad - tap * dilation
    return np.where((way >= 0) & (way % stride == 0), way // stride, -1)


def rounded_down(x, tap, stride, pad, dilation):
    way = x + pad - tap * dilation
    return np.where(way >= 0, way // stride, -1)


def gathered(array, rule, sizes, d):
    """array[n, c, ...] at rule(i, tap) on each side: [n, c, i, t, j, r, k, s]; 0 outside of the array."""
    for axis, (count, taps, step) in enumerate(zip(sizes, shape(d, *TAPS), steps(d))):
        axis = 2 + 2 * axis
        at = np.broadcast_to(rule(np.arange(count)[:, None], np.arange(taps), *step), (count, taps))
        inside = (at >= 0) & (at < array.shape[axis])
        array = np.take(array, at.clip(0, array.shape[axis] - 1), axis)
        array = array * inside.reshape(inside.shape + (1,) * (array.ndim - axis - 2))
    return array


def channels_of(k, j, d):
    """The input channels that filter k is laid over; j counts those of a group."""
    return k // (d["C_out"] // d["groups"]) * len(j) + j


def filters_of(channel, j, d):
    return channel // d["C_group"] * len(j) + j


def seen_by_filters(a, d, place, channels):
    """For every filter: [n, c, o, t, p, r, q, s], the input under its taps."""
    under = gathered(a["input"], place, shape(d, *GRID), d)
    return [under[:, channels(k, np.arange(d["C_group"]), d)] for k in range(d["C_out"])]


def forward(a, d, place=place, channels=channels_of, weights=None):
    weights = a["weights"] if weights is None else weights
    under = seen_by_filters(a, d, place, channels)
    return np.stack([np.einsum("ncotprqs,ctrs->nopq", x, w) for x, w in zip(under, weights)], 1)


def weight_gradient(a, d, place=place, channels=channels_of):
    grad = np.moveaxis(a["grad_output"], 1, 0)
    under = seen_by_filters(a, d, place, channels)
    return np.stack([np.einsum("nopq,ncotprqs->ctrs", g, x) for g, x in zip(grad, under)])


def input_gradient(a, d, position=position, filters=filters_of, slices=None, weights=None):
    weights = a["weights"] if weights is None else weights
    met = gathered(a["grad_output"], position, shape(d, *IMAGE), d)
    found = []
    for channel in range(d["C_in"]):
        k = filters(channel, np.arange(d["C_out"] // d["groups"]), d)
        c = channel % d["C_group"] if slices is None else slices
        found.append(np.einsum("nkdthrws,ktrs->ndhw", met[:, k], weights[k, c]))
    return np.stack(found, 1)


def first(array, axis):
    """Zero but for the first slice along an axis: what a loop that makes one round sees."""
    return array * (np.indices(array.shape)[axis] == 0)


def wrong(kernel, id, hint, says, compute):
    return Misconception(id, kernel, says, compute, hint)


MISCONCEPTIONS = (
    # forward
    wrong(FORWARD, "depth_tap_0_only", 1,
          "Only the taps of depth 0 are used: the loop over t is missing or stops after one round.",
          lambda a, d: forward(a, d, weights=first(a["weights"], 2))),
    wrong(FORWARD, "padding_of_depth_ignored", 3,
          "The filter starts at depth 0; it starts at -pad_d.",
          lambda a, d: forward(a, d | {"pad_d": 0})),
    wrong(FORWARD, "dilation_ignored", 3,
          "The taps lie side by side; they are a dilation apart.",
          lambda a, d: forward(a, but(d, dilation=1))),
    wrong(FORWARD, "strides_of_d_and_h_exchanged", 3,
          "stride_d and stride_h have changed places: the depth goes with stride_d, rows with stride_h.",
          lambda a, d: forward(a, exchanged(d, "stride", "d", "h"))),
    wrong(FORWARD, "channels_of_group_0", 2,
          "Every filter is laid over the channels of group 0: the offset of its group is missing.",
          lambda a, d: forward(a, d, channels=lambda k, j, d: j)),
    # the gradient of the input
    wrong(INPUT, "back_filter_not_turned", 3,
          "The filter is laid over grad_output as in the forward pass; on the way back it is turned round.",
          lambda a, d: input_gradient(a, d, weights=a["weights"][:, :, ::-1, ::-1, ::-1])),
    wrong(INPUT, "back_remainder_ignored", 3,
          "Positions are used at which the filter never stood: the stride has to divide the way to them.",
          lambda a, d: input_gradient(a, d, position=rounded_down)),
    wrong(INPUT, "back_padding_ignored", 3,
          "The padding is left out: d = o * stride - pad + t * dilation has to be solved for o.",
          lambda a, d: input_gradient(a, but(d, pad=0))),
    wrong(INPUT, "back_padding_subtracted", 3,
          "The padding has the wrong sign: d = o * stride - pad + t * dilation has to be solved for o.",
          lambda a, d: input_gradient(a, d | {f"pad_{side}": -d[f"pad_{side}"] for side in SIDES})),
    wrong(INPUT, "back_dilation_ignored", 3,
          "The taps lie side by side; they are a dilation apart.",
          lambda a, d: input_gradient(a, but(d, dilation=1))),
    wrong(INPUT, "back_stride_ignored", 3,
          "The filter is taken to stand at every place; it stands at every stride-th.",
          lambda a, d: input_gradient(a, but(d, stride=1))),
    wrong(INPUT, "back_dilations_of_h_and_w_exchanged", 3,
          "dilation_h and dilation_w have changed places.",
          lambda a, d: input_gradient(a, exchanged(d, "dilation", "h", "w"))),
    wrong(INPUT, "back_filters_of_group_0", 2,
          "Every channel gets the gradient from the filters of group 0: the offset of its group is missing.",
          lambda a, d: input_gradient(a, d, filters=lambda channel, j, d: j)),
    wrong(INPUT, "back_filters_of_all_groups", 2,
          "The sum goes over the filters of all groups; a channel was seen by those of its own group.",
          lambda a, d: input_gradient(a, d, filters=lambda channel, j, d: np.arange(d["C_out"]))),
    wrong(INPUT, "back_slice_0_only", 2,
          "Every channel uses slice 0 of the filters: it is channel % (C_in / groups).",
          lambda a, d: input_gradient(a, d, slices=0)),
    # the gradient of the weights
    wrong(WEIGHTS, "weights_depth_0_only", 1,
          "Only the positions of depth 0 are added up: the loop over o is missing.",
          lambda a, d: weight_gradient(a | {"grad_output": first(a["grad_output"], 2)}, d)),
    wrong(WEIGHTS, "weights_batch_0_only", 1,
          "This is exactly the gradient of batch item 0 alone: the loop over the batch is missing.",
          lambda a, d: weight_gradient({n: x[:1] for n, x in a.items()}, d)),
    wrong(WEIGHTS, "weights_stride_ignored", 3,
          "The filter is moved by 1 from position to position; it is moved by the stride.",
          lambda a, d: weight_gradient(a, but(d, stride=1))),
    wrong(WEIGHTS, "weights_dilation_on_the_position", 3,
          "The dilation multiplies the position, and the stride the tap; it is the other way round.",
          lambda a, d: weight_gradient(
              a, d, place=lambda p, tap, stride, pad, dilation: p * dilation - pad + tap * stride)),
    wrong(WEIGHTS, "weights_paddings_of_d_and_w_exchanged", 3,
          "pad_d and pad_w have changed places.",
          lambda a, d: weight_gradient(a, exchanged(d, "pad", "d", "w"))),
    wrong(WEIGHTS, "weights_channels_of_group_0", 2,
          "Every filter is laid over the channels of group 0: the offset of its group is missing.",
          lambda a, d: weight_gradient(a, d, channels=lambda k, j, d: j)),
)  # fmt: skip

T_LOOP = "for (int t = 0; t < T; t++) {"
DEPTH = "int d = o * stride_d - pad_d + t * dilation_d;"
ROW = "int h = p * stride_h - pad_h + r * dilation_h;"
COLUMN = "int w = q * stride_w - pad_w + s * dilation_w;"
PLANE = "int plane = (b * C_in + group * channels + c) * D + d;"
WEIGHT = "weights[(((k * channels + c) * T + t) * R + r) * S + s]"
IN = "int in = d + pad_d - t * dilation_d;"
DOWN = "int down = h + pad_h - r * dilation_h;"
RIGHT = "int right = w + pad_w - s * dilation_w;"
THERE = "if (in < 0 || in % stride_d || in / stride_d >= D_out) continue;"
THERE_H = THERE.replace("in ", "down ").replace("_d", "_h").replace("D_", "H_")
THERE_W = THERE.replace("in ", "right ").replace("_d", "_w").replace("D_", "W_")
FILTERS = "for (int k = group * filters; k < (group + 1) * filters; k++) {"
TURNED = "weights[(((k * channels + c) * T + T - 1 - t) * R + R - 1 - r) * S + S - 1 - s]"


def mutant(kernel, name, old, new, expect="wrong", *also):
    return Mutant(name, kernel, old, new, expect, also)


def everywhere(kernel, name, lines, change, expect):
    """A mutant with the same change in several lines."""
    (old, new), *also = [(line, change(line)) for line in lines]
    return Mutant(name, kernel, old, new, expect, tuple(also))


def leaving_out(*texts):
    def changed(line):
        for text in texts:
            line = line.replace(text, "")
        return line

    return changed


PLACES, WAYS = (DEPTH, ROW, COLUMN), (IN, DOWN, RIGHT)
DILATIONS = " * dilation_d", " * dilation_h", " * dilation_w"

MUTANTS = (
    mutant(FORWARD, "no loop over t", T_LOOP, T_LOOP.replace("t < T", "t < 1"), "depth_tap_0_only"),
    mutant(FORWARD, "padding of the depth ignored", DEPTH, DEPTH.replace(" - pad_d", ""),
           "padding_of_depth_ignored"),
    everywhere(FORWARD, "dilation ignored", PLACES, leaving_out(*DILATIONS), "dilation_ignored"),
    mutant(FORWARD, "strides of depth and rows exchanged", DEPTH, DEPTH.replace("stride_d", "stride_h"),
           "strides_of_d_and_h_exchanged", (ROW, ROW.replace("stride_h", "stride_d"))),
    mutant(FORWARD, "no offset of the group", PLANE, PLANE.replace("group * channels + ", ""),
           "channels_of_group_0"),
    mutant(FORWARD, "elements counted in 16 bits", "int idx = ", "unsigned short idx = ", ("unwritten", "race")),
    mutant(FORWARD, "depth not looked at", "d < 0 || d >= D || ", "", "out-of-bounds"),
    mutant(FORWARD, "weights with all channels", WEIGHT, WEIGHT.replace("channels", "C_in"), "out-of-bounds"),
    mutant(FORWARD, "row before depth", """int o = idx / (W_out * H_out) % D_out;""",
           "int o = idx / (W_out * D_out) % D_out;", ("wrong", "out-of-bounds")),
    mutant(INPUT, "back: filter not turned", WEIGHT, TURNED, "back_filter_not_turned"),
    everywhere(INPUT, "back: remainder ignored", (THERE, THERE_H, THERE_W),
               leaving_out(" || in % stride_d", " || down % stride_h", " || right % stride_w"),
               "back_remainder_ignored"),
    mutant(INPUT, "back: in front of the first position", THERE, THERE.replace("in < 0 || ", ""),
           "out-of-bounds"),
    everywhere(INPUT, "back: padding ignored", WAYS, leaving_out(" + pad_d", " + pad_h", " + pad_w"),
               "back_padding_ignored"),
    everywhere(INPUT, "back: padding subtracted", WAYS, lambda line: line.replace("+ pad", "- pad"),
               "back_padding_subtracted"),
    everywhere(INPUT, "back: dilation ignored", WAYS, leaving_out(*DILATIONS), "back_dilation_ignored"),
    everywhere(
        INPUT, "back: stride ignored",
        (THERE, THERE_H, THERE_W, "int o = in / stride_d;", "int p = down / stride_h;",
         "int q = right / stride_w;"),
        leaving_out(" || in % stride_d", " || down % stride_h", " || right % stride_w", " / stride_d",
                    " / stride_h", " / stride_w"),
        "back_stride_ignored"),
    mutant(INPUT, "back: dilations of rows and columns exchanged",
           DOWN, DOWN.replace("dilation_h", "dilation_w"), "back_dilations_of_h_and_w_exchanged",
           (RIGHT, RIGHT.replace("dilation_w", "dilation_h"))),
    mutant(INPUT, "back: filters of group 0", FILTERS, "for (int k = 0; k < filters; k++) {",
           "back_filters_of_group_0"),
    mutant(INPUT, "back: filters of all groups", FILTERS, "for (int k = 0; k < C_out; k++) {",
           "back_filters_of_all_groups"),
    mutant(INPUT, "back: slice 0", "int c = channel % channels;", "int c = 0;", "back_slice_0_only"),
    mutant(INPUT, "back: D for D_out", "* D_out + o)", "* D + o)", ("wrong", "out-of-bounds")),
    mutant(WEIGHTS, "weights: no loop over o", "o < D_out; o++", "o < 1; o++", "weights_depth_0_only"),
    mutant(WEIGHTS, "weights: image 0 only", "b < batch", "b < 1", "weights_batch_0_only"),
    everywhere(WEIGHTS, "weights: stride ignored", PLACES,
               leaving_out(" * stride_d", " * stride_h", " * stride_w"), "weights_stride_ignored"),
    everywhere(WEIGHTS, "weights: dilation on the position", PLACES,
               lambda x: x.replace("dilation", "-").replace("stride", "dilation").replace("-_", "stride_"),
               "weights_dilation_on_the_position"),
    mutant(WEIGHTS, "weights: paddings of depth and columns exchanged",
           DEPTH, DEPTH.replace("pad_d", "pad_w"), "weights_paddings_of_d_and_w_exchanged",
           (COLUMN, COLUMN.replace("pad_w", "pad_d"))),
    mutant(WEIGHTS, "weights: no offset of the group", PLANE, PLANE.replace("group * channels + ", ""),
           "weights_channels_of_group_0"),
    mutant(WEIGHTS, "weights: H for W", "(plane * H + h) * W + w", "(plane * H + h) * H + w",
           ("wrong", "out-of-bounds")),
)  # fmt: skip


def loss_of_weights(w, a, d):
    """A loss whose gradient at the convolution's output is grad_output, as a function of the weights."""
    return np.sum(a["grad_output"] * conv.forward(a["input"], w, **options(d)))


def loss_of_input(x, a, d):
    return np.sum(a["grad_output"] * conv.forward(x, a["weights"], **options(d)))


NUMBERS = tuple(map(Int, (
    "batch", "C_in", *IMAGE, "C_out", *TAPS,
    *(f"{name}_{side}" for name in ("stride", "pad", "dilation") for side in SIDES), "groups",
)))  # fmt: skip


def of_input(make, name):
    return make(name, b="batch", c="C_in", d="D", h="H", w="W")


def of_weights(make, name):
    return make(name, k="C_out", c="C_group", t="T", r="R", s="S")


def of_output(make, name):
    return make(name, b="batch", k="C_out", o="D_out", p="H_out", q="W_out")


PUZZLE = Puzzle(
    title="Convolution in one, two and three dimensions",
    part=2,
    teaches="How one kernel serves sound, images and video, and the gradient as a convolution turned round.",
    practice="PyTorch runs a 1-D convolution as a 2-D one whose image has a single row.",
    lines=80,
    kernels=(
        Kernel(
            FORWARD,
            params=(of_input(In, "input"), of_weights(In, "weights"), of_output(Out, "output"), *NUMBERS),
            launch=one_thread_each("batch", "C_out", *GRID),
            reference=lambda a, d: conv.forward(a["input"], a["weights"], **options(d)),
        ),
        Kernel(
            INPUT,
            params=(
                of_output(In, "grad_output"), of_weights(In, "weights"), of_input(Out, "grad_input"),
                *NUMBERS,
            ),
            launch=one_thread_each("batch", "C_in", *IMAGE),
            reference=lambda a, d: conv.backward_input(
                a["grad_output"], a["weights"], shape(d, "batch", "C_in", *IMAGE), **options(d)
            ),
        ),
        Kernel(
            WEIGHTS,
            params=(
                of_output(In, "grad_output"), of_input(In, "input"), of_weights(Out, "grad_weights"),
                *NUMBERS,
            ),
            launch=one_thread_each("C_out", "C_group", *TAPS),
            reference=lambda a, d: conv.backward_weights(
                a["grad_output"], a["input"], shape(d, "C_out", "C_group", *TAPS), **options(d)
            ),
        ),
    ),
    dims=completed,
    gradient_of={INPUT: Gradient(loss_of_input), WEIGHTS: Gradient(loss_of_weights)},
    bench=dict(batch=8, C_in=32, C_out=64, D=16, H=56, W=56, T=3, R=3, S=3, stride_d=1, stride_h=1,
               stride_w=1, pad_d=1, pad_h=1,
               pad_w=1, dilation_d=1, dilation_h=1, dilation_w=1, groups=1),
    cases=(
        Case(
            "conv_nd_tiny_sound", sound(1, 1, 6, 1, 3, stride=2, pad=1), note="done by hand in the lesson",
            inputs={"input": [1, 2, 3, 4, 5, 6], "weights": [2, -1, 3], "grad_output": [1, 2, -1]},
        ),
        Case("sound", sound(2, 3, 11, 4, 4, stride=3, pad=2, dilation=2), note="D = H = 1"),
        Case("sound_depthwise", sound(2, 5, 9, 5, 2, dilation=4, groups=5), note="each channel by itself"),
        Case("along_the_depth", size(2, 2, (9, 1, 1), 3, (3, 1, 1), stride=(2, 1, 1), pad=(1, 0, 0)),
             note="H = W = 1: sound that lies another way"),
        Case("image", size(2, 2, (1, 7, 5), 3, (1, 3, 2), stride=(1, 2, 1), pad=(0, 1, 1)), note="D = 1"),
        Case("one_channel", size(2, 1, (3, 4, 5), 2, (2, 3, 2))),
        Case("video", size(2, 2, (4, 5, 6), 3, (2, 3, 2)), note="three dimensions, nothing else"),
        Case("video_stride", size(2, 2, (6, 5, 7), 2, (2, 2, 3), stride=(2, 1, 3)),
             note="remainders: some elements are under no tap"),
        Case("video_padding", size(1, 2, (3, 4, 2), 3, (3, 2, 3), pad=(2, 0, 1))),
        Case("video_dilation", size(1, 2, (5, 4, 7), 3, (2, 3, 2), dilation=(3, 1, 4))),
        Case("video_all_parameters",
             size(2, 2, (6, 8, 5), 3, (2, 3, 2), stride=(2, 3, 1), pad=(1, 2, 3), dilation=(3, 1, 2))),
        Case("groups", size(2, 4, (3, 3, 4), 6, (2, 1, 2), groups=2)),
        Case("groups_all_parameters",
             size(2, 6, (4, 6, 7), 3, (2, 2, 3), stride=(1, 2, 3), pad=(2, 1, 0), dilation=(2, 3, 1),
                  groups=3)),
        Case("stride_beyond_the_filter", size(2, 2, (5, 6, 4), 2, (1, 1, 1), stride=(2, 3, 2)),
             note="most elements are under no tap"),
        Case("output_1x1x1", size(3, 3, (2, 3, 4), 5, (2, 3, 4)), note="the filter covers the input"),
        Case("integers", size(2, 3, (3, 4, 5), 2, (2, 3, 2), stride=(1, 2, 1), pad=(1, 1, 0)),
             note="exact sums", values="integers"),
        Case("conv_nd_numerical_gradient_check",
             size(1, 2, (3, 3, 4), 2, (2, 1, 2), stride=(1, 2, 1), pad=(1, 0, 1), groups=2),
             note="each element moved by epsilon", check="gradient"),
        Case("batch_odd", size(3, 4, (3, 7, 5), 6, (2, 3, 1), stride=(1, 1, 2), pad=(0, 1, 1),
                               dilation=(2, 1, 1), groups=2, threads=96), note="blocks of 96 threads"),
        Case("own_sizes", note="sizes that belong to your file", draw=own_sizes),
        Case("many_groups", size(2, 257, (1, 2, 2), 514, (1, 1, 2), groups=257), stress=True,
             note="more groups than a byte can count"),
        Case("deep_images", size(2, 1, (263, 1, 2), 1, (2, 1, 1)), note="more layers than a byte can count",
             stress=True),
        Case("tall_images", size(2, 1, (1, 263, 2), 1, (1, 2, 1)), note="more rows than a byte can count",
             stress=True),
        Case("wide_images", size(129, 1, (1, 3, 263), 1, (1, 2, 3), threads=1), stress=True,
             note="more elements, and blocks, than 16 bits can count"),
        Case("many_channels", size(2, 261, (1, 1, 1), 257, (1, 1, 1), threads=96), stress=True,
             note="more weights than 16 bits can count"),
        Case("filter_257x1x1", size(1, 2, (259, 1, 1), 1, (257, 1, 1)), note="more taps than a byte can count",
             stress=True),
        Case("filter_1x257x1", size(1, 1, (1, 259, 2), 2, (1, 257, 1)), note="more taps than a byte can count",
             stress=True),
        Case("filter_1x1x257", size(1, 1, (2, 1, 515), 1, (1, 1, 257)), note="more taps than a byte can count",
             stress=True),
    ),
    misconceptions=MISCONCEPTIONS,
    mutants=MUTANTS,
    hints=(
        "Take your kernels of puzzle 14 and put a third direction in front of rows and columns wherever they "
        "have two: in the split of idx, in the loops, in the test whether there is such a place, in every "
        "index. Its letters are d, o and t, its sizes D, D_out and T. Sound and images need no special "
        "treatment: with D = 1 and T = 1 the loop over t makes one round and every test passes.",
        "The split of idx has five wheels: the last axis turns fastest. Output: q, p, o, k, and b is left. "
        "Input: w, h, d, channel, b. Weights: s, r, t, c (of C_in / groups), k. A flat position takes the "
        "first index, then for every further axis times its size plus its index. The groups are those of "
        "puzzle 14: filter k belongs to group k / (C_out / groups), and so on.",
        "One rule holds for each direction separately: input = position * stride - pad + tap * dilation. "
        "Forward and for the weights you know position and tap, and test whether the input is there. For the "
        "input's gradient you know input and tap: add pad, take off tap * dilation, and the stride must "
        "divide what is left without a remainder, not negative; the quotient must be below the number of "
        "positions of that direction.",
    ),
)  # fmt: skip
