"""Puzzle 17: average and maximum pooling with every option, one thread per window; back, one per element."""

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

MEAN, MEAN_BACK = "avg_pool2d_forward", "avg_pool2d_backward"
LARGEST, LARGEST_BACK = "max_pool2d_general_forward", "max_pool2d_general_backward"
INF, NAN = np.inf, np.nan
SIDES = "h", "w"
SIZE, WINDOW, COUNT = dict(h="H", w="W"), dict(h="R", w="S"), dict(h="H_out", w="W_out")


# ---- the right answers -------------------------------------------------------------------------------


def windows_along(side, d, ceil_mode):
    stride, pad = d[f"stride_{side}"], d[f"pad_{side}"]
    spare = d[SIZE[side]] + 2 * pad - d[f"dilation_{side}"] * (d[WINDOW[side]] - 1) - 1
    count = (spare + (stride - 1) * ceil_mode) // stride + 1
    return count - (ceil_mode and (count - 1) * stride >= d[SIZE[side]] + pad)


def completed(d):
    """The sizes of a case with what it leaves out: windows side by side, nothing special."""
    d = dict(
        stride_h=d["R"], stride_w=d["S"], pad_h=0, pad_w=0, dilation_h=1, dilation_w=1, ceil_mode=0,
        count_include_pad=1, divisor_override=0, threads=128,
    ) | d  # fmt: skip
    return d | {COUNT[side]: windows_along(side, d, d["ceil_mode"]) for side in SIDES}


