"""What a wrong kernel adds up is found by running it, and described in terms of the axes; kernels are Python
here."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from backwarp.course.declare import In, InOut, Int, Kernel, Launch, Out
from backwarp.grading.probes.budget import Budget
from backwarp.grading.probes.formulas import difference, general
from backwarp.grading.probes.one_element import in_scalars
from backwarp.grading.probes.rules import Linear, nearest
from backwarp.grading.probes.summed import STOPPED, sums_of
from tests.grading.said import said

DIMS = {"batch": 2, "K": 2, "C": 3, "H": 6, "W": 4, "R": 2, "S": 3, "P": 3, "Q": 2, "step": 2}
ARRAYS = (
    In("weights", k="K", c="C", r="R", s="S"),
    In("x", b="batch", c="C", h="H", w="W"),
    In("bias", k="K"),
    Out("y", b="batch", k="K", p="P", q="Q"),
)


def convolution(
    h="step*p+r", w="q+s", c="c", tap="((k*C+c)*R+r)*S+s", guard="True", bias="bias[k]", store=""
):
    """A kernel that takes its indices from these texts."""
    texts = [compile(text or "((b*K+k)*P+p)*Q+q", "", "eval") for text in (h, w, c, tap, guard, bias, store)]

    def run(arrays, d=DIMS):
        weights, x = arrays["weights"].ravel().astype(float), arrays["x"]
        outs, sums = [tuple(d[size] for size in names) for names in (("batch", "K", "P", "Q"), "CRS")]
        places = dict(zip("bkpqcrs", np.indices(outs + sums, sparse=True), strict=True))
        names = {**d, **places, "bias": arrays["bias"], "max": np.maximum}
        *at, bias, store = [eval(text, None, names) for text in texts]
        h, w, c, tap, there = (np.broadcast_to(each, outs + sums) for each in at)
        there = (there != 0) & (h < d["H"]) & (w < d["W"]) & (tap < weights.size)
        h, w, tap = (np.where(there, each, 0) for each in (h, w, tap))
        total = np.where(there, weights[tap] * x[places["b"], c, h, w], 0).sum((4, 5, 6))
        y = np.zeros(outs)
        y.flat[np.broadcast_to(store, outs + (1, 1, 1)).ravel()] = (
            total + bias.reshape(bias.shape[:4])
        ).ravel()
        return {"y": y}

    return run


RIGHT = convolution()
KERNEL = Kernel("f", (*ARRAYS, Int("step")), lambda d, t: Launch(1, 1), lambda a, d: RIGHT(a)["y"])


def described(run, kernel=KERNEL, dims=DIMS, alone=False):
    arrays = {a.name: np.ones(a.shape(dims), np.float32) for a in kernel.arrays if a.is_input}
    return [
        str(difference(want, got) or "") for want, got in sums_of(kernel, dims, arrays, run, Budget(), alone)
    ]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"h": "p+step*r"}, "in x, h should be 2 * p + r, not p + 2 * r."),
        ({"h": "step*p"}, "in x, h should be 2 * p + r, not 2 * p."),
        ({"w": "q"}, "in x, w should be q + s, not q."),
        (
            {"tap": "((c*K+k)*R+r)*S+s"},
            "a step along k moves by 6 in weights; it should move by 18 (C * R * S); a step along c moves by 12 in weights; it "
            "should move by 6 (R * S).",
        ),
        ({"tap": "(k*C+c)*S+s"}, "the place in weights is 9 * k + 3 * c + w - q; it should be 18 * k"),
        ({"c": "k"}, "in x, k stands where c should."),
        ({"w": "q+s+1-r"}, "in x, w should be q + s, not"),
        ({"w": "q+s+2*p"}, "in x, w should be q + s, not 2 * p + q + s."),
        ({"c": "(c*c+k)%3"}, "for k=0 and c=2, it uses x at c=1 instead of c=2."),
        ({"guard": "r<R-1"}, "the sums of y lack the products with r=1 (the last)."),
        ({"guard": "s>0"}, "the sums of y lack the products with s=0 (the first)."),
        ({"guard": "(r+s+p+q+k)%3"}, "the sum for y[b=0,k=0,p=0,q=0] lacks weights"),
        (
            {"store": "((k*batch+b)*P+p)*Q+q"},
            "k stands where b should, and b stands where k should",
        ),
        ({"guard": "c*R*S+r*S+s<2+p+q"}, "the sums of y stop early, in the order of c, r and s"),
        ({"guard": "c*R*S+r*S+s<2+p+q"}, "those after them are not."),
        (
            {"guard": "(c==p) & (r==q) & (s==(p+q)%3)"},
            "each element of y gets at most one product; it should be the sum of up to 18.",
        ),
        ({"tap": "(k*R*S+c*R*S+r*S+s)%36"}, "a step along k moves by 6 in weights; it should move by 18"),
        ({}, ""),
    ],
)
def test_a_sum_of_products(wrong, says):
    """Texts of indices stand for kernels written in any way: only what is computed is looked at."""
    products, bias = described(convolution(**wrong))
    assert says in products if says else not products
    assert not bias or "store" in wrong


def test_an_element_is_multiplied_by_another_in_one_sum():
    (products, _) = described(convolution(tap="((k*C+c)*R+r)*S+s+(b+k+p+q+c+r+s==0)"))
    assert products == (
        "for y[b=0,k=0,p=0,q=0], x[b=0,c=0,h=0,w=0] is multiplied by weights[k=0,c=0,r=0,s=1]; it should be by "
        "weights[k=0,c=0,r=0,s=0]."
    )


def test_a_place_between_two_elements_is_not_one_outside():
    def scatter(arrays, whole_only=False):
        x = np.zeros(6)
        for h, r in np.ndindex(6, 3):
            p, rest = divmod(h - r, 2)
            if 0 <= p < 2 and not (whole_only and rest):
                x[h] += arrays["y"][p] * arrays["w"][r]
        return {"x": x}

    kernel = Kernel(
        "f",
        (In("y", p="P"), In("w", r="R"), Out("x", h="H")),
        lambda d, t: Launch(1, 1),
        lambda a, d: scatter(a, whole_only=True)["x"],
    )
    (says,) = described(scatter, kernel, {"P": 2, "R": 3, "H": 6})
    assert says == "it also adds to x products for which r of w is not h - 2 * p."


def test_a_sum_that_stops_early_and_is_stored_twice_over():
    kernel = Kernel(
        "f",
        (In("x", b="B", n="N"), Out("y", m="M")),
        lambda d, t: Launch(1, 1),
        lambda a, d: a["x"].sum().reshape(1),
    )

    def stops(times):
        return described(
            lambda a: {"y": times * a["x"].ravel()[:6].sum(keepdims=True)}, kernel, {"B": 3, "N": 4, "M": 1}
        )[0]

    assert "there, those after them are not." in stops(1)
    assert "added twice, those after them are not." in stops(2)


def test_what_is_looked_up_is_not_told_where_threads_race():
    """Which of them stores last is chance."""
    arrays = {a.name: np.ones(a.shape(DIMS), np.float32) for a in KERNEL.arrays if a.is_input}
    (want, got), _ = sums_of(KERNEL, DIMS, arrays, convolution(c="(c*c+k)%3"), Budget(), False)
    assert "it uses x at" in said(general(want, got)) and not general(want, got, raced=True)


def test_threads_that_leave_an_array_say_nothing_and_the_others_do():
    """Row 5 of x is beyond what this kernel may read."""
    inside, nothing = convolution(h="step*p+R-1-r"), np.nan

    def run(arrays):
        y = inside(arrays)["y"]
        y[..., 2, :] = nothing
        return {"y": y, STOPPED: np.ones(1)}

    assert described(run)[0].endswith("in x, h should be 2 * p + r, not 2 * p + 1 - r.")


def test_a_step_of_one_letter_where_the_rest_follows_no_rule():
    """Rows that begin at the edge, and a filter that is gone through the wrong way."""
    (says, _) = described(convolution(h="max(step*p-1,0)+R-1-r"))
    assert says == "a step along r changes h of x by -1; it should by 1."


def test_an_index_that_does_not_change_with_a_letter():
    (says, _) = described(convolution(c="(b*b*b+3*k*k)%2"))
    assert says == "c of x does not change with c; it should."


def test_rows_of_another_array():
    """A step that is as long as one along the rows of the output, which no other axis is."""
    dims = {"H": 4, "P": 2, "W": 7, "Q": 5, "N": 3}
    params = (In("x", n="N", h="H", w="W"), In("f", n="N"), Out("y", p="P", q="Q"))

    def summed(a, row):
        y = np.zeros((2, 5))
        for n, p, q in np.ndindex(3, 2, 5):
            y[p, q] += a["f"][n] * a["x"].flat[(n * 4 * 7) + p * row + q]
        return {"y": y}

    kernel = Kernel("f", params, lambda d, t: Launch(1, 1), lambda a, d: summed(a, 7)["y"])
    (says,) = described(lambda a: summed(a, 5), kernel, dims)
    assert says == "a step along p moves by 5 in x, as in y (Q); it should move by 7."


def test_an_index_beyond_its_axis():
    """The columns q + s of a row are not all there: those of the next row are taken."""

    def kernel(a, guarded=True):
        x, y = a["x"], np.zeros((2, 4))
        for p, w, s in np.ndindex(2, 4, 2):
            if not guarded or 0 <= w - s < 3:
                at = (s * 2 + p) * 3 + w - s
                y[p, w] += x.flat[at] if 0 <= at < x.size else 0
        return {"y": y}

    dims = {"S": 2, "P": 2, "Q": 3, "W": 4, "rows": 2, "width": 6}
    matrix = In("x", i="rows", j="width").merging(i={"s": "S"}, j={"p": "P", "q": "Q"})
    params = (matrix, Out("y", p="P", w="W"))
    sums = Kernel("f", params, lambda d, t: Launch(1, 1), lambda a, d: kernel(a)["y"])
    says = "y also gets elements with q = w - s = "
    assert described(lambda a: kernel(a, False), sums, dims)[0].startswith(says)


def test_a_step_within_a_merged_axis():
    """Which rows and columns belong together is known, and the place of both in one axis is not."""

    def kernel(a, step=3):
        x, y = a["x"], np.zeros((3, 4))
        for h, w, s, p, q in np.ndindex(3, 4, 4, 2, 3):
            if h - s // 2 == p and w - s % 2 == q:
                y[h, w] += x.flat[s * 6 + p * step + q]
        return {"y": y}

    dims = {"R": 2, "S": 2, "P": 2, "Q": 3, "W": 4, "H": 3, "rows": 4, "width": 6}
    matrix = In("x", i="rows", j="width").merging(i={"r": "R", "s": "S"}, j={"p": "P", "q": "Q"})
    params = (matrix, Out("y", h="H", w="W"))
    sums = Kernel("f", params, lambda d, t: Launch(1, 1), lambda a, d: kernel(a)["y"])
    (says,) = described(lambda a: kernel(a, 2), sums, dims)
    assert says == "a step along p moves by 2 in x; it should move by 3 (Q)."


def test_letters_that_stand_still_are_in_no_formula():
    """Only k = 1 is there: nothing shows by how much a step along k moves."""
    (says, *_) = described(convolution(tap="S*R*C+(2*c+3*r)*S+2*s", guard="k == 1"))
    assert "27 * k" not in says and "18 * k" not in says and "along k" not in says and "in weights" in says
    rule = Linear((Fraction(9), Fraction(1), Fraction(0)))
    base = np.array([[1, 0], [1, 1], [1, 2], [1, 3]])
    assert nearest(rule, base, 3 * base[:, 1] + 20).factors == (9, 3, 11)
    assert rule.where_moving(base).factors == (0, 1, 9)


def test_either_of_two_arrays_may_have_letters_exchanged():
    """`y[k] += x[k,b,p]` looks like `y[b] += x[b,k,p]`."""
    axes = (In("x", b="batch", k="K", p="P"), Out("y", k="K"))
    sums = Kernel("f", axes, lambda d, t: Launch(1, 1), lambda a, d: a["x"].sum((0, 2)))
    assert described(lambda a: {"y": a["x"].sum((1, 2))}, sums, {"batch": 3, "K": 3, "P": 2}) == [
        "it puts x[b,k,p] into y[b]: the index of y should be k, not b."
    ]


def test_what_is_added_besides():
    assert described(convolution(bias="bias[b]")) == [
        "",
        "it puts bias[b] into y[b,k,p,q]: the index of bias should be k, not b.",
    ]
    assert described(convolution(bias="bias[0]"))[1].endswith(
        ": the index of bias should be k, but is always 0."
    )
    assert described(convolution(bias="3*bias[k]"))[1].endswith(
        "bias[k=0] is added 3 times; it should be once."
    )


def gathered(hits, times=1):
    """A kernel that tries which elements belong together: hits says so, of q, w and s."""

    def run(arrays):
        y = np.zeros((2, 6))
        for b, w, q, s in np.ndindex(2, 6, 3, arrays["f"].size):
            y[b, w] += times * arrays["g"][b, q] * arrays["f"][s] if hits(q, w, s) else 0
        return {"y": y}

    return run


STAMPS = Kernel(
    "f",
    (In("g", b="batch", q="Q"), In("f", s="S"), Out("y", b="batch", w="W")),
    lambda d, t: Launch(1, 1),
    lambda a, d: gathered(lambda q, w, s: w == 2 * q + s)(a)["y"],
)


def test_products_that_do_not_belong_to_the_sum():
    dims = {"batch": 2, "Q": 3, "S": 2, "W": 6}
    assert described(gathered(lambda q, w, s: w // 2 == q), STAMPS, dims) == [
        "it also adds to y products for which s of f is not w - 2 * q."
    ]


def test_terms_that_break_every_rule_are_not_told_of_by_the_rules():
    kernel = Kernel(
        "f",
        (In("g", b="batch", c="C", h="H"), Out("y", b="batch", c="C", h="H")),
        lambda d, t: Launch(1, 1),
        lambda a, d: 2 * a["g"],
    )

    def run(arrays):
        y = 2 * arrays["g"].astype(float)
        y[0, 0, 1] += arrays["g"][1, 2, 0] + arrays["g"][2, 1, 2]
        y[2, 1, 0] += arrays["g"][0, 0, 3] + arrays["g"][1, 2, 2]
        return {"y": y}

    assert not any("is not" in text for text in described(run, kernel, {"batch": 3, "C": 3, "H": 4}))


@pytest.mark.parametrize(
    ("kept", "says"),
    [
        (
            lambda w: w == 0,
            "the sums of y with w=0 (the first) have all their products; the others have none.",
        ),
        (lambda w: w < 5, "the sums of y with w=5 (the last) lack all their products."),
    ],
)
def test_an_axis_of_the_output_alone_is_told_of_its_elements(kept, says):
    dims = {"batch": 2, "Q": 3, "S": 2, "W": 6}
    assert described(gathered(lambda q, w, s: w == 2 * q + s and kept(w)), STAMPS, dims) == [says]


def test_what_is_used_where_nothing_belongs():
    """Of w - s = 4, a third is no whole number."""
    dims = {"batch": 2, "Q": 3, "S": 3, "W": 6}
    right = replace(STAMPS, reference=lambda a, d: gathered(lambda q, w, s: w == 3 * q + s)(a)["y"])
    wrong = gathered(lambda q, w, s: (w - s) % 2 == 0 and (w - s) // 3 == q)
    (says,) = described(wrong, right, dims)
    assert says == "for w=2 and s=0, it uses g at q=0; it should use none."


def test_products_that_cannot_be_told_apart():
    """Any element with any other, three times each: then those of one array alone."""
    dims = {"batch": 2, "Q": 3, "S": 4, "W": 6}
    everything = gathered(lambda q, w, s: True, times=3)
    assert described(everything, STAMPS, dims) == []
    assert "lacks" not in described(everything, STAMPS, dims, alone=True)[0]


def test_arrays_that_are_updated_and_several_outputs():
    """As in a step of training, in which the velocity has another share of the gradient."""

    def step(share):
        def run(arrays, d=None):
            v = arrays["v"] * 0.5 + share * arrays["g"]
            return {"x": arrays["x"] - v, "v": v}

        return run

    params = InOut("x", n="N"), InOut("v", n="N"), In("g", n="N")
    kernel = Kernel("f", params, lambda d, t: Launch(1, 1), step(1.0))
    told = " ".join(described(step(0.5), kernel, {"N": 3}))
    assert "for x[n=0], g[n=0] is added -0.5 times; it should be -1 times." in told
    assert "for v[n=0], g[n=0] is divided by 2; it should not be." in told


def pooled(columns, divisor):
    return lambda arrays: {
        "y": np.stack([arrays["x"][:, i : i + columns].sum(1) / divisor for i in range(3)], 1)
    }


POOL = Kernel(
    "f",
    (In("x", n="N", w="W"), Out("y", n="N", q="Q")),
    lambda d, t: Launch(1, 1),
    lambda a, d: pooled(2, 4)(a)["y"],
)


def test_what_elements_are_divided_by():
    dims = {"N": 2, "W": 5, "Q": 3}
    assert described(pooled(2, 3), POOL, dims) == [
        "for y[n=0,q=0], x[n=0,w=0] is divided by 3; it should be by 4."
    ]
    (says,) = described(pooled(3, 4), POOL, dims)
    assert says == "the sum for y[n=0,q=0] has x[n=0,w=2], which does not belong to it."


def test_what_is_no_sum():
    """Nothing is said about a kernel that fails or computes products of products, or if the right result is
    not a sum."""
    assert described(lambda arrays: None) == []
    assert described(lambda arrays: {"y": RIGHT(arrays)["y"] ** 2 / 3}) == []
    squared = Kernel("f", KERNEL.params, KERNEL.launch, lambda a, d: RIGHT(a)["y"] ** 2)
    assert described(RIGHT, squared) == []


def test_a_product_of_numbers_of_11_bits():
    """As tensor cores round them."""

    def rounded(x):
        return (x.view(np.int32) & ~0xFFF).view(np.float32)

    def run(arrays):
        return convolution(w="q")({n: rounded(x) for n, x in arrays.items()})

    assert described(run)[0].endswith("in x, w should be q + s, not q.")


def test_what_one_launch_tells_of_a_large_array():
    dims = {**DIMS, "K": 5000}
    params = (In("bias", k="K"), Out("y", b="batch", k="K"))
    kernel = Kernel("f", params, lambda d, t: Launch(1, 1), lambda a, d: np.stack([a["bias"]] * 2))
    launches = []

    def run(arrays):
        launches.append(1)
        return {"y": np.stack([arrays["bias"][np.arange(5000) % 128]] * 2)}

    assert described(run, kernel, dims) == ["for k = 128, it uses bias's k = 0; it should be 128."]
    assert len(launches) == 2


def test_what_is_too_small_to_be_seen_is_not_missing():
    """An int drops a quarter of 1, and keeps one of 64."""
    kernel = Kernel(
        "f", (In("x", n="N"), Out("y", n="N")), lambda d, t: Launch(1, 1), lambda a, d: a["x"] / 4
    )
    assert described(lambda a: {"y": np.trunc(a["x"] / 4)}, kernel, {"N": 4}) == []
    assert described(lambda a: {"y": 0 * a["x"]}, kernel, {"N": 4}) == ["nothing of x gets into y."]


def test_a_factor_is_told_as_a_product_of_the_parameters():
    scalars = {"rate": 0.2, "momentum": 0.9, "decay": 0.1}
    told = [in_scalars(x, scalars) for x in (0.9, -0.18, 0.98, 5.0)]
    assert told == [" (momentum)", " (-rate * momentum)", " (1 - rate * decay)", ""]
    assert in_scalars(0.5, {"a": 0.5, "b": 0.5}) == ""
