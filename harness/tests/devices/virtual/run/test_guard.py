"""Which arrays a launch may store to: what is known of each kernel, and that results, faults and races stay what they are."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from backwarp.errors import KernelFault
from tests.devices.virtual.launches import K, device
from tests.devices.virtual.scouting import lanes, scouting  # noqa: F401  a fixture

N = 64
I = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
BEFORE = """
struct Two { const float* from; float* to; };
struct Cell { int at; float* next; };
__device__ float table[64];
__device__ float* there;
__device__ void put(float* to, int i, float x) { to[i] = x; }
__device__ float* either(float* a, float* b, int i) { return i & 1 ? a : b; }
"""
#: kernels of (float* a, float* b, float* c, int n), whose a is 0, 1, 2 ...: body -> the arrays it is known to store to
KNOWN = {
    "one": ("b[i] = a[i];", "b"),
    "in place": ("a[i] = 2 * a[i] + c[i];", "a"),
    "two": ("b[i] = a[i]; if (n) c[i] = b[i];", "bc"),
    "nothing": ("if (a[i] < 0) __trap();", ""),
    "despite const": ("const float* x = b; const_cast<float*>(x)[i] = a[i];", "b"),
    "in a function": ("put(c, i, a[i]);", "c"),
    "chosen": ("*(either(b, c, i) + i) = a[i];", "bc"),
    "chosen by value": ("float* p = n > 3 ? b : c; p[i] = a[i];", "bc"),
    "moved": ("float* p = b; for (int k = 0; k < i; k++) p++; *p = a[i];", "b"),
    "swapped": (
        "float *p = b, *q = c; for (int k = 0; k < n; k++) { float* r = p; p = q; q = r; p[i] = q[i] + a[i]; }",
        "bc",
    ),
    "one of an array of pointers": ("float* t[3] = {a, b, c}; t[n % 2 + 1][i] = a[i];", None),
    "a pointer of the module": ("if (i == 0) there = b; __syncthreads(); there[i] = a[i];", None),
    "as numbers": ("((float*)((unsigned long long)b + 4 * i))[0] = a[i];", "b"),
    "atomics": ("atomicAdd(b + i / 2, a[i]);", "b"),
    "as bytes": ("((unsigned char*)b)[i] = 1; *(short*)((char*)c + 2 * i) = 2;", "bc"),
    "four": ("if (i < 16) ((float4*)b)[i] = ((float4*)a)[i];", "b"),
    "own memory": (
        "float x[4]; __shared__ float s[64]; for (int k = 0; k < 4; k++) x[(k + n) & 3] = a[i]; s[i] = x[1];",
        "",
    ),
    "a variable": ("table[i] = a[i]; b[i] = table[i];", "b+"),
    "a pointer of a struct": ("Two t = {a, b}; t.to[i] = t.from[i];", "b"),
    "from memory": ("Cell* x = (Cell*)c; x->next[i] = a[i];", None),
}
SOURCE = BEFORE + "\n".join(
    f"{K}k{m}(float* a, float* b, float* c, int n) {{ {I} {body} }}"
    for m, (body, _) in enumerate(KNOWN.values())
)
SOURCE += f"{K}by_value(Two t, float* c) {{ {I} t.to[i] = t.from[i] + c[i]; }}\n"
SOURCE += f"{K}far(float* a, float* b, float* c, int n) {{ {I} b[i] += 1; if (i == 5) b[n] = c[i]; }}\n"
SOURCE += f"{K}sum(const float* a, float* b) {{ {I} b[i] = a[N - 1 - i]; }}\n".replace("N", str(N))
SOURCE += f"{K}shift(const float* x, int n) {{ {I} table[i] = x[(i + n) % 64]; }}\n"


@cache
def module(of_lanes: bool):
    return scouting(SOURCE) if of_lanes else device().compile(SOURCE)


def array(values=None, name="a"):
    return device().array(np.arange(N, dtype=np.float32) if values is None else values, name=name)


def given():
    """a, b and c; c begins as what "from memory" finds there: the address of b."""
    b = array(np.zeros(N, np.float32), "b")
    words = np.ones(N, np.float32)
    words.view(np.uint64)[1] = b.pointer
    return array(), b, array(words, "c")


def open_to(arrays) -> str:
    guard = device().arena.guard
    return "".join(name for name, x in zip("abc", arrays) if x.pointer in guard.open)


@pytest.mark.parametrize("of_lanes", [False, True])
@pytest.mark.parametrize("what", KNOWN)
def test_what_a_kernel_stores_to(what, of_lanes):
    number, stored = list(KNOWN).index(what), KNOWN[what][1]
    kernel, arrays = module(of_lanes).get_function(f"k{number}"), given()
    others = device().array(np.zeros(5, np.uint8))
    before = [x.get().tobytes() for x in arrays]
    kernel(1, N, (*arrays, np.int32(9)))
    assert not module(of_lanes).unguarded
    told = kernel.for_blocks((N, 1, 1)).info
    if stored is None:
        assert told.stored is None and open_to(arrays) == "abc"
        assert before[0] in (arrays[1].get().tobytes(), arrays[2].get().tobytes())
        return
    assert told.stored == tuple(8 * "abc".index(name) for name in stored.strip("+"))
    assert told.stores_variables == ("+" in stored)
    assert open_to(arrays) == stored.strip("+") and others.pointer not in device().arena.guard.open
    copied = {owner.name for owner, *_ in device().arena.snapshot()}
    assert copied.isdisjoint(set("abc") - set(stored))
    unchanged = {name for name, x, old in zip("abc", arrays, before, strict=True) if x.get().tobytes() == old}
    assert set("abc") - set(stored) <= unchanged != set("abc") or not stored


@pytest.mark.parametrize("of_lanes", [False, True])
def test_stores_that_nobody_knew_of(of_lanes):
    """An index that reaches another array: the launch runs again, as if its first part had not been."""
    made = module(of_lanes)
    kernel, (a, b, c) = made.get_function("far"), given()
    distance = (a.pointer - b.pointer) // 4
    for times in (1, 2):
        kernel(1, N, (a, b, c, np.int32(distance)))
        assert made.unguarded == {"far"}
        assert (b.get() == times).all() and a.get()[0] == 1 and (a.get()[1:] == np.arange(1, N)).all()
    made.unguarded.clear()


def test_a_structure_that_holds_addresses():
    a, b, c = given()
    two = np.array([a.pointer, b.pointer], np.uint64).view(np.dtype([("p", np.uint64, 2)]))[0]
    module(False).get_function("by_value")(1, N, (two, c))
    assert open_to((a, b, c)) == "b"
    assert (b.get()[4:] == np.arange(4, N) + 1).all()


@pytest.mark.parametrize("of_lanes", [False, True])
def test_one_array_twice_and_views_are_no_others(of_lanes):
    made, x = module(of_lanes), array()
    with pytest.raises(KernelFault) as found:
        made.get_function("sum")(1, N, (x, x))
    assert found.value.kind == "race"
    view = made.get_global("table", np.float32)
    view.set(1)
    with pytest.raises(KernelFault) as found:
        made.get_function("shift")(1, N, (view, np.int32(3)))
    assert found.value.kind == "race"
    made.get_function("shift")(1, N, (array(), np.int32(3)))
    assert view.get()[0] == 3


@pytest.mark.parametrize("of_lanes", [False, True])
def test_what_is_not_written_completely_is_still_told(of_lanes):
    made, a, b = module(of_lanes), device().empty(N, name="a"), device().empty(N, name="b")
    (device().arena.shadow[a.pointer // 4 : a.pointer // 4 + N - 1]) |= 4
    with pytest.raises(KernelFault) as found:
        made.get_function("sum")(1, N, (a, b))
    assert found.value.kind == "uninitialised-read"
    a.set(2)
    made.get_function("sum")(1, N, (a, b))
    assert (b.get() == 2).all() and b.written.all()


@pytest.mark.parametrize("length", [1, 3, 4, 63, 66])
def test_arrays_that_end_within_a_granule(length):
    source = K + "k(const unsigned char* from, unsigned char* to) { to[threadIdx.x] = from[threadIdx.x]; }"
    made = device().compile(source)
    a, b, c = (
        device().array(np.arange(length, dtype=np.uint8)),
        *(device().empty(length, np.uint8) for _ in "bc"),
    )
    for from_, to in ((a, b), (b, c), (c, a)):
        made.get_function("k")(1, length, (from_, to))
        assert (to.get() == np.arange(length)).all()
        with pytest.raises(KernelFault) as found:
            made.get_function("k")(1, length + 1, (from_, to))
        assert found.value.kind == "out-of-bounds"


def test_arrays_come_and_go():
    made, guard = module(False), device().arena.guard
    a, b, c = given()
    made.get_function("k0")(1, N, (a, b, c, np.int32(0)))
    places = a.pointer, b.pointer
    del a, b
    device().settle()
    assert guard.areas.keys().isdisjoint(places)
    d = device().array(np.arange(N, dtype=np.float32), readonly=True)
    with pytest.raises(KernelFault) as found:
        made.get_function("k0")(1, N, (c, d, c, np.int32(0)))
    assert found.value.kind == "read-only"
    made.unguarded.clear()
