"""Puzzle 08: max pooling with the place of every maximum, one thread per window; back, one per element."""

from __future__ import annotations

import numpy as np
from backwarp.reference import pool

from backwarp.course import Case, Gradient, In, Kernel, Out, Puzzle
from backwarp.course.mistakes import Mistake, mistakes_in
from backwarp.course.sizes import Ints, gradient_check, one_thread_each, own_sizes, with_inputs

FORWARD, BACKWARD = "max_pool2d_forward", "max_pool2d_backward"
INF, NAN = np.inf, np.nan


def standing(p, q, r, s, d):
    """The place of element (r, s) of window (p, q) in its plane."""
    return (2 * p + r) * d["W"] + 2 * q + s


COVERED = "if (h / 2 < H_out && w / 2 < W_out) {"

MISTAKES = (
    *mistakes_in(
        FORWARD,
        Mistake(
            "starts at -FLT_MAX",
            ("INFINITY", "FLT_MAX"),
            says="A window of nothing but -inf gives the smallest float: start at -INFINITY.",
        ),
        Mistake(
            "last of equal elements",
            ("x > best", "x >= best"),
            says="Of several equal elements the first counts: only a larger one takes its place.",
        ),
        Mistake("any comparison with NaN", ("x > best || isnan(x)", "!(x <= best)")),
        Mistake(
            "smallest",
            (("x > best", "x < best"), ("best = -", "best = ")),
            says="These are the smallest elements of the windows, not the largest.",
        ),
        hint=2,
    ),
    *mistakes_in(
        BACKWARD,
        Mistake(
            "back: remainder not written",
            (COVERED, "if (h / 2 >= H_out || w / 2 >= W_out) return;\n    {"),
            says="Elements that lie in no window, in the last row or column of an odd plane, must become 0.",
        ),
    ),
)


def some_places(rng, a, d):
    """argmax as a forward pass could have left it: in every window one of its four elements."""
    p, q = np.indices((d["batch"], d["C"], d["H_out"], d["W_out"]))[2:]
    r, s = rng.integers(0, 2, (2, *p.shape))
    return standing(p, q, r, s, d)


def loss_of_input(x, a, d):
    """A loss whose gradient at the pooled image is grad_output, at an image with its maxima at argmax."""
    b, c = np.indices(a["argmax"].shape)[:2]
    raised = x.reshape(d["batch"], d["C"], -1).copy()
    raised[b, c, a["argmax"]] += 100
    return np.sum(a["grad_output"] * pool.max_pool(raised.reshape(x.shape))[0])


def sizes(a, d):
    """max |x|, and for places the size of a plane."""
    output = pool.max_pool(a["input"])[0]
    return {"output": output, "argmax": np.full(output.shape, d["H"] * d["W"])}


