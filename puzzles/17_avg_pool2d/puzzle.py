"""Puzzle 17: average and maximum pooling with every option, one thread per window; back, one per element."""

from __future__ import annotations

import numpy as np
from backwarp.reference import pool

from backwarp.course import Case, Gradient, In, Int, Kernel, Launch, Out, Puzzle, ceil_div
from backwarp.course.mistakes import Mistake, mistakes_in

MEAN, MEAN_BACK = "avg_pool2d_forward", "avg_pool2d_backward"
LARGEST, LARGEST_BACK = "max_pool2d_general_forward", "max_pool2d_general_backward"
INF, NAN = np.inf, np.nan
SIDES = "h", "w"
SIZE, WINDOW, COUNT = dict(h="H", w="W"), dict(h="R", w="S"), dict(h="H_out", w="W_out")


def windows_along(side, d, ceil_mode):
    stride, pad = d[f"stride_{side}"], d[f"pad_{side}"]
    spare = d[SIZE[side]] + 2 * pad - d[f"dilation_{side}"] * (d[WINDOW[side]] - 1) - 1
    count = (spare + (stride - 1) * ceil_mode) // stride + 1
    return count - (ceil_mode and (count - 1) * stride >= d[SIZE[side]] + pad)


def completed(d):
    """The sizes of a case with what it leaves out: windows side by side, nothing special."""
    d = (
        dict(
            stride_h=d["R"],
            stride_w=d["S"],
            pad_h=0,
            pad_w=0,
            dilation_h=1,
            dilation_w=1,
            ceil_mode=0,
            count_include_pad=1,
            divisor_override=0,
            threads=128,
        )
        | d
    )
    return d | {COUNT[side]: windows_along(side, d, d["ceil_mode"]) for side in SIDES}


