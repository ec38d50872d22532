"""Puzzle 08: max pooling with the place of every maximum, one thread per window; back, one per element."""

from __future__ import annotations

import numpy as np

from harness.course import (  # fmt: skip
    Case,
    Gradient,
    In,
    Int,
    Kernel,
    Launch,
    Misconception,
    Mutant,
    Out,
    Puzzle,
    ceil_div,
)
from reference import pool

FORWARD, BACKWARD = "max_pool2d_forward", "max_pool2d_backward"
INF, NAN = np.inf, np.nan


def read(array, index):
    """What a kernel reads at flat positions; NaN outside of the array."""
    flat = array.ravel()
    inside = (index >= 0) & (index < flat.size)
    return np.where(inside, flat[np.where(inside, index, 0)], np.nan)


# ---- forward ----------------------------------------------------------------------------------------


def standing(p, q, r, s, d):
    """The place of element (r, s) of window (p, q) in its plane."""
    return (2 * p + r) * d["W"] + 2 * q + s


def pooled(a, d, start=-INF, taps=((0, 0), (0, 1), (1, 0), (1, 1)), better=None, place=standing, of=None):
    """The forward kernel in NumPy, with a part of it replaced by what a wrong kernel has there.

    start: the best before the first element. better(x, best): does x take over? place: see `standing`.
    of(plane, d): where a plane starts in the input.
    """
    better = better or (lambda x, best: (x > best) | np.isnan(x))
    shape = d["batch"], d["C"], d["H_out"], d["W_out"]
    b, c, p, q = np.indices(shape)
    plane = b * d["C"] + c
    first = of(plane, d) if of else plane * d["H"] * d["W"]
    best, at = np.full(shape, start), place(p, q, 0, 0, d)
    for r, s in taps:
        here = place(p, q, r, s, d)
        x = read(a["input"], first + here)
        takes_over = better(x, best)
        best, at = np.where(takes_over, x, best), np.where(takes_over, here, at)
    return {"output": best, "argmax": at}


def right_output(a, d, argmax):
    """The right maxima with wrong places; argmax(h, w, p, q, plane, d): of the element and its window."""
    output, places = pool.max_pool(a["input"])
    b, c, p, q = np.indices(places.shape)
    h, w = np.divmod(places, d["W"])
    return {"output": output, "argmax": argmax(h, w, p, q, b * d["C"] + c, d)}


def column_first(a, d):
    """idx is split with the row before the column: the right results at wrong places."""
    output, places = pool.max_pool(a["input"])
    return {
        "output": output.swapaxes(2, 3).reshape(output.shape),
        "argmax": places.swapaxes(2, 3).reshape(output.shape),
    }


# ---- backward ---------------------------------------------------------------------------------------


