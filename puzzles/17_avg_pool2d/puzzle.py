"""Puzzle 17: average and maximum pooling with every option, one thread per window; back, one per element."""

from __future__ import annotations

import numpy as np
from backwarp.reference import pool

from backwarp.course import Case, Gradient, In, Kernel, Launch, Out, Puzzle, ceil_div
from backwarp.course.mistakes import Mistake, mistakes_in
from backwarp.course.sizes import Ints, by_hand, drawn, gradient_check, own_sizes, with_inputs

MEAN, MEAN_BACK = "avg_pool2d_forward", "avg_pool2d_backward"
LARGEST, LARGEST_BACK = "max_pool2d_general_forward", "max_pool2d_general_backward"
INF, NAN = np.inf, np.nan
SIDES = "h", "w"
PLAIN = dict(ceil_mode=0, count_include_pad=1, divisor_override=0)
OF_LARGEST = LARGEST, LARGEST_BACK
SIZE, WINDOW, COUNT = dict(h="H", w="W"), dict(h="R", w="S"), dict(h="H_out", w="W_out")


def windows_along(side, d, ceil_mode):
    stride, pad = d[f"stride_{side}"], d[f"pad_{side}"]
    spare = d[SIZE[side]] + 2 * pad - d[f"dilation_{side}"] * (d[WINDOW[side]] - 1) - 1
    count = (spare + (stride - 1) * ceil_mode) // stride + 1
    return count - (ceil_mode and (count - 1) * stride >= d[SIZE[side]] + pad)


def window(batch, C, H, W, R, S, **options):
    """The dims of a case; stride, pad and dilation are pairs (rows, columns)."""
    pairs = {name: options.pop(name) for name in ("stride", "pad", "dilation") if name in options}
    both = {f"{name}_{side}": n for name, pair in pairs.items() for side, n in zip(SIDES, pair)}
    return dict(batch=batch, C=C, H=H, W=W, R=R, S=S) | both | options


def completed(d):
    """The sizes of a case with what it leaves out: windows side by side, nothing special."""
    plain = window(0, 0, 0, 0, 0, 0, stride=(d["R"], d["S"]), pad=(0, 0), dilation=(1, 1), **PLAIN)
    d = plain | dict(threads=128) | d
    return d | {COUNT[side]: windows_along(side, d, d["ceil_mode"]) for side in SIDES}


