"""A few files of random expressions; `python -m tests.soak.values` tries as many as you like."""

from __future__ import annotations

from functools import cache

import pytest

from tests.conformance import expressions
from tests.conformance.expressions import Kernel, Node, disagreements


@cache
def kernels(seed: int) -> list[Kernel]:
    return expressions.kernels(seed, 3)


MORE = [(1, "fixed"), (3, "memory, quick"), (5, "count")]


@pytest.mark.parametrize(
    ("seed", "build"),
    # soak.values draws such expressions every night, for half an hour, in each of these builds
    [(1, "full"), (1, "memory"), *(pytest.param(*more, marks=pytest.mark.soak) for more in MORE)],
)
def test_expressions_give_what_they_must(seed, build):
    wrong, together = disagreements(kernels(seed), build)
    assert not wrong, "\n" + "\n".join(wrong)
    assert bool(together) == (build in ("memory", "fixed"))


@pytest.mark.parametrize("loop", [0, expressions.ROUNDS])
def test_the_smallest_expression_is_named(loop):
    values = list(range(expressions.BLOCK * (loop or 1)))
    x = Node("u32", "", values, slot=0)
    right = Node("u32", "a + 1", [v + 1 for v in values], (x,))
    wrong = Node("u32", "a * 2", [2 * v + 2 + (v == 5) for v in values], (right,))
    root = Node(
        "u32", "a ^ b", [a ^ b for a, b in zip(wrong.values, right.values, strict=True)], (wrong, right)
    )
    lines, _ = disagreements([Kernel([root], loop, bool(loop), [values])], "memory, quick")
    assert len(lines) == 1 and lines[0].startswith("(in0 + 1) * 2 (in0=0x5") and "thread 5" in lines[0]