def own_sizes(pick):
    R, S = pick(2, 4), pick(2, 4)
    return dict(
        batch=pick(2, 4),
        C=pick(2, 5),
        H=pick(7, 12),
        W=pick(7, 12),
        R=R,
        S=S,
        stride_h=pick(1, 3),
        stride_w=pick(1, 3),
        pad_h=pick(0, R // 2),
        pad_w=pick(0, S // 2),
        ceil_mode=pick(0, 1),
        count_include_pad=pick(0, 1),
        threads=pick(20, 90),
    )


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


ENOUGH = "return (count - 1) * stride < size + pad ? count : count - 1;"
INSIDE = "if (h < 0 || h >= H || w < 0 || w >= W) continue;"
BETTER = "if (x > best || isnan(x) || at < 0) {"
READ = "float x = input[(plane * H + h) * W + w];"


MISTAKES = (
    *mistakes_in(
        MEAN,
        # how many windows
        Mistake(
            "ceil_mode ignored",
            ("if (!ceil_mode) return", "return"),
            says="ceil_mode is ignored: with it, one more window is allowed to hang over the edge.",
        ),
        Mistake(
            "a window has to start in the input",
            (ENOUGH, ENOUGH.replace("size + pad", "size")),
            says="There is a window too few: the last one is dropped only if it starts at size + pad or "
            "later, counted from the start of the padding.",
        ),
    ),
    *mistakes_in(
        LARGEST,
        # the maximum
        Mistake(
            "padding is zero",
            (
                (INSIDE, ""),
                (
                    READ,
                    "bool in = h >= 0 && h < H && w >= 0 && w < W;\n"
                    "            float x = in ? input[(plane * H + h) * W + w] : 0.0f;",
                ),
            ),
            says="The padding takes part as 0: it has no value, and is never the largest.",
            hint=2,
        ),
        Mistake(
            "NaN ignored",
            (BETTER, "if (x > best || at < 0) {"),
            says="A NaN is passed over: every comparison with NaN is false, so test isnan(x) as well.",
            hint=2,
        ),
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


COMMON = tuple(map(Int, "batch C H W R S stride_h stride_w pad_h pad_w".split()))
OF_MEAN = *COMMON, Int("ceil_mode"), Int("count_include_pad"), Int("divisor_override")
OF_MAXIMUM = *COMMON, Int("dilation_h"), Int("dilation_w"), Int("ceil_mode")

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
    bench=dict(
        batch=64,
        C=64,
        H=112,
        W=112,
        R=3,
        S=3,
        stride_h=2,
        stride_w=2,
        pad_h=1,
        pad_w=1,
        dilation_h=1,
        dilation_w=1,
        ceil_mode=0,
        count_include_pad=1,
        divisor_override=0,
    ),
    cases=(
        Case(
            "pool_tiny_4x3",
            dict(batch=1, C=1, H=4, W=3, R=3, S=2, stride_h=2, stride_w=2, pad_h=1, pad_w=1, ceil_mode=1),
            note="done by hand in the lesson",
            inputs={
                "input": [[8, 2, 3], [4, 5, 2], [6, 9, 4], [8, 3, 1]],
                "grad_output": [[6, 12], [18, 6], [4, 8]],
                "argmax": [[0, 4], [9, 7], [9, 10]],
            },
        ),
        Case("side_by_side", dict(batch=2, C=3, H=4, W=7, R=2, S=2), note="as in LeNet; a column left over"),
        Case("output_1x1", dict(batch=2, C=2, H=4, W=3, R=4, S=3), note="the window covers the image"),
        Case("windows_overlap", dict(batch=2, C=2, H=8, W=6, R=3, S=2, stride_h=2, stride_w=1)),
        Case(
            "gaps_between_windows",
            dict(batch=2, C=1, H=8, W=9, R=2, S=1, stride_h=3, stride_w=4),
            note="some elements are in no window",
        ),
        Case("padding", dict(batch=2, C=2, H=5, W=7, R=4, S=3, stride_h=1, stride_w=2, pad_h=2, pad_w=1)),
        Case("padding_of_rows_only", dict(batch=1, C=3, H=6, W=4, R=3, S=2, stride_h=2, stride_w=1, pad_h=1)),
        Case(
            "padding_not_counted",
            dict(
                batch=2,
                C=2,
                H=7,
                W=5,
                R=2,
                S=4,
                stride_h=2,
                stride_w=1,
                pad_h=1,
                pad_w=2,
                count_include_pad=0,
            ),
        ),
        Case(
            "rounded_up",
            dict(batch=2, C=2, H=8, W=6, R=3, S=3, stride_h=2, stride_w=2, ceil_mode=1),
            note="windows hang over the edge",
        ),
        Case(
            "rounded_up_padding_not_counted",
            dict(
                batch=2,
                C=1,
                H=6,
                W=9,
                R=3,
                S=4,
                stride_h=3,
                stride_w=4,
                pad_w=2,
                ceil_mode=1,
                count_include_pad=0,
            ),
        ),
        Case(
            "starts_in_the_padding",
            dict(batch=2, C=2, H=4, W=9, R=2, S=3, stride_h=3, stride_w=5, pad_h=1, pad_w=1, ceil_mode=1),
            note="a last row of windows would start past the input",
        ),
        Case(
            "divisor_override",
            dict(
                batch=2,
                C=2,
                H=5,
                W=6,
                R=3,
                S=2,
                stride_h=2,
                stride_w=1,
                pad_h=1,
                pad_w=1,
                ceil_mode=1,
                divisor_override=5,
            ),
        ),
        Case(
            "override_padding_not_counted",
            dict(
                batch=1,
                C=2,
                H=6,
                W=5,
                R=2,
                S=3,
                stride_h=1,
                stride_w=2,
                pad_h=1,
                count_include_pad=0,
                divisor_override=1,
            ),
        ),
        Case(
            "dilation",
            dict(batch=2, C=2, H=8, W=9, R=3, S=2, stride_h=1, stride_w=2, dilation_h=2, dilation_w=3),
            kernels=(LARGEST, LARGEST_BACK),
        ),
        Case(
            "dilation_padding_rounded_up",
            dict(
                batch=2,
                C=2,
                H=9,
                W=8,
                R=2,
                S=3,
                stride_h=3,
                stride_w=2,
                pad_h=1,
                pad_w=1,
                dilation_h=3,
                dilation_w=2,
                ceil_mode=1,
            ),
            kernels=(LARGEST, LARGEST_BACK),
        ),
        Case(
            "below_zero",
            dict(batch=2, C=1, H=5, W=6, R=3, S=3, stride_h=2, stride_w=2, pad_h=1, pad_w=1),
            kernels=(LARGEST,),
            note="all numbers are negative",
            inputs={"input": lambda rng, a, d: -rng.uniform(1, 2, shape(d))},
        ),
        Case(
            "infinity_and_nan",
            dict(batch=1, C=1, H=5, W=6, R=2, S=2, stride_h=2, stride_w=2, pad_h=1, pad_w=1),
            kernels=(LARGEST,),
            special=True,
            note="nothing but -inf, +inf twice, NaN among numbers",
            inputs={
                "input": [
                    [-INF, -INF, -INF, 1, 2, -INF],
                    [-INF, -INF, -INF, NAN, 3, 4],
                    [INF, INF, 4, 5, NAN, NAN],
                    [3, NAN, -INF, -INF, 0.0, -0.0],
                    [NAN, 7, -INF, -INF, -0.0, 0.0],
                ]
            },
        ),
        Case(
            "ties",
            dict(batch=2, C=2, H=7, W=6, R=2, S=4, stride_h=1, stride_w=2, pad_h=1, pad_w=2),
            note="small whole numbers: many are equal",
            values="integers",
        ),
        Case(
            "pool_bw_numerical_gradient_check",
            dict(batch=1, C=2, H=5, W=6, R=3, S=2, stride_h=2, stride_w=1, pad_h=1, pad_w=1, ceil_mode=1),
            note="each element moved by epsilon",
            check="gradient",
        ),
        Case(
            "batch_odd",
            dict(
                batch=3,
                C=4,
                H=9,
                W=7,
                R=3,
                S=4,
                stride_h=2,
                stride_w=3,
                pad_h=1,
                pad_w=2,
                ceil_mode=1,
                count_include_pad=0,
                threads=96,
            ),
        ),
        Case(
            "many_blocks",
            dict(
                batch=3, C=5, H=15, W=14, R=3, S=2, stride_h=2, stride_w=1, pad_h=1, ceil_mode=1, threads=64
            ),
            note="29 blocks forward, 50 backward",
        ),
        Case(
            "resnet_pool_in_small",
            dict(batch=1, C=2, H=16, W=16, R=3, S=3, stride_h=2, stride_w=2, pad_h=1, pad_w=1),
            note="the window of ResNet's max pooling",
        ),
        Case(
            "tall_window",
            dict(batch=1, C=2, H=259, W=2, R=257, S=1),
            stress=True,
            note="a window of 257 rows",
        ),
        Case(
            "wide_window",
            dict(batch=1, C=2, H=2, W=259, R=1, S=257),
            stress=True,
            note="a window of 257 columns",
        ),
        Case("own_sizes", note="sizes drawn from your file's text", draw=own_sizes),
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
        "Element r of window p is in row p * stride - pad + r * dilation. Forward you know p and r and "
        "test whether the row is in the input. Backward you know the row and r and solve for p: add the "
        "padding, take off r * dilation; the result must not be negative, the stride must divide it, and the "
        "quotient must be smaller than the number of windows. Test before you divide: in C, -1 / 2 is 0. All "
        "windows found that way add up.",
    ),
)
