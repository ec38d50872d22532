"""Puzzle 08: max pooling with the place of every maximum, one thread per window; back, one per element."""

from __future__ import annotations

import numpy as np
from backwarp.reference import pool

from backwarp.course import (
    Case,
    Gradient,
    In,
    Int,
    Kernel,
    Launch,
    Mistake,
    Out,
    Puzzle,
    ceil_div,
    mistakes_in,
)

FORWARD, BACKWARD = "max_pool2d_forward", "max_pool2d_backward"
INF, NAN = np.inf, np.nan


# ---- forward ----------------------------------------------------------------------------------------


def standing(p, q, r, s, d):
    """The place of element (r, s) of window (p, q) in its plane."""
    return (2 * p + r) * d["W"] + 2 * q + s


# ---- backward ---------------------------------------------------------------------------------------


GUARD = "if (idx >= batch * C * H_out * W_out) return;"
SPLIT = """int q = idx % W_out;
    int p = idx / W_out % H_out;"""
START = "float best = -INFINITY;"
R_LOOP = "for (int r = 0; r < 2; r++) {"
S_LOOP = "for (int s = 0; s < 2; s++) {"
PLACE = "(2 * p + r) * W + 2 * q + s"
READ = "input[plane * H * W + place]"
BETTER = "if (x > best || isnan(x)) {"
STORE, STORE_PLACE = "output[idx] = best;", "argmax[idx] = at;"

BACK_GUARD = "if (idx >= batch * C * H * W) return;"
COVERED = "if (h / 2 < H_out && w / 2 < W_out) {"
WINDOW = "(plane * H_out + h / 2) * W_out + w / 2"
NAMED = "if (argmax[window] == h * W + w) grad"
BACK_STORE = "grad_input[idx] = grad;"


