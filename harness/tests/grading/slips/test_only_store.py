"""Where the only store into an array that was left unwritten stands."""

from __future__ import annotations

import pytest

from backwarp.course.declare import In, Kernel, Launch, Out
from backwarp.grading.slips.only_store import only_store
from tests.grading.said import said

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
    assert said(only_store("y", KERNEL, text)) == [says] * bool(says)


def test_the_only_store_into_shared_memory():
    text = "__global__ void f(const float* in, float* res) {\n__shared__ float s[4];\nif (l == 31) s[i] = 1;\nres[0] = s[0];\n}\n"
    assert said(only_store("s", KERNEL, text)) == ["Only line 3 stores into s, and only where l == 31."]


HELPERS = """__device__ void put(float* to, int i) { to[i] = 1; }
__device__ void set(float& to) { to = 1; }
__device__ float twice(const float* of, int i) { return 2 * of[i]; }
"""
GUARDED = "if (i < 9) res[i] = in[i];"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("", True),
        ("float* p = res + i; p++;", True),
        ("float x = twice(res, i);", True),
        ("float x = sqrtf(res[i]);", True),
        ("float* p = res; float x = p[i];", True),
        ("float* p = res; p[i] = 2;", False),
        ("float* p; p = &res[i]; *p = 2;", False),
        ("float* p = res; *p++ = 2;", False),
        ("put(res, i);", False),
        ("float* p = res + i; if (i > 3) { put(p, i); return; }", False),
        ("set(res[i]);", False),
        ("float& r = res[i]; r = 2;", False),
        ("auto own = [&](int j) { res[j] = 2; }; own(i);", False),
        ("auto own = [](float* to) { *to = 2; }; own(res + i);", False),
        ("auto own = [](float& to) { to = 2; }; own(res[i]);", False),
        ("reinterpret_cast<float4*>(res)[i].x = 2;", False),
        ("((float4*)res)[i] = four;", False),
        ("*(float4*)(res + i) = four;", False),
        ("atomicAdd(&res[i], 2.0f);", False),
        ("atomicAdd(res + i, 2.0f);", False),
        ("Ends e; e.out = res; e.out[i] = 2;", False),
        ("Ends e{res}; e.out[i] = 2;", False),
        ("float* p[2] = {res, res}; p[0][i] = 2;", False),
    ],
)
def test_all_stores_are_seen(body, told):
    text = f"{HELPERS}__global__ void f(const float* in, float* res) {{ {body}\n{GUARDED}\n}}\n"
    says = ["Only line 5 stores into res, and only where i < 9."]
    assert said(only_store("y", KERNEL, text)) == says * told


def test_a_macro_may_store():
    text = f"#define PUT(i) res[i] = 2\n__global__ void f(const float* in, float* res) {{ PUT(0);\n{GUARDED}\n}}\n"
    assert said(only_store("y", KERNEL, text)) == []
