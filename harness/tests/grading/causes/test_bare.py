"""Elements that no product reaches, and that lack the bias."""

from __future__ import annotations

import numpy as np
import pytest

from harness.course.declare import Case, In, Kernel, Launch, Out
from harness.grading.causes.bare import bare_elements
from harness.grading.causes.naming import Observation
from harness.grading.compare import Expected

BIAS = np.array([1.5, -2.5], np.float32)
SUMS = np.array([[[4, 0, 0, 3], [0, 2, 0, 5]]], np.float32)
KERNEL = Kernel(
    "f",
    (In("x", b="B", p="P"), In("bias", k="K"), Out("y", b="B", k="K", p="P")),
    lambda d, t: Launch(1, 1),
    lambda a, d: SUMS + BIAS[:, None],
)


@pytest.mark.parametrize(
    ("got", "said"),
    [
        (np.where(SUMS == 0, 0, SUMS + BIAS[:, None]), True),
        (SUMS, False),
        (SUMS + BIAS[:, None], False),
        (np.zeros_like(SUMS), False),
    ],
)
def test_elements_without_products_need_the_bias(got, said):
    right = SUMS + BIAS[:, None]
    target = Expected(KERNEL.outputs[0], right, np.full(right.shape, 1e-5), np.abs(right))
    arrays = {"x": np.zeros((1, 4), np.float32), "bias": BIAS}
    seen = Observation(Case("one", {}), {}, arrays, (target,), {"y": got.astype(np.float32)}, {})
    says = bare_elements(KERNEL, [seen])
    assert (
        says.startswith("Every wrong element of y is 0 and should be bias[k]: no product")
        if said
        else not says
    )