PUZZLE = Puzzle(
    title="Max pooling, forward and backward",
    part=1,
    teaches="How a choice made on the way forward decides where the gradient goes on the way back.",
    practice="PyTorch's max_pool2d_with_indices keeps each maximum's place; its backward pass reads it.",
    lines=29,
    kernels=(
        Kernel(
            FORWARD,
            params=(
                In("input", b="batch", c="C", h="H", w="W"),
                Out("output", b="batch", c="C", p="H_out", q="W_out"),
                Out("argmax", dtype="int32", b="batch", c="C", p="H_out", q="W_out"),
                *Ints("batch C H W"),
            ),
            launch=one_thread_each("batch", "C", "H_out", "W_out"),
            reference=lambda a, d: dict(zip(("output", "argmax"), pool.max_pool(a["input"]))),
            magnitude=sizes,
            rtol=0.0,
            atol=0.0,  # an element is copied, nothing is rounded
        ),
        Kernel(
            BACKWARD,
            params=(
                In("grad_output", b="batch", c="C", p="H_out", q="W_out"),
                In("argmax", dtype="int32", values=some_places, b="batch", c="C", p="H_out", q="W_out"),
                Out("grad_input", b="batch", c="C", h="H", w="W"),
                *Ints("batch C H W"),
            ),
            launch=one_thread_each("batch", "C", "H", "W"),
            reference=lambda a, d: pool.max_pool_backward(
                a["grad_output"], a["argmax"], (d["batch"], d["C"], d["H"], d["W"])
            ),
            rtol=0.0,
            atol=0.0,
        ),
    ),
    dims=lambda d: {"H_out": d["H"] // 2, "W_out": d["W"] // 2, "threads": 128, **d},
    gradient_of={BACKWARD: Gradient(loss_of_input)},
    bench=dict(batch=64, C=64, H=112, W=112),
    cases=(
        with_inputs(
            "pool_tiny_4x5",
            dict(batch=1, C=1, H=4, W=5),
            "done by hand in the lesson: one column is left over",
            input=[[1, 4, 2, 0, 9], [3, 2, 5, 5, 9], [-1, -2, 6, 1, 9], [-3, -4, 0, 7, 9]],
            grad_output=[[10, 20], [30, 40]],
            argmax=[[1, 7], [10, 18]],
        ),
        Case("output_1x1", dict(batch=2, C=3, H=2, W=3), "one window in every plane"),
        with_inputs(
            "infinity_and_nan",
            dict(batch=1, C=1, H=8, W=6),
            "nothing but -inf in two windows, +inf twice, NaN at every place of a window",
            kernels=(FORWARD,),
            special=True,
            input=[
                [-INF, -5, -INF, -INF, 1, INF],
                [-INF, -INF, -INF, -INF, INF, 2],
                [NAN, 1, 2, -NAN, 3, 4],
                [2, 3, INF, 1, -NAN, INF],
                [NAN, 1, -1, -2, -INF, -INF],
                [NAN, 2, 3, NAN, -INF, -INF],
                [-0.0, 0.0, NAN, NAN, -INF, -0.0],
                [0.0, -0.0, NAN, NAN, 0.0, -INF],
            ],
        ),
        with_inputs(
            "all_equal",
            dict(batch=2, C=2, H=6, W=5),
            "every window is one great tie",
            input=lambda rng, a, d: np.full((d["batch"], d["C"], d["H"], d["W"]), -0.75),
        ),
        Case("odd_and_wide", dict(batch=2, C=1, H=4, W=7), "W > H, a column is left over"),
        Case("odd_and_tall", dict(batch=1, C=3, H=9, W=4), "H > W, a row is left over"),
        gradient_check("pool_bw_numerical_gradient_check", dict(batch=2, C=2, H=5, W=6)),
        Case("ties", dict(batch=2, C=3, H=7, W=10), "small whole numbers: many are equal", values="integers"),
        Case("batch_odd", dict(batch=3, C=4, H=9, W=7, threads=96), "both sizes odd"),
        Case("many_blocks", dict(batch=3, C=5, H=33, W=31), "28 blocks forward, 120 backward"),
        Case("pool_lenet_pool1", dict(batch=8, C=6, H=24, W=24), "LeNet's first"),
        Case("pool_lenet_pool2", dict(batch=8, C=16, H=8, W=8), "LeNet's second"),
        own_sizes(batch=(2, 5), C=(2, 7), H=(8, 16), W=(8, 16), threads=(30, 90)),
    ),
    mistakes=MISTAKES,
    hints=(
        "Forward, idx counts windows: split it like a clock into q, p and what is left over, the number of "
        "the plane; there is no need to tell image and channel apart. Backward, idx counts input elements, "
        "and every one of them is written by its own thread, including those that were not a maximum and "
        "those that no window covers: their gradient is zero.",
        "Keep two variables, the best so far and its place. Begin below every number, with -INFINITY, and at "
        "the window's first element. Walk row by row, left to right; an element takes over if it is larger, "
        "or if isnan() says so. An equal one does not. After the four elements store both variables.",
        "Element (r, s) of window (p, q) has the row 2 * p + r and the column 2 * q + s of its plane, and a "
        "row of the input has W elements. A plane of the input has H * W elements, a plane of the output "
        "H_out * W_out. Backward, element (h, w) belongs to window (h / 2, w / 2), if both are below H_out "
        "and W_out; compare what argmax says there with the element's own place h * W + w.",
    ),
)