def draw(pick):
    R, S = pick(2, 4), pick(2, 4)
    sides = drawn(batch=(2, 4), C=(2, 5), H=(7, 12), W=(7, 12))(pick)
    steps = drawn(stride_h=(1, 3), stride_w=(1, 3), pad_h=(0, R // 2), pad_w=(0, S // 2))(pick)
    rest = drawn(ceil_mode=(0, 1), count_include_pad=(0, 1), threads=(20, 90))(pick)
    return dict(R=R, S=S) | sides | steps | rest


def both(d, name):
    return d[f"{name}_h"], d[f"{name}_w"]


def layer(d):
    """Window, stride and padding, as the reference takes them."""
    return (d["R"], d["S"]), both(d, "stride"), both(d, "pad")


def of_a_mean(d):
    return bool(d["ceil_mode"]), bool(d["count_include_pad"]), d["divisor_override"] or None


def shape(d):
    return d["batch"], d["C"], d["H"], d["W"]


def maxima(a, d):
    found = pool.max_pool(a["input"], *layer(d), both(d, "dilation"), bool(d["ceil_mode"]))
    return dict(zip(("output", "argmax"), found))


READ = "float x = input[(plane * H + h) * W + w];"

MISTAKES = (
    *mistakes_in(
        MEAN,
        Mistake(
            "ceil_mode ignored",
            ("if (!ceil_mode) return", "return"),
            says="ceil_mode is ignored: with it, one more window is allowed to hang over the edge.",
        ),
        Mistake(
            "a window has to start in the input",
            ("size + pad ?", "size ?"),
            says="There is a window too few: the last one is dropped only if it starts at size + pad or "
            "later, counted from the start of the padding.",
        ),
    ),
    *mistakes_in(
        LARGEST,
        Mistake(
            "padding is zero",
            (
                ("if (h < 0 || h >= H || w < 0 || w >= W) continue;", ""),
                (
                    READ,
                    "bool in = h >= 0 && h < H && w >= 0 && w < W;\n"
                    "            float x = in ? input[(plane * H + h) * W + w] : 0.0f;",
                ),
            ),
            says="The padding takes part as 0: it has no value, and is never the largest.",
        ),
        Mistake(
            "last of equal elements",
            ("x > best", "x >= best"),
            says="Of several equal elements the first counts: only a larger one takes its place.",
        ),
        hint=2,
    ),
)


def some_places(rng, a, d):
    """An element of each window that is in the input, whichever: the kernel must not know better."""
    windows = pool.pooling_windows(shape(d), *layer(d), both(d, "dilation"), bool(d["ceil_mode"]))
    found = [np.broadcast_arrays(places, inside) for _, places, inside in windows.taps()]
    places, inside = (np.stack(parts)[:, None, None] for parts in zip(*found))
    draws = rng.random((len(found), *windows.output_shape)) * inside
    return np.take_along_axis(np.broadcast_to(places, draws.shape), draws.argmax(0)[None], 0)[0]


def loss_of_mean(x, a, d):
    return np.sum(a["grad_output"] * pool.avg_pool(x, *layer(d), *of_a_mean(d)))


def loss_of_maximum(x, a, d):
    """The windows' maxima are the elements that argmax names, and stay so while x moves by epsilon."""
    planes = x.reshape(*x.shape[:2], -1)
    chosen = np.take_along_axis(planes, a["argmax"].reshape(*x.shape[:2], -1), 2)
    return np.sum(a["grad_output"].ravel() * chosen.ravel())


def sizes(a, d):
    """max |x|, and for places the size of a plane."""
    output = maxima(a, d)["output"]
    return {"output": output, "argmax": np.full(output.shape, d["H"] * d["W"])}


def of_windows(name, make, **more):
    return make(name, b="batch", c="C", p="H_out", q="W_out", **more)


def of_input(name, make):
    return make(name, b="batch", c="C", h="H", w="W")


def launch(height, width):
    return lambda d, t: Launch(
        grid=ceil_div(d["batch"] * d["C"] * d[height] * d[width], d["threads"]), block=d["threads"]
    )


COMMON = Ints("batch C H W R S stride_h stride_w pad_h pad_w")
OF_MEAN = *COMMON, *Ints("ceil_mode count_include_pad divisor_override")
OF_MAXIMUM = *COMMON, *Ints("dilation_h dilation_w ceil_mode")

PUZZLE = Puzzle(
    title="Pooling with every option",
    part=2,
    teaches="What happens at the edge: what a window that hangs over it holds, counts and hands back.",
    practice="torch.nn.AvgPool2d has the same three switches, under the same names.",
    lines=82,
    kernels=(
        Kernel(
            MEAN,
            params=(of_input("input", In), of_windows("output", Out), *OF_MEAN),
            launch=launch("H_out", "W_out"),
            short=("R", "S"),
            reference=lambda a, d: pool.avg_pool(a["input"], *layer(d), *of_a_mean(d)),
        ),
        Kernel(
            MEAN_BACK,
            params=(of_windows("grad_output", In), of_input("grad_input", Out), *OF_MEAN),
            launch=launch("H", "W"),
            short=("R", "S"),
            reference=lambda a, d: pool.avg_pool_backward(
                a["grad_output"], shape(d), *layer(d), *of_a_mean(d)
            ),
        ),
        Kernel(
            LARGEST,
            params=(
                of_input("input", In),
                of_windows("output", Out),
                of_windows("argmax", Out, dtype="int32"),
                *OF_MAXIMUM,
            ),
            launch=launch("H_out", "W_out"),
            short=("R", "S"),
            reference=maxima,
            magnitude=sizes,
            rtol=0.0,
            atol=0.0,  # an element is copied, nothing is rounded
        ),
        Kernel(
            LARGEST_BACK,
            params=(
                of_windows("grad_output", In),
                of_windows("argmax", In, dtype="int32", values=some_places),
                of_input("grad_input", Out),
                *OF_MAXIMUM,
            ),
            launch=launch("H", "W"),
            short=("R", "S"),
            reference=lambda a, d: pool.max_pool_backward(a["grad_output"], a["argmax"], shape(d)),
        ),
    ),
    dims=completed,
    gradient_of={MEAN_BACK: Gradient(loss_of_mean), LARGEST_BACK: Gradient(loss_of_maximum)},
    bench=window(64, 64, 112, 112, 3, 3, stride=(2, 2), pad=(1, 1), **PLAIN),
    cases=(
        by_hand(
            "pool_tiny_4x3",
            window(1, 1, 4, 3, 3, 2, stride=(2, 2), pad=(1, 1), ceil_mode=1),
            input=[[8, 2, 3], [4, 5, 2], [6, 9, 4], [8, 3, 1]],
            grad_output=[[6, 12], [18, 6], [4, 8]],
            argmax=[[0, 4], [9, 7], [9, 10]],
        ),
        Case("side_by_side", window(2, 3, 4, 7, 2, 2), "as in LeNet; a column left over"),
        Case("output_1x1", window(2, 2, 4, 3, 4, 3), "the window covers the image"),
        Case("windows_overlap", window(2, 2, 8, 6, 3, 2, stride=(2, 1))),
        Case("gaps_between_windows", window(2, 1, 8, 9, 2, 1, stride=(3, 4)), "some are in no window"),
        Case("padding", window(2, 2, 5, 7, 4, 3, stride=(1, 2), pad=(2, 1))),
        Case("padding_of_rows_only", window(1, 3, 6, 4, 3, 2, stride=(2, 1), pad=(1, 0))),
        Case("padding_not_counted", window(2, 2, 7, 5, 2, 4, stride=(2, 1), pad=(1, 2), count_include_pad=0)),
        Case("rounded_up", window(2, 2, 8, 6, 3, 3, stride=(2, 2), ceil_mode=1), "windows over the edge"),
        Case(
            "rounded_up_padding_not_counted",
            window(2, 1, 6, 9, 3, 4, stride=(3, 4), pad=(0, 2), ceil_mode=1, count_include_pad=0),
        ),
        Case(
            "starts_in_the_padding",
            window(2, 2, 4, 9, 2, 3, stride=(3, 5), pad=(1, 1), ceil_mode=1),
            "a last row of windows would start past the input",
        ),
        Case(
            "divisor_override",
            window(2, 2, 5, 6, 3, 2, stride=(2, 1), pad=(1, 1), ceil_mode=1, divisor_override=5),
        ),
        Case(
            "override_padding_not_counted",
            window(1, 2, 6, 5, 2, 3, stride=(1, 2), pad=(1, 0), count_include_pad=0, divisor_override=1),
        ),
        Case("dilation", window(2, 2, 8, 9, 3, 2, stride=(1, 2), dilation=(2, 3)), kernels=OF_LARGEST),
        Case(
            "dilation_padding_rounded_up",
            window(2, 2, 9, 8, 2, 3, stride=(3, 2), pad=(1, 1), dilation=(3, 2), ceil_mode=1),
            kernels=OF_LARGEST,
        ),
        with_inputs(
            "below_zero",
            window(2, 1, 5, 6, 3, 3, stride=(2, 2), pad=(1, 1)),
            "all numbers are negative",
            kernels=(LARGEST,),
            input=lambda rng, a, d: -rng.uniform(1, 2, shape(d)),
        ),
        with_inputs(
            "infinity_and_nan",
            window(1, 1, 5, 6, 2, 2, stride=(2, 2), pad=(1, 1)),
            "nothing but -inf, +inf twice, NaN among numbers",
            kernels=(LARGEST,),
            special=True,
            input=[
                [-INF, -INF, -INF, 1, 2, -INF],
                [-INF, -INF, -INF, NAN, 3, 4],
                [INF, INF, 4, 5, NAN, -NAN],
                [3, -NAN, -INF, -INF, 0.0, -0.0],
                [NAN, 7, -INF, -INF, -0.0, 0.0],
            ],
        ),
        Case(
            "ties",
            window(2, 2, 7, 6, 2, 4, stride=(1, 2), pad=(1, 2)),
            "small whole numbers: many are equal",
            values="integers",
        ),
        gradient_check(
            "pool_bw_numerical_gradient_check",
            window(1, 2, 5, 6, 3, 2, stride=(2, 1), pad=(1, 1), ceil_mode=1),
        ),
        Case(
            "batch_odd",
            window(3, 4, 9, 7, 3, 4, stride=(2, 3), pad=(1, 2), ceil_mode=1, count_include_pad=0, threads=96),
        ),
        Case(
            "many_blocks",
            window(3, 5, 15, 14, 3, 2, stride=(2, 1), pad=(1, 0), ceil_mode=1, threads=64),
            "29 blocks forward, 50 backward",
        ),
        Case("resnet_pool_in_small", window(1, 2, 16, 16, 3, 3, stride=(2, 2), pad=(1, 1)), "as in ResNet"),
        Case("tall_window", window(1, 2, 259, 2, 257, 1), "a window of 257 rows", stress=True),
        Case("wide_window", window(1, 2, 2, 259, 1, 257), "a window of 257 columns", stress=True),
        own_sizes(draw),
    ),
    mistakes=MISTAKES,
    hints=(
        "Write the two helpers for one side, rows or columns; the kernels call them twice. Counting windows "
        "is counting steps: how many times can a window of that reach move by its stride inside the padded "
        "size? Rounded down that is all; rounded up, the last window is dropped if it would start past the "
        "input, and the padding in front belongs to the distance from its start. The sum of a window is "
        "divided once, at the end; on the way back each gradient is divided as its own window's sum was.",
        "What counts in a mean, along one side: a window reaches from its first row to the row after its "
        "last. First cut that end off at size + pad: what hangs over further never counts. Without "
        "count_include_pad cut both ends off at the input. Multiply the counts of both sides; a "
        "divisor_override that is not 0 replaces the product. For a maximum the padding has no value: leave "
        "such elements out, begin with -INFINITY, and let the first element in the input take over whatever "
        "it is, then only larger ones or NaN.",
        "Element r of window p is in row p * stride - pad + r * dilation. Forward you know p and r and test "
        "whether the row is in the input. Backward you know the row and r and solve for p: add the padding, "
        "take off r * dilation; the result must not be negative, the stride must divide it, and the quotient "
        "must be smaller than the number of windows. Test before you divide: in C, -1 / 2 is 0. All windows "
        "found that way add up.",
    ),
)
