"""Where the only store into an array that was left unwritten stands."""

from __future__ import annotations

import pytest

from harness.course.declare import In, Kernel, Launch, Out
from harness.grading.causes.only_store import only_store

KERNEL = Kernel("f", (In("x", n="n"), Out("y", n="n")), lambda d, t: Launch(1, 1), lambda a, d: a["x"])


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            "if (i < 9) {\nif (warp == 0) res[i] = in[i];\n}",
            "Only line 2 stores into res, and only where warp == 0 and i < 9.",
        ),
        (
            "int i = threadIdx.x * 2;\nif (i > 9) return;\nres[i] = 0;",
            "Only line 3 stores into res, and only where line 2 has not returned (i > 9), with i = threadIdx.x * 2.",
        ),
        ("if (i > 9) res[i] = 1;\nelse res[i] = 2;", ""),
        ("res[i] = 1;", ""),
    ],
)
def test_the_conditions_of_the_only_store(body, says):
    text = f"__global__ void f(const float* in, float* res) {{ {body}\n}}\n"
    assert only_store("y", KERNEL, text) == [says] * bool(says)
