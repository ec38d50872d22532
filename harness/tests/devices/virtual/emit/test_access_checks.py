"""Full checks of accesses to one and two bytes, which share a granule with others: what is set, where, and races."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from backwarp.errors import KernelFault
from tests.devices.virtual.launches import K, device

TYPES = ("unsigned char", "short")
#: bodies of (T* out, T* x, int n), whose n is 0, by one block of 64; x is 64 elements, none of them written -> what is wrong
BODIES = {
    "all of an array": (
        "T a[7]; for (int k = 0; k < 7; k++) a[k + n] = k; T s = 0; for (int k = 6; k >= n; k--) s += a[k]; out[t] = s;",
        "",
    ),
    "an element through a pointer": ("T a = t, *p = &a + n; *p = *p + 3; out[t] = a - t + 18;", ""),
    "one is not set": (
        "T a[7]; for (int k = 0; k < 7; k++) if (k != 5) a[k + n] = k; if (a[5 + n]) out[t] = 1;",
        "uninitialised-read",
    ),
    "its neighbour is set": ("T a[4]; a[1 + n] = 1; if (a[n]) out[t] = 1;", "uninitialised-read"),
    "the last is not set": (
        "T a[5]; for (int k = 0; k < 4; k++) a[k + n] = k; if (a[4 + n]) out[t] = 1;",
        "uninitialised-read",
    ),
    "the only one is not set": (
        "T a, *p = &a + n; if (t > 70 + n) *p = 1; if (*p) out[t] = 1;",
        "uninitialised-read",
    ),
    "the only one, of a function, is not set": (
        "T a; if (t > 70 + n) a = 1; out[t] = one(a) ? 1 : 2;",
        "uninitialised-read",
    ),
    "the only one, of a function": ("T a = 20; more(a); out[t] = one(a);", ""),
    "the last ones": (
        "T a[5]; for (int k = 0; k < 5; k++) a[k + n] = 20; more(a[4]); out[t] = one(a[4 - n]);",
        "",
    ),
    "just behind the last one": (
        "T a[5]; for (int k = 0; k < 5; k++) a[k + n] = 20; more(*(&a[4] + 1 + n)); out[t] = 1;",
        "out-of-bounds",
    ),
    "past its end": ("T a[7]; a[6] = 1; a[7 + n] = 1; out[t] = a[6];", "out-of-bounds"),
    "as parts of a number": (
        "int a; for (int k = 0; k < 4 / (int)sizeof(T); k++) ((T*)&a)[k + n] = 1; if (a) out[t] = 21;",
        "",
    ),
    "one part of a number": ("int a; ((T*)&a)[n] = 1; if (a) out[t] = 1;", "uninitialised-read"),
    "misaligned": ("int a = 0; *(short*)((char*)&a + 1 + n) = 1; out[t] = a;", "misaligned"),
    "of shared memory": ("__shared__ T s[64]; s[t] = 21; __syncthreads(); out[t] = s[63 - t];", ""),
    "neighbours in shared memory": (
        "__shared__ T s[64]; s[t] = 7; s[t] += 14; __syncthreads(); out[t] = s[t ^ 1]; s[t ^ 1] = 2;",
        "",
    ),
    "the neighbour's, too early": ("__shared__ T s[64]; s[t] = 7; out[t] = s[t ^ 1];", "race"),
    "not set in shared memory": (
        "__shared__ T s[64]; if (t != 9) s[t] = 7; __syncthreads(); if (s[63 - t]) out[t] = 21;",
        "uninitialised-read",
    ),
    "shared arrays of odd lengths": (
        "__shared__ char a[5]; __shared__ T b[7]; __shared__ char c[3], d[1]; if (t < 5) a[t] = 1; if (t < 7) b[t] = 9;"
        " if (t < 3) c[t] = t; if (t == 0) d[0] = 10; __syncthreads(); out[t] = a[t % 5] + b[6 - t % 7] + c[1] + d[0];",
        "",
    ),
    "of an array": ("x[t] = 20; x[t] += 1; out[t] = x[t];", ""),
    "of an array, not set": ("if (t != 9) x[t] = 20; if (x[t]) out[t] = 21;", "uninitialised-read"),
    "of an array, the neighbour's": ("x[t] = 20; if (t == 5) out[t] = x[t - 1];", "race"),
    "the last access of some": (
        "__shared__ T s[64]; s[t] = 21; __syncthreads(); if (t > 40 + n) { out[t] = s[t]; return; }"
        " __syncthreads(); out[t] = s[t];",
        "",
    ),
    "the last access of some, of what others then change": (
        "__shared__ T s[64]; s[t] = 21; __syncthreads(); if (t > 40 + n) { out[t] = s[63 - t]; return; }"
        " __syncthreads(); s[t] = 2; out[t] = s[t];",
        "race",
    ),
}


@cache
def module(type_: str):
    return device().compile(
        f"__device__ __noinline__ {type_} one(const {type_}& x) {{ return x; }}"
        f"__device__ __noinline__ void more({type_}& x) {{ x = x + 1; }}\n"
        + "\n".join(
            f"{K}k{m}({type_}* out, {type_}* x, int n) {{ int t = threadIdx.x; {body.replace('T', type_)} }}".replace(
                f"__{type_}", "__T"
            )
            for m, (body, _) in enumerate(BODIES.values())
        )
    )


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("what", BODIES)
def test_access(what, type_):
    number, wrong = list(BODIES).index(what), BODIES[what][1]
    dtype = np.uint8 if type_ == TYPES[0] else np.int16
    out, x = device().empty(64, dtype, name="out"), device().empty(64, dtype, name="x")
    kernel = module(type_).get_function(f"k{number}")
    if not wrong:
        kernel(1, 64, (out, x, np.int32(0)))
        assert (out.get() == 21).all()
        return
    with pytest.raises(KernelFault) as found:
        kernel(1, 64, (out, x, np.int32(0)))
    assert found.value.kind == wrong