def own_sizes(pick):
    R, S = pick(2, 4), pick(2, 4)
    return dict(
        batch=pick(2, 4), C=pick(2, 5), H=pick(7, 12), W=pick(7, 12), R=R, S=S,
        stride_h=pick(1, 3), stride_w=pick(1, 3), pad_h=pick(0, R // 2), pad_w=pick(0, S // 2),
        ceil_mode=pick(0, 1), count_include_pad=pick(0, 1), threads=pick(20, 90),
    )  # fmt: skip


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


# ---- wrong kernels in NumPy --------------------------------------------------------------------------


def standing(side, d, r):
    """The rows (or columns) of element r of all windows."""
    return np.arange(d[COUNT[side]]) * d[f"stride_{side}"] - d[f"pad_{side}"] + r * d[f"dilation_{side}"]


def taps(a, d, standing=standing, beyond=0.0):
    """For each element of a window: its values, `beyond` outside of the input, and where it stands."""
    for r, s in np.ndindex(d["R"], d["S"]):
        h, w = standing("h", d, r)[:, None], standing("w", d, s)
        inside = (h >= 0) & (h < d["H"]) & (w >= 0) & (w < d["W"])
        x = a["input"][..., h.clip(0, d["H"] - 1), w.clip(0, d["W"] - 1)]
        yield np.where(inside, x, beyond), h, w, inside


def counts(d, include=None, clipped=True, clipped_before=True):
    """What the sums are divided by, without divisor_override; clipped: not what hangs over the edge.
    clipped_before: nor, where padding does not count, what lies before the input."""
    include, found = d["count_include_pad"] if include is None else include, []
    for side in SIDES:
        first, size = standing(side, {**d, f"dilation_{side}": 1}, 0), d[SIZE[side]]
        end = first + d[WINDOW[side]]
        if clipped:
            end = np.minimum(end, size + d[f"pad_{side}"])
        found.append(
            end - first
            if include
            else np.minimum(end, size) - np.maximum(first, 0 if clipped_before else first)
        )
    return np.multiply.outer(*found)


def divisors(d):
    return d["divisor_override"] or counts(d)


def means(a, d, by=None, standing=standing):
    """by: what the sums are divided by, for all windows."""
    total = sum(x for x, *_ in taps(a, d, standing))
    return total / (divisors(d) if by is None else by)


def largest(a, d, better=None, beyond=NAN, place=None):
    """The forward kernel of the maximum, with a part of it replaced by what a wrong kernel has there.

    better(x, best): does x take over? beyond: the value of elements outside of the input, NaN to leave them
    out. place(h, w, d): what argmax says.
    """
    better = better or (lambda x, best: (x > best) | np.isnan(x))
    place = place or (lambda h, w, d: h * d["W"] + w)
    best = np.full((d["batch"], d["C"], d["H_out"], d["W_out"]), -INF)
    at = np.full(best.shape, -1)
    for x, h, w, inside in taps(a, d, beyond=beyond):
        takes_over = better(x, best) | (at < 0)
        if np.isnan(beyond):
            takes_over &= inside
        best = np.where(takes_over, x, best)
        at = np.where(takes_over, place(h, w, d), at)
    return {"output": best, "argmax": at}


def begins_with_0(a, d):
    """The maximum, where 0 at no place takes part as well."""
    found = largest(a, d)
    none = found["output"] <= 0
    return {"output": np.where(none, 0.0, found["output"]), "argmax": np.where(none, NAN, found["argmax"])}


def counted_from_the_array(found, d):
    """argmax with the elements of the planes before."""
    planes = np.arange(d["batch"] * d["C"]).reshape(d["batch"], d["C"], 1, 1)
    return {**found, "argmax": found["argmax"] + planes * d["H"] * d["W"]}


def holding(side, d, r):
    """The windows whose element r every row (or column) is, and whether there is such a window."""
    top = np.arange(d[SIZE[side]]) + d[f"pad_{side}"] - r * d[f"dilation_{side}"]
    window, rest = np.divmod(top, d[f"stride_{side}"])
    return window, (rest == 0) & (top >= 0) & (window < d[COUNT[side]])


def gathered(a, d, by=1, holding=holding, named=None, one=False):
    """The backward kernels in NumPy; that of the maximum where named(argmax, h, w, d) says whom it names.

    by: divides the gradients. one: the last window alone counts (=, not +=).
    """
    h, w = np.indices((d["H"], d["W"]))
    grad, sum = a["grad_output"] / by, np.zeros(shape(d))
    for r, s in np.ndindex(d["R"], d["S"]):
        (p, above), (q, beside) = holding("h", d, r), holding("w", d, s)
        at = (..., p.clip(0, d["H_out"] - 1)[:, None], q.clip(0, d["W_out"] - 1))
        takes = above[:, None] & beside
        if named:
            takes = takes & named(a["argmax"][at], h, w, d)
        sum = np.where(takes, grad[at] + (0 if one else sum), sum)
    return sum


def rounded_down(side, d, r):
    """The windows of a kernel that does not ask whether the division has a remainder; as in C."""
    top = np.arange(d[SIZE[side]]) + d[f"pad_{side}"] - r * d[f"dilation_{side}"]
    window = top // d[f"stride_{side}"]
    return window, (top >= 0) & (window < d[COUNT[side]])


def without(d, *names):
    """The sizes as a kernel sees them that leaves parameters out."""
    return d | {f"{name}_{side}": int(name != "pad") for name in names for side in SIDES}


def swapped(d, name):
    return d | {f"{name}_h": d[f"{name}_w"], f"{name}_w": d[f"{name}_h"]}


def fewer_windows(a, d, counted):
    """What a kernel writes that counts fewer windows, and so splits idx in another way; NaN for the rest."""
    less = d | {COUNT[side]: counted(side, d) for side in SIDES}
    result, right = np.full(means(a, d).size, NAN), means(a, less).ravel()
    result[: right.size] = right[: result.size]
    return result.reshape(means(a, d).shape)


def starting_in_the_input(side, d):
    """As many windows as start in the input, the one in the padding before it not counted."""
    count = d[COUNT[side]]
    return count - (d["ceil_mode"] and (count - 1) * d[f"stride_{side}"] >= d[SIZE[side]])


def named_right(argmax, h, w, d):
    return argmax == h * d["W"] + w


def wrong(kernel, id, hint, says, compute):
    return Misconception(id, kernel, says, compute, hint)


MISCONCEPTIONS = (
    # the mean
    wrong(MEAN, "not_divided", 1,
          "These are the sums of the windows: they are not divided by anything.",
          lambda a, d: means(a, d, by=1)),
    wrong(MEAN, "padding_always_counted", 2,
          "Elements in the padding always count; with count_include_pad = 0, only those in the input do.",
          lambda a, d: means(a, d, by=d["divisor_override"] or counts(d, include=True))),
    wrong(MEAN, "padding_never_counted", 2,
          "Elements in the padding are never counted; with count_include_pad they are.",
          lambda a, d: means(a, d, by=d["divisor_override"] or counts(d, include=False))),
    wrong(MEAN, "divided_by_the_window", 2,
          "Every sum is divided by R * S; what hangs over the end of the padded input does not count.",
          lambda a, d: means(a, d, by=d["divisor_override"] or counts(d, clipped=False))),
    wrong(MEAN, "override_ignored", 2,
          "divisor_override is ignored: where it is not 0, it divides every sum, and nothing else does.",
          lambda a, d: means(a, d, by=counts(d))),
    wrong(MEAN, "ceil_mode_ignored", 1,
          "ceil_mode is ignored: there is one window more where the last one may hang over the edge.",
          lambda a, d: fewer_windows(a, d, lambda side, d: windows_along(side, d, 0))),
    wrong(MEAN, "start_in_the_first_padding_forbidden", 1,
          "A window too few: the last one has to start before size + pad, counted from the start of the "
          "padding.",
          lambda a, d: fewer_windows(a, d, starting_in_the_input)),
    wrong(MEAN, "padding_added", 3,
          "The windows are moved the wrong way: window p starts at p * stride - pad, not + pad.",
          lambda a, d: means(a, d | dict(pad_h=-d["pad_h"], pad_w=-d["pad_w"]), by=divisors(d))),
    wrong(MEAN, "padding_left_out", 3,
          "The windows are not moved by the padding: window p starts at p * stride - pad.",
          lambda a, d: means(a, without(d, "pad"), by=divisors(d))),
    wrong(MEAN, "strides_swapped", 3,
          "stride_h and stride_w have changed places: rows go with stride_h, columns with stride_w.",
          lambda a, d: means(a, swapped(d, "stride"), by=divisors(d))),
    wrong(MEAN, "paddings_swapped", 3,
          "pad_h and pad_w have changed places: rows go with pad_h, columns with pad_w.",
          lambda a, d: means(a, swapped(d, "pad"), by=divisors(d))),
    wrong(MEAN, "padding_before_counted", 2,
          "With count_include_pad = 0, what lies before the input counts all the same: a window begins "
          "at row 0 at the earliest.",
          lambda a, d: means(a, d, by=d["divisor_override"] or counts(d, clipped_before=False))),
    # the way back of the mean
    wrong(MEAN_BACK, "back_not_divided", 1,
          "Every element gets the whole gradient of its windows; it is divided as the sum was.",
          lambda a, d: gathered(a, d)),
    wrong(MEAN_BACK, "back_divisor_always_r_s", 2,
          "Every gradient is divided by R * S; it is divided by what divided the sum of its own window.",
          lambda a, d: gathered(a, d, by=d["R"] * d["S"])),
    wrong(MEAN_BACK, "back_override_ignored", 2,
          "divisor_override is ignored on the way back: where it is not 0, it divides every gradient.",
          lambda a, d: gathered(a, d, by=counts(d))),
    wrong(MEAN_BACK, "back_one_window", 3,
          "Of the windows that an element is in, only one counts: windows overlap, their shares are added.",
          lambda a, d: gathered(a, d, by=divisors(d), one=True)),
    wrong(MEAN_BACK, "back_remainder_ignored", 3,
          "Windows are counted that the element is not in: the division by the stride has to leave nothing "
          "over.",
          lambda a, d: gathered(a, d, by=divisors(d), holding=rounded_down)),
    wrong(MEAN_BACK, "back_padding_left_out", 3,
          "The padding is left out on the way back: h = p * stride - pad + r has to be solved for p.",
          lambda a, d: gathered(a, without(d, "pad"), by=divisors(d))),
    # the maximum
    wrong(LARGEST, "padding_is_zero", 2,
          "The padding takes part as 0: it has no value, and is never the largest.",
          lambda a, d: largest(a, d, beyond=0.0)),
    wrong(LARGEST, "dilation_left_out", 3,
          "The elements of a window stand side by side; they are dilation apart: r * dilation_h.",
          lambda a, d: largest(a, without(d, "dilation"))),
    wrong(LARGEST, "dilations_swapped", 3,
          "dilation_h and dilation_w have changed places.",
          lambda a, d: largest(a, swapped(d, "dilation"))),
    wrong(LARGEST, "place_in_padded_plane", 3,
          "argmax counts the padding too; it is the place h * W + w in the input's plane.",
          lambda a, d: largest(a, d, place=lambda h, w, d: (
              (h + d["pad_h"]) * (d["W"] + 2 * d["pad_w"]) + w + d["pad_w"]))),
    wrong(LARGEST, "nan_ignored", 2,
          "A NaN is passed over: no number compares with it, so ask with isnan(x) as well.",
          lambda a, d: largest(a, d, better=lambda x, best: x > best)),
    wrong(LARGEST, "best_begins_with_0", 2,
          "Windows without a positive number have no maximum: the best so far must begin with -infinity, "
          "or with the first element.",
          begins_with_0),
    wrong(LARGEST, "last_of_equals", 2,
          "Of equal elements the last is taken; it is the first: ask for larger, not for larger or equal.",
          lambda a, d: largest(a, d, better=lambda x, best: (x >= best) | np.isnan(x))),
    wrong(LARGEST, "place_in_the_array", 3,
          "argmax counts the planes before as well; it is the place h * W + w in the element's own plane.",
          lambda a, d: counted_from_the_array(largest(a, d), d)),
    # the way back of the maximum
    wrong(LARGEST_BACK, "back_one_maximum", 3,
          "An element that is the maximum of several windows has the gradient of one; they are added.",
          lambda a, d: gathered(a, d, named=named_right, one=True)),
    wrong(LARGEST_BACK, "back_dilation_left_out", 3,
          "Dilation is left out on the way back: h = p * stride - pad + r * dilation has to be solved for p.",
          lambda a, d: gathered(a, without(d, "dilation"), named=named_right)),
    wrong(LARGEST_BACK, "back_window_counted_twice", 3,
          "Some windows are counted several times: the division by the stride has to leave nothing over.",
          lambda a, d: gathered(a, d, named=named_right, holding=rounded_down)),
)  # fmt: skip

FIRST = "int first = p * stride - pad;"
COUNTED = "return count_include_pad ? end - first : min(end, size) - max(first, 0);"
ENOUGH = "return (count - 1) * stride < size + pad ? count : count - 1;"
SUM = "if (h >= 0 && h < H && w >= 0 && w < W) sum += input[(plane * H + h) * W + w];"
MEAN_PLACE = """int h = p * stride_h - pad_h + r;
            int w = q * stride_w - pad_w + s;"""
DIVIDED = "sum / (divisor_override ? divisor_override : divisor);\n    //"
SHARE = "sum += grad / (divisor_override ? divisor_override : divisor);"
MEAN_TOP = """int top = h + pad_h - r;
            int left = w + pad_w - s;
            if (top < 0 || top % stride_h || left < 0 || left % stride_w) continue;"""
MAX_TOP = MEAN_TOP.replace("- r", "- r * dilation_h").replace("- s;", "- s * dilation_w;")
MAX_PLACE = """int h = p * stride_h - pad_h + r * dilation_h;
            int w = q * stride_w - pad_w + s * dilation_w;"""
INSIDE = "if (h < 0 || h >= H || w < 0 || w >= W) continue;"
BETTER = "if (x > best || isnan(x) || at < 0) {"
NAMED = "if (argmax[window] == h * W + w) sum += grad;"
READ = "float x = input[(plane * H + h) * W + w];"


def mutant(name, kernel, old, new, expect="wrong", also=()):
    return Mutant(name, kernel, old, new, expect, also)


MUTANTS = (
    # how many windows
    mutant("ceil_mode ignored", MEAN, "if (!ceil_mode) return", "return", "ceil_mode_ignored"),
    mutant("a window that starts in the padding", MEAN, ENOUGH, "return count;",
           ("out-of-bounds", "wrong", "unwritten")),
    mutant("a window has to start in the input", MEAN, ENOUGH, ENOUGH.replace("size + pad", "size"),
           "start_in_the_first_padding_forbidden"),
    # the mean
    mutant("not divided", MEAN, DIVIDED, "sum;\n    //", "not_divided"),
    mutant("padding always counted", MEAN, COUNTED, "return end - first;", "padding_always_counted"),
    mutant("padding never counted", MEAN, COUNTED, "return min(end, size) - max(first, 0);",
           "padding_never_counted"),
    mutant("what hangs over counted", MEAN, "min(first + window, size + pad)", "first + window",
           "divided_by_the_window"),
    mutant("override ignored", MEAN, DIVIDED, "sum / divisor;\n    //", "override_ignored"),
    mutant("padding added", MEAN, MEAN_PLACE, MEAN_PLACE.replace("- pad", "+ pad"), "padding_added"),
    # back
    mutant("back: not divided", MEAN_BACK, SHARE, "sum += grad;", "back_not_divided"),
    mutant("back: divided by R * S", MEAN_BACK, SHARE, "sum += grad / (R * S);", "back_divisor_always_r_s"),
    mutant("back: override ignored", MEAN_BACK, SHARE, "sum += grad / divisor;", "back_override_ignored"),
    mutant("back: one window", MEAN_BACK, SHARE, SHARE.replace("+=", "="), "back_one_window"),
    mutant("back: remainder ignored", MEAN_BACK, MEAN_TOP,
           MEAN_TOP.replace(" || top % stride_h", "").replace(" || left % stride_w", ""),
           "back_remainder_ignored"),
    mutant("back: padding left out", MEAN_BACK, MEAN_TOP,
           MEAN_TOP.replace(" + pad_h", "").replace(" + pad_w", ""), "back_padding_left_out"),
    # the maximum
    mutant("padding is zero", LARGEST, INSIDE, "", "padding_is_zero",
           also=((READ, "bool in = h >= 0 && h < H && w >= 0 && w < W;\n"
                        "            float x = in ? input[(plane * H + h) * W + w] : 0.0f;"),)),
    mutant("place starts at 0", LARGEST, "int at = -1;", "int at = 0;"),
    mutant("best begins with 0", LARGEST, "float best = -INFINITY;", "float best = 0.0f;", "best_begins_with_0",
           also=((BETTER, "if (x > best || isnan(x)) {"),)),
    mutant("place in the array", LARGEST, "at = h * W + w;", "at = (plane * H + h) * W + w;",
           "place_in_the_array"),
    mutant("last of equals", LARGEST, BETTER, BETTER.replace("x > best", "x >= best"), "last_of_equals"),
    mutant("dilation left out", LARGEST, MAX_PLACE,
           MAX_PLACE.replace(" * dilation_h", "").replace(" * dilation_w", ""), "dilation_left_out"),
    mutant("place in the padded plane", LARGEST, "at = h * W + w;",
           "at = (h + pad_h) * (W + 2 * pad_w) + w + pad_w;", "place_in_padded_plane"),
    mutant("NaN ignored", LARGEST, BETTER, "if (x > best || at < 0) {", "nan_ignored"),
    mutant("back: one maximum", LARGEST_BACK, NAMED, NAMED.replace("+=", "="), "back_one_maximum"),
    mutant("back: dilation left out", LARGEST_BACK, MAX_TOP,
           MAX_TOP.replace(" * dilation_h", "").replace(" * dilation_w", ""), "back_dilation_left_out"),
    mutant("back: window counted twice", LARGEST_BACK, MAX_TOP,
           MAX_TOP.replace(" || top % stride_h", "").replace(" || left % stride_w", ""),
           "back_window_counted_twice"),
    mutant("back: scattered to argmax", LARGEST_BACK, NAMED,
           "grad_input[plane * H * W + argmax[window]] = grad;", ("race", "wrong")),
    mutant("padding left out", MEAN, MEAN_PLACE,
           MEAN_PLACE.replace(" - pad_h", "").replace(" - pad_w", ""), "padding_left_out"),
    mutant("strides swapped", MEAN, MEAN_PLACE,
           MEAN_PLACE.replace("p * stride_h", "p * stride_w").replace("q * stride_w", "q * stride_h"),
           "strides_swapped"),
    mutant("paddings swapped", MEAN, MEAN_PLACE,
           MEAN_PLACE.replace("- pad_h", "- pad_w", 1).replace("* stride_w - pad_w", "* stride_w - pad_h"),
           "paddings_swapped"),
    mutant("dilations swapped", LARGEST, MAX_PLACE,
           MAX_PLACE.replace("r * dilation_h", "r * dilation_w").replace("s * dilation_w", "s * dilation_h"),
           "dilations_swapped"),
    mutant("padding before the input counted", MEAN, COUNTED, COUNTED.replace("max(first, 0)", "first"),
           "padding_before_counted"),
    mutant("edge not looked at", MEAN, SUM, "sum += input[(plane * H + h) * W + w];", "out-of-bounds"),
)  # fmt: skip


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
            reference=lambda a, d: pool.avg_pool(a["input"], *layer(d), *of_a_mean(d)),
        ),
        Kernel(
            MEAN_BACK,
            params=(of_windows("grad_output", In), of_input("grad_input", Out), *OF_MEAN),
            launch=launch("H", "W"),
            reference=lambda a, d: pool.avg_pool_backward(
                a["grad_output"], shape(d), *layer(d), *of_a_mean(d)
            ),
        ),
        Kernel(
            LARGEST,
            params=(
                of_input("input", In), of_windows("output", Out), of_windows("argmax", Out, dtype="int32"),
                *OF_MAXIMUM,
            ),
            launch=launch("H_out", "W_out"),
            reference=maxima,
            magnitude=sizes, rtol=0.0, atol=0.0,  # an element is copied, nothing is rounded
        ),
        Kernel(
            LARGEST_BACK,
            params=(
                of_windows("grad_output", In),
                of_windows("argmax", In, dtype="int32", values=some_places),
                of_input("grad_input", Out), *OF_MAXIMUM,
            ),
            launch=launch("H", "W"),
            reference=lambda a, d: pool.max_pool_backward(a["grad_output"], a["argmax"], shape(d)),
        ),
    ),
    dims=completed,
    gradient_of={MEAN_BACK: Gradient(loss_of_mean), LARGEST_BACK: Gradient(loss_of_maximum)},
    bench=dict(batch=64, C=64, H=112, W=112, R=3, S=3, stride_h=2, stride_w=2, pad_h=1, pad_w=1, dilation_h=1,
               dilation_w=1,
               ceil_mode=0, count_include_pad=1, divisor_override=0),
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
        Case("gaps_between_windows", dict(batch=2, C=1, H=8, W=9, R=2, S=1, stride_h=3, stride_w=4),
             note="some elements are in no window"),
        Case("padding", dict(batch=2, C=2, H=5, W=7, R=4, S=3, stride_h=1, stride_w=2, pad_h=2, pad_w=1)),
        Case("padding_of_rows_only", dict(batch=1, C=3, H=6, W=4, R=3, S=2, stride_h=2, stride_w=1, pad_h=1)),
        Case("padding_not_counted",
             dict(batch=2, C=2, H=7, W=5, R=2, S=4, stride_h=2, stride_w=1, pad_h=1, pad_w=2,
                  count_include_pad=0)),
        Case("rounded_up", dict(batch=2, C=2, H=8, W=6, R=3, S=3, stride_h=2, stride_w=2, ceil_mode=1),
             note="windows hang over the edge"),
        Case("rounded_up_padding_not_counted",
             dict(batch=2, C=1, H=6, W=9, R=3, S=4, stride_h=3, stride_w=4, pad_w=2, ceil_mode=1,
                  count_include_pad=0)),
        Case("starts_in_the_padding",
             dict(batch=2, C=2, H=4, W=9, R=2, S=3, stride_h=3, stride_w=5, pad_h=1, pad_w=1, ceil_mode=1),
             note="a last row of windows would start behind the input"),
        Case("divisor_override",
             dict(batch=2, C=2, H=5, W=6, R=3, S=2, stride_h=2, stride_w=1, pad_h=1, pad_w=1, ceil_mode=1,
                  divisor_override=5)),
        Case("override_padding_not_counted",
             dict(batch=1, C=2, H=6, W=5, R=2, S=3, stride_h=1, stride_w=2, pad_h=1, count_include_pad=0,
                  divisor_override=4)),
        Case("dilation", dict(batch=2, C=2, H=8, W=9, R=3, S=2, stride_h=1, stride_w=2, dilation_h=2,
                              dilation_w=3), kernels=(LARGEST, LARGEST_BACK)),
        Case("dilation_padding_rounded_up",
             dict(batch=2, C=2, H=9, W=8, R=2, S=3, stride_h=3, stride_w=2, pad_h=1, pad_w=1, dilation_h=3,
                  dilation_w=2, ceil_mode=1), kernels=(LARGEST, LARGEST_BACK)),
        Case("below_zero", dict(batch=2, C=1, H=5, W=6, R=3, S=3, stride_h=2, stride_w=2, pad_h=1, pad_w=1),
             kernels=(LARGEST,), note="all numbers are negative",
             inputs={"input": lambda rng, a, d: -rng.uniform(1, 2, shape(d))}),
        Case(
            "infinity_and_nan",
            dict(batch=1, C=1, H=5, W=6, R=2, S=2, stride_h=2, stride_w=2, pad_h=1, pad_w=1),
            kernels=(LARGEST,), special=True, note="nothing but -inf, +inf twice, NaN among numbers",
            inputs={"input": [
                [-INF, -INF, -INF, 1, 2, -INF],
                [-INF, -INF, -INF, NAN, 3, 4],
                [INF, INF, 4, 5, NAN, NAN],
                [3, NAN, -INF, -INF, 0.0, -0.0],
                [NAN, 7, -INF, -INF, -0.0, 0.0],
            ]},
        ),
        Case("ties", dict(batch=2, C=2, H=7, W=6, R=2, S=4, stride_h=1, stride_w=2, pad_h=1, pad_w=2),
             note="small whole numbers: many are equal", values="integers"),
        Case("pool_bw_numerical_gradient_check",
             dict(batch=1, C=2, H=5, W=6, R=3, S=2, stride_h=2, stride_w=1, pad_h=1, pad_w=1, ceil_mode=1),
             note="each element moved by epsilon", check="gradient"),
        Case("batch_odd", dict(batch=3, C=4, H=9, W=7, R=3, S=4, stride_h=2, stride_w=3, pad_h=1, pad_w=2,
                               ceil_mode=1, count_include_pad=0, threads=96)),
        Case("many_blocks", dict(batch=3, C=5, H=15, W=14, R=3, S=2, stride_h=2, stride_w=1, pad_h=1,
                                 ceil_mode=1, threads=64), note="29 blocks forward, 50 backward"),
        Case("resnet_pool_in_small", dict(batch=1, C=2, H=16, W=16, R=3, S=3, stride_h=2, stride_w=2,
                                          pad_h=1, pad_w=1), note="the window of ResNet's only max pooling"),
        Case("own_sizes", note="sizes that belong to your file", draw=own_sizes),
        Case("tall_images", dict(batch=2, C=1, H=263, W=3, R=2, S=2, stride_h=1, stride_w=1), stress=True,
             note="more rows than a byte can count"),
        Case("wide_images", dict(batch=129, C=1, H=3, W=263, R=2, S=2, stride_h=1, stride_w=1), stress=True,
             note="more windows than 16 bits can count"),
        Case("many_planes", dict(batch=259, C=257, H=1, W=1, R=1, S=1), stress=True,
             note="more planes than 16 bits can count"),
    ),
    misconceptions=MISCONCEPTIONS,
    mutants=MUTANTS,
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
)  # fmt: skip