def spread(a, d, window=None, counts=None, grad=None):
    """The backward kernel in NumPy, with a part of it replaced by what a wrong kernel has there.

    window(plane, p, q, d): where the thread looks. counts(place, h, w, plane, d): does argmax name this
    element? grad: the gradient of the outputs.
    """
    window = window or (lambda plane, p, q, d: (plane * d["H_out"] + p) * d["W_out"] + q)
    counts = counts or (lambda place, h, w, plane, d: place == h * d["W"] + w)
    b, c, h, w = np.indices((d["batch"], d["C"], d["H"], d["W"]))
    plane, inside = b * d["C"] + c, covered(d)
    at = np.where(inside, window(plane, h // 2, w // 2, d), 0)
    takes = inside & counts(read(a["argmax"].astype(float), at), h, w, plane, d)
    return np.where(takes, read(a["grad_output"] if grad is None else grad, at), 0.0)


def covered(d):
    """Which input elements lie in a window."""
    h, w = np.indices((d["batch"], d["C"], d["H"], d["W"]))[2:]
    return (h < 2 * d["H_out"]) & (w < 2 * d["W_out"])


def unwritten_outside(a, d):
    return np.where(covered(d), spread(a, d), np.nan)


def unwritten_zeros(a, d):
    right = spread(a, d)
    return np.where(right == 0, np.nan, right)


def wrong(id, hint, says, compute, kernel=FORWARD):
    return Misconception(id, kernel, says, compute, hint)


def wrong_way(id, hint, says, compute):
    return wrong(id, hint, says, compute, BACKWARD)


MISCONCEPTIONS = (
    wrong("started_at_zero", 2,
          "Windows of negative numbers give 0: the best so far must start below every number, not at 0.",
          lambda a, d: pooled(a, d, start=0.0)),
    wrong("started_at_flt_max", 2,
          "A window of nothing but -inf gives the smallest float: start at -INFINITY.",
          lambda a, d: pooled(a, d, start=float(np.finfo(np.float32).min))),
    wrong("last_of_equals", 2,
          "Where elements are equal, argmax names the last of them: a later element must be larger (>) to "
          "take over, not just as large (>=).",
          lambda a, d: pooled(a, d, better=lambda x, best: (x >= best) | np.isnan(x))),
    wrong("nan_ignored", 2,
          "A NaN is passed over: no number compares with it, so ask with isnan(x) as well.",
          lambda a, d: pooled(a, d, better=lambda x, best: x > best)),
    wrong("smallest_kept", 2,
          "These are the smallest elements of the windows, not the largest.",
          lambda a, d: pooled(a, d, start=INF, better=lambda x, best: (x < best) | np.isnan(x))),
    wrong("place_in_window", 3,
          "output is right; argmax counts 0 to 3 within the window, it must be the place h * W + w in the "
          "plane.",
          lambda a, d: right_output(a, d, lambda h, w, p, q, plane, d: 2 * (h - 2 * p) + w - 2 * q)),
    wrong("place_in_array", 3,
          "output is right; argmax counts from the start of the whole array, it must start again in each "
          "plane.",
          lambda a, d: right_output(
              a, d, lambda h, w, p, q, plane, d: (plane * d["H"] + h) * d["W"] + w)),
    wrong("place_with_output_rows", 3,
          "output is right; argmax is h * W_out + w, but a row of the input has W elements.",
          lambda a, d: right_output(a, d, lambda h, w, p, q, plane, d: h * d["W_out"] + w)),
    wrong("place_column_first", 3,
          "output is right; argmax is w * H + h, it must be h * W + w.",
          lambda a, d: right_output(a, d, lambda h, w, p, q, plane, d: w * d["H"] + h)),
    wrong("place_of_the_window", 3,
          "output is right; argmax is the place of the window, it must be that of its largest element.",
          lambda a, d: right_output(a, d, lambda h, w, p, q, plane, d: p * d["W_out"] + q)),
    wrong("place_of_the_corner", 2,
          "output is right; argmax is always the window's first element: it does not change with the best.",
          lambda a, d: right_output(a, d, lambda h, w, p, q, plane, d: standing(p, q, 0, 0, d))),
    wrong("windows_overlap", 3,
          "Windows are 1 element apart: window (p, q) starts at row 2 * p and column 2 * q.",
          lambda a, d: pooled(a, d, place=lambda p, q, r, s, d: (p + r) * d["W"] + q + s)),
    wrong("first_row_only", 2,
          "Only the first row of every window is looked at: r runs over 0 and 1.",
          lambda a, d: pooled(a, d, taps=((0, 0), (0, 1)))),
    wrong("first_column_only", 2,
          "Only the first column of every window is looked at: s runs over 0 and 1.",
          lambda a, d: pooled(a, d, taps=((0, 0), (1, 0)))),
    wrong("h_used_for_w", 3,
          "The rows of the input are taken to be H elements long; they are W long.",
          lambda a, d: pooled(a, d, place=lambda p, q, r, s, d: (2 * p + r) * d["H"] + 2 * q + s)),
    wrong("two_output_rows_for_w", 3,
          "The rows of the input are taken to be 2 * W_out elements long; where W is odd, they are longer.",
          lambda a, d: pooled(a, d, place=lambda p, q, r, s, d: (2 * p + r) * 2 * d["W_out"] + 2 * q + s)),
    wrong("plane_0_only", 3,
          "Every plane gets the result of plane 0: the input is read without the start of the plane.",
          lambda a, d: pooled(a, d, of=lambda plane, d: 0 * plane)),
    wrong("plane_of_the_output", 3,
          "The planes of the input are taken to be H_out * W_out apart; they are H * W apart.",
          lambda a, d: pooled(a, d, of=lambda plane, d: plane * d["H_out"] * d["W_out"])),
    wrong("batch_stride_without_channels", 3,
          "The step from image to image in the input is one plane, not C planes.",
          lambda a, d: pooled(
              a, d, of=lambda plane, d: (plane // d["C"] + plane % d["C"]) * d["H"] * d["W"])),
    wrong("row_and_column_swapped", 1,
          "The right results are at the wrong places: idx is split with the row before the column.",
          column_first),
    # backward
    wrong_way("whole_window", 1,
              "All four elements of a window get its gradient; only the one that argmax names had a say.",
              lambda a, d: spread(a, d, counts=lambda place, h, w, plane, d: True)),
    wrong_way("shared_equally", 1,
              "Every element gets a quarter of its window's gradient: that belongs to a mean, not to a "
              "maximum.",
              lambda a, d: spread(a, d, counts=lambda place, h, w, plane, d: True) / 4),
    wrong_way("zeros_unwritten", 1,
              "Only the elements that argmax names are written; the others must become 0.",
              unwritten_zeros),
    wrong_way("remainder_unwritten", 1,
              "Elements that lie in no window, in the last row or column of an odd plane, must become 0.",
              unwritten_outside),
    wrong_way("negated", 1,
              "This is exactly minus the gradient: it is passed on as it is.",
              lambda a, d: -spread(a, d)),
    wrong_way("compared_in_window", 3,
              "argmax is compared with a number from 0 to 3; it is a place in the plane, h * W + w.",
              lambda a, d: spread(
                  a, d, counts=lambda place, h, w, plane, d: place == h % 2 * 2 + w % 2)),
    wrong_way("compared_with_idx", 3,
              "argmax is compared with idx, which counts over all planes; it is a place in one plane, h * W "
              "+ w.",
              lambda a, d: spread(
                  a, d, counts=lambda place, h, w, plane, d: place == (plane * d["H"] + h) * d["W"] + w)),
    wrong_way("compared_with_output_rows", 3,
              "argmax is compared with h * W_out + w; a row of the input has W elements.",
              lambda a, d: spread(
                  a, d, counts=lambda place, h, w, plane, d: place == h * d["W_out"] + w)),
    wrong_way("compared_column_first", 3,
              "argmax is compared with w * H + h; it is h * W + w.",
              lambda a, d: spread(a, d, counts=lambda place, h, w, plane, d: place == w * d["H"] + h)),
    wrong_way("windows_of_plane_0", 3,
              "Every plane asks the windows of plane 0: the start of the plane is missing in the window's "
              "index.",
              lambda a, d: spread(a, d, window=lambda plane, p, q, d: p * d["W_out"] + q)),
    wrong_way("h_out_used_for_w_out", 3,
              "The rows of the output are taken to be H_out elements long; they are W_out long.",
              lambda a, d: spread(
                  a, d, window=lambda plane, p, q, d: plane * d["H_out"] * d["W_out"] + p * d["H_out"] + q)),
    wrong_way("batch_stride_of_windows", 3,
              "The step from image to image in grad_output and argmax is one plane, not C planes.",
              lambda a, d: spread(a, d, window=lambda plane, p, q, d: (
                  (plane // d["C"] + plane % d["C"]) * d["H_out"] + p) * d["W_out"] + q)),
)  # fmt: skip

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


def mutant(name, old, new, expect="wrong", also=()):
    return Mutant(name, BACKWARD if name.startswith("back") else FORWARD, old, new, expect, also)


MUTANTS = (
    # the largest
    mutant("starts at 0", START, "float best = 0.0f;", "started_at_zero"),
    mutant("starts at -FLT_MAX", START, "float best = -FLT_MAX;", "started_at_flt_max"),
    mutant("starts at FLT_MIN, which is above 0", START, "float best = FLT_MIN;", "started_at_zero"),
    mutant("starts at the first element of the array", START, "float best = input[0];"),
    mutant("best not set to anything", START, "float best;", ("uninitialised-read", "wrong")),
    mutant("the last of equals", BETTER, "if (x >= best || isnan(x)) {", "last_of_equals"),
    mutant("NaN ignored", BETTER, "if (x > best) {", "nan_ignored"),
    mutant("any comparison with NaN", BETTER, "if (!(x <= best)) {"),
    mutant("fmaxf", BETTER, "if (fmaxf(x, best) == x && x != best) {", "nan_ignored"),
    mutant("smallest", BETTER, "if (x < best || isnan(x)) {", "smallest_kept",
           also=((START, "float best = INFINITY;"),)),
    mutant("largest size", BETTER, "if (fabsf(x) > best || isnan(x)) {"),
    mutant("added up", "best = x;", "best += x;"),
    # the place
    mutant("place in the window", "at = place;", "at = 2 * r + s;", "place_in_window",
           also=(("int at = 2 * p * W + 2 * q;", "int at = 0;"),)),
    mutant("place in the array", STORE_PLACE, "argmax[idx] = plane * H * W + at;", "place_in_array"),
    mutant("place with rows of the output", STORE_PLACE, "argmax[idx] = at / W * W_out + at % W;",
           "place_with_output_rows"),
    mutant("place column first", STORE_PLACE, "argmax[idx] = at % W * H + at / W;", "place_column_first"),
    mutant("place of the window", STORE_PLACE, "argmax[idx] = p * W_out + q;", "place_of_the_window"),
    mutant("place not kept", "at = place;", "", "place_of_the_corner"),
    mutant("place not set to anything before", "int at = 2 * p * W + 2 * q;", "int at;",
           ("uninitialised-read", "wrong")),
    mutant("place starts at 0", "int at = 2 * p * W + 2 * q;", "int at = 0;"),
    mutant("place starts at -1", "int at = 2 * p * W + 2 * q;", "int at = -1;"),
    mutant("argmax and output exchanged", STORE, "output[idx] = at;",
           also=((STORE_PLACE, "argmax[idx] = best;"),)),
    mutant("argmax not stored", STORE_PLACE, "", "unwritten"),
    mutant("output not stored", STORE, "", "unwritten"),
    # the window
    mutant("windows overlap", PLACE, "(p + r) * W + q + s", "windows_overlap",
           also=(("int at = 2 * p * W + 2 * q;", "int at = p * W + q;"),)),
    mutant("first row only", R_LOOP, "for (int r = 0; r < 1; r++) {", "first_row_only"),
    mutant("first column only", S_LOOP, "for (int s = 0; s < 1; s++) {", "first_column_only"),
    mutant("three rows", R_LOOP, "for (int r = 0; r < 3; r++) {", ("wrong", "out-of-bounds")),
    mutant("window one too far right", PLACE, "(2 * p + r) * W + 2 * q + s + 1"),
    mutant("H for W", PLACE, "(2 * p + r) * H + 2 * q + s", "h_used_for_w",
           also=(("int at = 2 * p * W + 2 * q;", "int at = 2 * p * H + 2 * q;"),)),
    mutant("2 * W_out for W", PLACE, "(2 * p + r) * 2 * W_out + 2 * q + s", "two_output_rows_for_w",
           also=(("int at = 2 * p * W + 2 * q;", "int at = 2 * p * 2 * W_out + 2 * q;"),)),
    mutant("plane missing", READ, "input[place]", "plane_0_only"),
    mutant("planes of the output", READ, "input[plane * H_out * W_out + place]", "plane_of_the_output"),
    mutant("batch stride without channels", READ, "input[(plane / C + plane % C) * H * W + place]",
           "batch_stride_without_channels"),
    mutant("row before column", SPLIT, "int p = idx % H_out;\n    int q = idx / H_out % W_out;",
           "row_and_column_swapped"),
    mutant("odd sizes rounded up", SPLIT, f"{SPLIT}\n    W_out = (W + 1) / 2;", ("wrong", "out-of-bounds")),
    mutant("size of a block written as 128", "blockDim.x + threadIdx.x;\n    // TODO(1)",
           "128 + threadIdx.x;\n    // TODO(1)", "unwritten"),
    mutant("backward: size of a block written as 128", "blockDim.x + threadIdx.x;\n    if",
           "128 + threadIdx.x;\n    if", "unwritten"),
    mutant("no guard", GUARD, "", "out-of-bounds"),
    mutant("guard one too late", GUARD, GUARD.replace(">=", ">"), "out-of-bounds"),
    mutant("guard one too early", GUARD, "if (idx >= batch * C * H_out * W_out - 1) return;", "unwritten"),
    mutant("guard forgets the batch", GUARD, "if (idx >= C * H_out * W_out) return;", "unwritten"),
    mutant("never ends", S_LOOP, "for (int s = 0; s < 2;) {", "timeout"),
    # the way back
    mutant("back: whole window", NAMED, "grad", "whole_window"),
    mutant("back: a quarter each", f"{NAMED} = grad_output[window]", "grad = grad_output[window] / 4",
           "shared_equally"),
    mutant("back: zeros not written", f"    {BACK_STORE}", f"    if (grad != 0.0f) {BACK_STORE}",
           "zeros_unwritten"),
    mutant("back: remainder not written", COVERED, "if (h / 2 >= H_out || w / 2 >= W_out) return;\n    {",
           "remainder_unwritten"),
    mutant("back: remainder not thought of", COVERED, "{", "out-of-bounds"),
    mutant("back: remainder of rows only", COVERED, "if (h / 2 < H_out) {", "out-of-bounds"),
    mutant("back: remainder of columns only", COVERED, "if (w / 2 < W_out) {", "out-of-bounds"),
    mutant("back: bounds one too large", COVERED, "if (h / 2 <= H_out && w / 2 <= W_out) {", "out-of-bounds"),
    mutant("back: negated", BACK_STORE, "grad_input[idx] = -grad;", "negated"),
    mutant("back: compared with the place in the window", NAMED,
           "if (argmax[window] == h % 2 * 2 + w % 2) grad", "compared_in_window"),
    mutant("back: compared with idx", NAMED, "if (argmax[window] == idx) grad", "compared_with_idx"),
    mutant("back: compared with rows of the output", NAMED, "if (argmax[window] == h * W_out + w) grad",
           "compared_with_output_rows"),
    mutant("back: compared column first", NAMED, "if (argmax[window] == w * H + h) grad",
           "compared_column_first"),
    mutant("back: windows of plane 0", WINDOW, "h / 2 * W_out + w / 2", "windows_of_plane_0"),
    mutant("back: H_out for W_out", WINDOW, "plane * H_out * W_out + h / 2 * H_out + w / 2",
           "h_out_used_for_w_out"),
    mutant("back: batch stride without channels", WINDOW,
           "((plane / C + plane % C) * H_out + h / 2) * W_out + w / 2", "batch_stride_of_windows"),
    mutant("back: sizes of the input", WINDOW, "(plane * H + h / 2) * W + w / 2", "out-of-bounds"),
    mutant("back: not halved", WINDOW, "(plane * H_out + h) * W_out + w", "out-of-bounds"),
    mutant("back: added to what was there", BACK_STORE, "grad_input[idx] += grad;",
           ("uninitialised-read", "unwritten", "wrong")),
    mutant("back: scattered without zeros", f"{NAMED} = grad_output[window];",
           "grad_input[plane * H * W + argmax[window]] = grad_output[window];",
           ("zeros_unwritten", "race"), also=((BACK_STORE, ""),)),
    mutant("back: no guard", BACK_GUARD, "", "out-of-bounds"),
    mutant("back: guard one too late", BACK_GUARD, BACK_GUARD.replace(">=", ">"), "out-of-bounds"),
    mutant("back: guard of the forward pass", BACK_GUARD, "if (idx >= batch * C * (H / 2) * (W / 2)) return;",
           "unwritten"),
)  # fmt: skip


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
                Int("batch"), Int("C"), Int("H"), Int("W"),
            ),
            launch=lambda d, t: Launch(
                grid=ceil_div(d["batch"] * d["C"] * d["H_out"] * d["W_out"], d["threads"]), block=d["threads"]
            ),
            reference=lambda a, d: dict(zip(("output", "argmax"), pool.max_pool(a["input"]))),
            magnitude=sizes, rtol=0.0, atol=0.0,  # an element is copied, nothing is rounded
        ),
        Kernel(
            BACKWARD,
            params=(
                In("grad_output", b="batch", c="C", p="H_out", q="W_out"),
                In("argmax", dtype="int32", values=some_places, b="batch", c="C", p="H_out", q="W_out"),
                Out("grad_input", b="batch", c="C", h="H", w="W"),
                Int("batch"), Int("C"), Int("H"), Int("W"),
            ),
            launch=lambda d, t: Launch(
                grid=ceil_div(d["batch"] * d["C"] * d["H"] * d["W"], d["threads"]), block=d["threads"]
            ),
            reference=lambda a, d: pool.max_pool_backward(
                a["grad_output"], a["argmax"], (d["batch"], d["C"], d["H"], d["W"])
            ),
            rtol=0.0, atol=0.0,
        ),
    ),
    dims=lambda d: {"H_out": d["H"] // 2, "W_out": d["W"] // 2, "threads": 128, **d},
    gradient_of={BACKWARD: Gradient(loss_of_input)},
    bench=dict(batch=64, C=64, H=112, W=112),
    cases=(
        Case(
            "pool_tiny_4x5", dict(batch=1, C=1, H=4, W=5),
            note="done by hand in the lesson: one column is left over",
            inputs={
                "input": [[1, 4, 2, 0, 9], [3, 2, 5, 5, 9], [-1, -2, 6, 1, 9], [-3, -4, 0, 7, 9]],
                "grad_output": [[10, 20], [30, 40]],
                "argmax": [[1, 7], [10, 18]],
            },
        ),
        Case("output_1x1", dict(batch=2, C=3, H=2, W=3), note="one window in every plane"),
        Case(
            "infinity_and_nan", dict(batch=1, C=1, H=8, W=6), kernels=(FORWARD,), special=True,
            note="nothing but -inf, +inf twice, NaN at every place of a window",
            inputs={"input": [
                [-INF, -5, -INF, -INF, 1, INF],
                [-INF, -INF, -INF, -INF, INF, 2],
                [NAN, 1, 2, NAN, 3, 4],
                [2, 3, INF, 1, NAN, INF],
                [NAN, 1, -1, -2, NAN, NAN],
                [NAN, 2, 3, NAN, NAN, NAN],
                [-0.0, 0.0, 0.0, -0.0, -INF, -0.0],
                [0.0, -0.0, -1, -2, 0.0, -INF],
            ]},
        ),
        Case("all_equal", dict(batch=2, C=2, H=6, W=5), note="every window is one great tie",
             inputs={"input": lambda rng, a, d: np.full((d["batch"], d["C"], d["H"], d["W"]), -0.75)}),
        Case("odd_and_wide", dict(batch=2, C=1, H=4, W=7), note="W > H, a column is left over"),
        Case("odd_and_tall", dict(batch=1, C=3, H=9, W=4), note="H > W, a row is left over"),
        Case("pool_bw_numerical_gradient_check", dict(batch=2, C=2, H=5, W=6),
             note="each element moved by epsilon", check="gradient"),
        Case("ties", dict(batch=2, C=3, H=7, W=10), note="small whole numbers: many are equal",
             values="integers"),
        Case("batch_odd", dict(batch=3, C=4, H=9, W=7, threads=96), note="both sizes odd"),
        Case("many_blocks", dict(batch=3, C=5, H=33, W=31), note="28 blocks forward, 120 backward"),
        Case("pool_lenet_pool1", dict(batch=8, C=6, H=24, W=24), note="LeNet's first"),
        Case("pool_lenet_pool2", dict(batch=8, C=16, H=8, W=8), note="LeNet's second"),
        Case("own_sizes", note="sizes that belong to your file",
             draw=lambda pick: dict(batch=pick(2, 5), C=pick(2, 7), H=pick(8, 16), W=pick(8, 16),
                                    threads=pick(30, 90))),
        Case("tall_image", dict(batch=2, C=1, H=519, W=3), note="more rows than a byte can count", stress=True),
        Case("wide_image", dict(batch=2, C=1, H=3, W=519), note="more columns than a byte can count", stress=True),
        Case("large_image", dict(batch=1, C=1, H=515, W=131), stress=True, kernels=(FORWARD,),
             note="more pixels than 16 bits can count"),
        Case("many_planes", dict(batch=259, C=257, H=2, W=2),
             note="more planes than 16 bits can count", stress=True),
    ),
    misconceptions=MISCONCEPTIONS,
    mutants=MUTANTS,
    hints=(
        "Forward, idx counts windows: split it like a clock into q, p and what is left over, the number of "
        "the plane; an image and a channel need not be told apart. Backward, idx counts input elements, and "
        "every one of them is written by its own thread, including those that were not a maximum and those that no "
        "window covers: their gradient is zero.",
        "Keep two variables, the best so far and where it stood. Begin below every number, with -INFINITY, "
        "and at the window's first element. Walk row by row, left to right; an element takes over if it is "
        "larger, or if isnan() says so. An equal one does not. After the four elements store both variables.",
        "Element (r, s) of window (p, q) has the row 2 * p + r and the column 2 * q + s of its plane, and a "
        "row of the input has W elements. A plane of the input has H * W elements, a plane of the output "
        "H_out * W_out. Backward, element (h, w) belongs to window (h / 2, w / 2), if both are below H_out "
        "and W_out; compare what argmax says there with the element's own place h * W + w.",
    ),
)  # fmt: skip