MISTAKES = (
    *mistakes_in(
        FORWARD,
        # the largest
        Mistake(
            "starts at 0",
            (START, "float best = 0.0f;"),
            says="Windows of negative numbers give 0: the search must start below every number, not at 0.",
            hint=2,
        ),
        Mistake(
            "starts at -FLT_MAX",
            (START, "float best = -FLT_MAX;"),
            says="A window of nothing but -inf gives the smallest float: start at -INFINITY.",
            hint=2,
        ),
        Mistake(
            "starts at FLT_MIN, which is above 0", (START, "float best = FLT_MIN;"), expect="starts at 0"
        ),
        Mistake("starts at the first element of the array", (START, "float best = input[0];")),
        Mistake("best not set to anything", (START, "float best;"), expect=("uninitialised-read", "wrong")),
        Mistake(
            "the last of equals",
            (BETTER, "if (x >= best || isnan(x)) {"),
            says="Where elements are equal, argmax names the last of them: a later element takes over only "
            "if it is larger (>), not if it is equal (>=).",
            hint=2,
        ),
        Mistake(
            "NaN ignored",
            (BETTER, "if (x > best) {"),
            says="A NaN is passed over: every comparison with NaN is false, so test isnan(x) as well.",
            hint=2,
        ),
        Mistake("any comparison with NaN", (BETTER, "if (!(x <= best)) {")),
        Mistake("fmaxf", (BETTER, "if (fmaxf(x, best) == x && x != best) {"), expect="NaN ignored"),
        Mistake(
            "smallest",
            ((BETTER, "if (x < best || isnan(x)) {"), (START, "float best = INFINITY;")),
            says="These are the smallest elements of the windows, not the largest.",
            hint=2,
        ),
        Mistake("largest size", (BETTER, "if (fabsf(x) > best || isnan(x)) {")),
        Mistake("added up", ("best = x;", "best += x;")),
        # the place
        Mistake(
            "place in the window",
            (("at = place;", "at = 2 * r + s;"), ("int at = 2 * p * W + 2 * q;", "int at = 0;")),
            says="output is right; argmax counts 0 to 3 within the window, it must be the place h * W + w in "
            "the plane.",
            hint=3,
        ),
        Mistake(
            "place in the array",
            (STORE_PLACE, "argmax[idx] = plane * H * W + at;"),
            says="output is right; argmax counts from the start of the whole array, it must restart in each "
            "plane.",
            hint=3,
        ),
        Mistake(
            "place with rows of the output",
            (STORE_PLACE, "argmax[idx] = at / W * W_out + at % W;"),
            says="output is right; argmax is h * W_out + w, but a row of the input has W elements.",
            hint=3,
        ),
        Mistake(
            "place column first",
            (STORE_PLACE, "argmax[idx] = at % W * H + at / W;"),
            says="output is right; argmax is w * H + h, it must be h * W + w.",
            hint=3,
        ),
        Mistake(
            "place of the window",
            (STORE_PLACE, "argmax[idx] = p * W_out + q;"),
            says="output is right; argmax is the place of the window, it must be that of its largest element.",
            hint=3,
        ),
        Mistake(
            "place not kept",
            ("at = place;", ""),
            says="output is right; argmax is always the window's first element: it must change along with "
            "the maximum.",
            hint=2,
        ),
        Mistake(
            "place not set to anything before",
            ("int at = 2 * p * W + 2 * q;", "int at;"),
            expect=("uninitialised-read", "wrong"),
        ),
        Mistake("place starts at 0", ("int at = 2 * p * W + 2 * q;", "int at = 0;")),
        Mistake("place starts at -1", ("int at = 2 * p * W + 2 * q;", "int at = -1;")),
        Mistake(
            "argmax and output exchanged",
            ((STORE, "output[idx] = at;"), (STORE_PLACE, "argmax[idx] = best;")),
        ),
        Mistake("argmax not stored", (STORE_PLACE, ""), expect="unwritten"),
        Mistake("output not stored", (STORE, ""), expect="unwritten"),
        # the window
        Mistake(
            "windows overlap",
            ((PLACE, "(p + r) * W + q + s"), ("int at = 2 * p * W + 2 * q;", "int at = p * W + q;")),
            says="Windows are 1 element apart: window (p, q) starts at row 2 * p and column 2 * q.",
            hint=3,
        ),
        Mistake(
            "first row only",
            (R_LOOP, "for (int r = 0; r < 1; r++) {"),
            says="Only the first row of every window is read: r must run over 0 and 1.",
            hint=2,
        ),
        Mistake(
            "first column only",
            (S_LOOP, "for (int s = 0; s < 1; s++) {"),
            says="Only the first column of every window is read: s must run over 0 and 1.",
            hint=2,
        ),
        Mistake("three rows", (R_LOOP, "for (int r = 0; r < 3; r++) {"), expect=("wrong", "out-of-bounds")),
        Mistake("window one too far right", (PLACE, "(2 * p + r) * W + 2 * q + s + 1")),
        Mistake(
            "H for W",
            (
                (PLACE, "(2 * p + r) * H + 2 * q + s"),
                ("int at = 2 * p * W + 2 * q;", "int at = 2 * p * H + 2 * q;"),
            ),
            says="The rows of the input are taken to be H elements long; they are W long.",
            hint=3,
        ),
        Mistake(
            "2 * W_out for W",
            (
                (PLACE, "(2 * p + r) * 2 * W_out + 2 * q + s"),
                ("int at = 2 * p * W + 2 * q;", "int at = 2 * p * 2 * W_out + 2 * q;"),
            ),
            says="The rows of the input are taken to be 2 * W_out elements long; where W is odd, they are "
            "longer.",
            hint=3,
        ),
        Mistake(
            "plane missing",
            (READ, "input[place]"),
            says="Every plane gets the result of plane 0: the input is read without the start of the plane.",
            hint=3,
        ),
        Mistake(
            "planes of the output",
            (READ, "input[plane * H_out * W_out + place]"),
            says="The planes of the input are taken to be H_out * W_out apart; they are H * W apart.",
            hint=3,
        ),
        Mistake(
            "batch stride without channels",
            (READ, "input[(plane / C + plane % C) * H * W + place]"),
            says="The step from image to image in the input is one plane, not C planes.",
            hint=3,
        ),
        Mistake(
            "row before column",
            (SPLIT, "int p = idx % H_out;\n    int q = idx / H_out % W_out;"),
            says="The right results are in the wrong places, as if p changed fastest; in the output, q does.",
        ),
        Mistake(
            "odd sizes rounded up",
            (SPLIT, f"{SPLIT}\n    W_out = (W + 1) / 2;"),
            expect=("wrong", "out-of-bounds"),
        ),
        Mistake(
            "size of a block written as 128",
            ("blockDim.x + threadIdx.x;\n    // TODO(1)", "128 + threadIdx.x;\n    // TODO(1)"),
            expect="unwritten",
        ),
        Mistake("no guard", (GUARD, ""), expect="out-of-bounds"),
        Mistake("guard one too late", (GUARD, GUARD.replace(">=", ">")), expect="out-of-bounds"),
        Mistake(
            "guard one too early",
            (GUARD, "if (idx >= batch * C * H_out * W_out - 1) return;"),
            expect="unwritten",
        ),
        Mistake(
            "guard forgets the batch", (GUARD, "if (idx >= C * H_out * W_out) return;"), expect="unwritten"
        ),
        Mistake("never ends", (S_LOOP, "for (int s = 0; s < 2;) {"), expect="timeout"),
    ),
    *mistakes_in(
        BACKWARD,
        Mistake(
            "backward: size of a block written as 128",
            ("blockDim.x + threadIdx.x;\n    if", "128 + threadIdx.x;\n    if"),
            expect="unwritten",
        ),
        # the way back
        Mistake(
            "back: whole window",
            (NAMED, "grad"),
            says="All four elements of a window get its gradient; only the one that argmax names gets it.",
        ),
        Mistake(
            "back: a quarter each",
            (f"{NAMED} = grad_output[window]", "grad = grad_output[window] / 4"),
            says="Every element gets a quarter of its window's gradient: that would be right for a mean, "
            "not for a maximum.",
        ),
        Mistake(
            "back: zeros not written",
            (f"    {BACK_STORE}", f"    if (grad != 0.0f) {BACK_STORE}"),
            says="Only the elements that argmax names are written; the others must become 0.",
        ),
        Mistake(
            "back: remainder not written",
            (COVERED, "if (h / 2 >= H_out || w / 2 >= W_out) return;\n    {"),
            says="Elements that lie in no window, in the last row or column of an odd plane, must become 0.",
        ),
        Mistake("back: remainder not thought of", (COVERED, "{"), expect="out-of-bounds"),
        Mistake("back: remainder of rows only", (COVERED, "if (h / 2 < H_out) {"), expect="out-of-bounds"),
        Mistake("back: remainder of columns only", (COVERED, "if (w / 2 < W_out) {"), expect="out-of-bounds"),
        Mistake(
            "back: bounds one too large",
            (COVERED, "if (h / 2 <= H_out && w / 2 <= W_out) {"),
            expect="out-of-bounds",
        ),
        Mistake(
            "back: negated",
            (BACK_STORE, "grad_input[idx] = -grad;"),
            says="The gradient has the wrong sign: pass it on unchanged.",
        ),
        Mistake(
            "back: compared with the place in the window",
            (NAMED, "if (argmax[window] == h % 2 * 2 + w % 2) grad"),
            says="argmax is compared with a number from 0 to 3; it is a place in the plane, h * W + w.",
            hint=3,
        ),
        Mistake(
            "back: compared with idx",
            (NAMED, "if (argmax[window] == idx) grad"),
            says="argmax is compared with idx, which counts over all planes; it is a place in one plane, h * "
            "W + w.",
            hint=3,
        ),
        Mistake(
            "back: compared with rows of the output",
            (NAMED, "if (argmax[window] == h * W_out + w) grad"),
            says="argmax is compared with h * W_out + w; a row of the input has W elements.",
            hint=3,
        ),
        Mistake(
            "back: compared column first",
            (NAMED, "if (argmax[window] == w * H + h) grad"),
            says="argmax is compared with w * H + h; it is h * W + w.",
            hint=3,
        ),
        Mistake(
            "back: windows of plane 0",
            (WINDOW, "h / 2 * W_out + w / 2"),
            says="Every plane gets the gradient of plane 0's windows: the start of the plane is missing "
            "from the window's index.",
            hint=3,
        ),
        Mistake(
            "back: H_out for W_out",
            (WINDOW, "plane * H_out * W_out + h / 2 * H_out + w / 2"),
            says="The rows of the output are taken to be H_out elements long; they are W_out long.",
            hint=3,
        ),
        Mistake(
            "back: batch stride without channels",
            (WINDOW, "((plane / C + plane % C) * H_out + h / 2) * W_out + w / 2"),
            says="The step from image to image in grad_output and argmax is one plane, not C planes.",
            hint=3,
        ),
        Mistake(
            "back: sizes of the input", (WINDOW, "(plane * H + h / 2) * W + w / 2"), expect="out-of-bounds"
        ),
        Mistake("back: not halved", (WINDOW, "(plane * H_out + h) * W_out + w"), expect="out-of-bounds"),
        Mistake(
            "back: added to what was there",
            (BACK_STORE, "grad_input[idx] += grad;"),
            expect=("uninitialised-read", "unwritten", "wrong"),
        ),
        Mistake(
            "back: scattered without zeros",
            (
                (
                    f"{NAMED} = grad_output[window];",
                    "grad_input[plane * H * W + argmax[window]] = grad_output[window];",
                ),
                (BACK_STORE, ""),
            ),
            expect=("back: zeros not written", "race"),
        ),
        Mistake("back: no guard", (BACK_GUARD, ""), expect="out-of-bounds"),
        Mistake(
            "back: guard one too late", (BACK_GUARD, BACK_GUARD.replace(">=", ">")), expect="out-of-bounds"
        ),
        Mistake(
            "back: guard of the forward pass",
            (BACK_GUARD, "if (idx >= batch * C * (H / 2) * (W / 2)) return;"),
            expect="unwritten",
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
    practice=(
        "PyTorch's max_pool2d_with_indices keeps the place of every maximum as well, and its backward pass "
        "reads it."
    ),
    lines=29,
    kernels=(
        Kernel(
            FORWARD,
            params=(
                In("input", b="batch", c="C", h="H", w="W"),
                Out("output", b="batch", c="C", p="H_out", q="W_out"),
                Out("argmax", dtype="int32", b="batch", c="C", p="H_out", q="W_out"),
                Int("batch"),
                Int("C"),
                Int("H"),
                Int("W"),
            ),
            launch=lambda d, t: Launch(
                grid=ceil_div(d["batch"] * d["C"] * d["H_out"] * d["W_out"], d["threads"]), block=d["threads"]
            ),
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
                Int("batch"),
                Int("C"),
                Int("H"),
                Int("W"),
            ),
            launch=lambda d, t: Launch(
                grid=ceil_div(d["batch"] * d["C"] * d["H"] * d["W"], d["threads"]), block=d["threads"]
            ),
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
        Case(
            "pool_tiny_4x5",
            dict(batch=1, C=1, H=4, W=5),
            note="done by hand in the lesson: one column is left over",
            inputs={
                "input": [[1, 4, 2, 0, 9], [3, 2, 5, 5, 9], [-1, -2, 6, 1, 9], [-3, -4, 0, 7, 9]],
                "grad_output": [[10, 20], [30, 40]],
                "argmax": [[1, 7], [10, 18]],
            },
        ),
        Case("output_1x1", dict(batch=2, C=3, H=2, W=3), note="one window in every plane"),
        Case(
            "infinity_and_nan",
            dict(batch=1, C=1, H=8, W=6),
            kernels=(FORWARD,),
            special=True,
            note="nothing but -inf, +inf twice, NaN at every place of a window",
            inputs={
                "input": [
                    [-INF, -5, -INF, -INF, 1, INF],
                    [-INF, -INF, -INF, -INF, INF, 2],
                    [NAN, 1, 2, NAN, 3, 4],
                    [2, 3, INF, 1, NAN, INF],
                    [NAN, 1, -1, -2, NAN, NAN],
                    [NAN, 2, 3, NAN, NAN, NAN],
                    [-0.0, 0.0, 0.0, -0.0, -INF, -0.0],
                    [0.0, -0.0, -1, -2, 0.0, -INF],
                ]
            },
        ),
        Case(
            "all_equal",
            dict(batch=2, C=2, H=6, W=5),
            note="every window is one great tie",
            inputs={"input": lambda rng, a, d: np.full((d["batch"], d["C"], d["H"], d["W"]), -0.75)},
        ),
        Case("odd_and_wide", dict(batch=2, C=1, H=4, W=7), note="W > H, a column is left over"),
        Case("odd_and_tall", dict(batch=1, C=3, H=9, W=4), note="H > W, a row is left over"),
        Case(
            "pool_bw_numerical_gradient_check",
            dict(batch=2, C=2, H=5, W=6),
            note="each element moved by epsilon",
            check="gradient",
        ),
        Case(
            "ties",
            dict(batch=2, C=3, H=7, W=10),
            note="small whole numbers: many are equal",
            values="integers",
        ),
        Case("batch_odd", dict(batch=3, C=4, H=9, W=7, threads=96), note="both sizes odd"),
        Case("many_blocks", dict(batch=3, C=5, H=33, W=31), note="28 blocks forward, 120 backward"),
        Case("pool_lenet_pool1", dict(batch=8, C=6, H=24, W=24), note="LeNet's first"),
        Case("pool_lenet_pool2", dict(batch=8, C=16, H=8, W=8), note="LeNet's second"),
        Case(
            "own_sizes",
            note="sizes drawn from your file's text",
            draw=lambda pick: dict(
                batch=pick(2, 5), C=pick(2, 7), H=pick(8, 16), W=pick(8, 16), threads=pick(30, 90)
            ),
        ),
    ),
    mistakes=MISTAKES,
    hints=(
        "Forward, idx counts windows: split it like a clock into q, p and what is left over, the number of "
        "the plane; there is no need to tell image and channel apart. Backward, idx counts input elements, "
        "and every one of them is written by its own thread, including those that were not a maximum and "
        "those that no window covers: their gradient is zero.",
        "Keep two variables, the best so far and its place. Begin below every number, with -INFINITY, and "
        "at the window's first element. Walk row by row, left to right; an element takes over if it is "
        "larger, or if isnan() says so. An equal one does not. After the four elements store both variables.",
        "Element (r, s) of window (p, q) has the row 2 * p + r and the column 2 * q + s of its plane, and a "
        "row of the input has W elements. A plane of the input has H * W elements, a plane of the output "
        "H_out * W_out. Backward, element (h, w) belongs to window (h / 2, w / 2), if both are below H_out "
        "and W_out; compare what argmax says there with the element's own place h * W + w.",
    ),
)
