"""Wrong outputs that are right for other inputs, and those that are some of their terms."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.course.declare import Case, In, Int, Kernel, Launch, Out, Puzzle
from backwarp.course.inputs import make_inputs
from backwarp.grading.compare import expectations
from backwarp.grading.results.naming import Observation, explain

CASES = (
    Case("small", {"M": 2, "K": 3, "N": 2}),
    Case("one step", {"M": 2, "K": 1, "N": 3}),
    Case("wide", {"M": 3, "K": 4, "N": 3}),
)


def product(a, d):
    return a["a"] @ a["b"] + a["bias"]


PARAMS = (
    In("a", m="M", k="K"),
    In("b", k="K", n="N"),
    In("bias", n="N"),
    In("spare", n="N"),
    Out("c", m="M", n="N"),
)
KERNEL = Kernel("f", (*PARAMS, Int("K")), lambda d, t: Launch(1, 1), product)


def guarded(a, d):
    """Every row begins one step later, so that the first and last terms are not those of the whole arrays."""
    return np.stack([a["a"][m, m:] @ a["b"][m:] for m in range(d["M"])]) + a["bias"]


LATER = Kernel("f", KERNEL.params, KERNEL.launch, guarded)


def said(write, kernel=KERNEL, cases=CASES):
    puzzle, seen = Puzzle("t", 1, "x", (kernel,), cases, ("a", "b"), id="01_a"), []
    for case in cases:
        dims, arrays = puzzle.full_dims(case), make_inputs(puzzle, case, kernel)
        got = write({n: x.astype(np.float64) for n, x in arrays.items()}, dims).astype(np.float32)
        targets = expectations(puzzle, case, kernel, arrays)
        poison = {"c": np.full(got.shape, np.nan, np.float32)}
        seen.append(Observation(case, dims, arrays, targets, {"c": got}, poison))
    claim = explain(puzzle, kernel, sorted(seen, key=lambda o: not o.failed), lambda mistake, o: None)
    return str(claim) if claim else ""


def steps(a, d, which):
    """The product over some steps of k."""
    at = range(d["K"])[which]
    return a["a"][:, at] @ a["b"][at] + a["bias"]


@pytest.mark.parametrize(
    ("write", "says"),
    [
        (lambda a, d: a["a"] @ a["b"], "every element of bias is 0: bias plays no part in it."),
        (
            lambda a, d: a["a"] @ np.ones_like(a["b"]) + a["bias"],
            "every element of b is 1: b is not multiplied in.",
        ),
        (
            lambda a, d: a["a"] @ a["b"] + a["spare"],
            "c is what comes out if spare is read in the place of bias.",
        ),
        (lambda a, d: steps(a, d, slice(-1, None)), "c is what comes from the last k of a alone: nothing is"),
        (lambda a, d: steps(a, d, slice(1)), "c is what comes from the first k of a alone"),
        (
            lambda a, d: steps(a, d, slice(-1)),
            "The last k of a is left out of c: does a loop end one too early?",
        ),
        (
            lambda a, d: steps(a, d, slice(1, None)),
            "The first k of a is left out of c: does a loop begin one too late?",
        ),
        (
            lambda a, d: d["K"] * a["a"][:, :1] @ a["b"][:1] + a["bias"],
            "every k of a and b is the first one.",
        ),
        (
            lambda a, d: a["a"][:, :1] * a["b"].sum(0) + a["bias"],
            "every k of a is the first one: k has no effect on its",
        ),
        (lambda a, d: a["a"] @ a["b"] + 32 * a["bias"], "bias is added 32 times instead of once:"),
        (
            lambda a, d: a["a"] @ a["b"] + (d["M"] + 1) * a["bias"],
            "bias is added several times instead of once:",
        ),
        (
            lambda a, d: 0 * product(a, d) + a["bias"],
            "a and b play no part in c: nothing of them gets there.",
        ),
        (lambda a, d: a["a"][:, ::-1] @ a["b"] + a["bias"], "if a or b is reversed along k."),
        (lambda a, d: np.maximum(a["a"], 0) @ a["b"] + a["bias"], "if every negative element of a is 0."),
        (
            lambda a, d: np.maximum(a["a"] @ a["b"], a["bias"]),
            "Every element of c is the larger of two numbers: what bias adds to it, and the rest. It should be their sum.",
        ),
        (
            lambda a, d: a["a"] @ a["b"].ravel().reshape(d["N"], d["K"]).T + a["bias"],
            "as if it were laid out [n,k]; it is [k,n].",
        ),
    ],
)
def test_other_inputs_are_named(write, says):
    assert says in said(write)


def test_a_term_alone_is_shown():
    def last(a, d):
        return np.outer(a["a"][:, -1], a["b"][-1])

    def of_each(a, d):
        return np.stack([a["a"][m, -1] * a["b"][-1] if m < d["K"] else 0 * a["b"][-1] for m in range(d["M"])])

    assert "c[m=0,n=0] = " in said(last)
    assert " is the last of its 3 terms alone, a[m=0,k=2] = " in said(last)
    assert "each term replaces the one before it; add it with +=." in said(of_each, LATER)


def test_what_has_two_explanations_or_none_is_not_explained():
    assert not said(lambda a, d: steps(a, d, slice(-1, None)), cases=(Case("two", {"M": 2, "K": 1, "N": 2}),))
    assert not said(lambda a, d: np.sin(product(a, d)))
    assert not said(lambda a, d: product(a, d) + (d["K"] == 4) * np.arange(d["N"]) ** 2)
    assert not said(product)


def test_whole_numbers_are_named():
    assert "Every element of c is a whole number: fractions are dropped" in said(
        lambda a, d: np.trunc(4 * product(a, d))
    )


def test_nothing_is_to_be_added_up_along_an_axis_of_the_output():
    """The first row of a alone, with the bias everywhere."""
    says = said(lambda a, d: np.vstack([a["a"][:1] @ a["b"], 0 * a["a"][1:] @ a["b"]]) + a["bias"])
    assert says == "c is what comes from the first m of a alone."
