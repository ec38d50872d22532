"""With full checks, lanes find out whether anything may be wrong, and single threads what: the verdict of these alone."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from backwarp.devices.virtual.compile import build
from backwarp.devices.virtual.compile.build import BESIDE
from backwarp.devices.virtual.compile.targets import target
from tests.devices.virtual.launches import K, device
from tests.devices.virtual.scouting import (
    INDEX,
    assert_lanes,
    both,
    inputs,
    lanes,  # noqa: F401  a fixture
    launched,
    outputs,
    scouting,
)


def test_lanes_run_what_is_right():
    source = K + f"k(const float* a, float* out) {{ {INDEX} out[i] = 2 * a[i]; }}"
    module, (fault, _), (_, out) = both(source, [inputs(), outputs()])
    assert_lanes(module)
    assert not fault and (out == 2 * np.arange(128)).all()


@pytest.mark.parametrize(
    "dtype, name", [("uint8", "unsigned char"), ("int16", "short"), ("float64", "double")]
)
@pytest.mark.parametrize("index", ["i", "127 - i"])
def test_elements_of_every_size(dtype, name, index):
    source = K + f"k(const {name}* a, {name}* out) {{ {INDEX} out[{index}] = a[i]; out[{index}] += 1; }}"
    module, (fault, _), (_, out) = both(source, [inputs(dtype=dtype), outputs(dtype=dtype)])
    assert_lanes(module)
    assert not fault and sorted(out) == list(range(1, 129))


def test_vectors_of_four():
    source = K + f"k(const float4* a, float4* out) {{ {INDEX} out[i] = a[i]; out[i].x += out[i].y; }}"
    module, (fault, _), _ = both(source, [inputs(512), outputs(512)])
    assert_lanes(module)
    assert not fault


SHARED = "__shared__ float s[64]; int t = threadIdx.x; s[t] = a[t]; {} out[blockIdx.x * 64 + t] = {};"
RACES = {  # what is wrong -> the kernel's body
    "neighbour": SHARED.format("", "s[t ^ 1]"),
    "other warp": SHARED.format("__syncwarp();", "s[63 - t]"),
    "write after read": SHARED.format("__syncthreads(); float x = s[63 - t]; s[t] = x;", "x"),
    "one address": SHARED.format("__syncthreads();", "s[t]") + "s[5] = t;",
    "one address, one value": "out[0] = 1;",
    "blocks": "out[threadIdx.x] = a[threadIdx.x] + blockIdx.x;",
    "another's element": f"{INDEX} out[i] = 1; out[(i + 1) % 128] += 1;",
    "overlapping bytes": f"{INDEX} ((unsigned char*)out)[i] = 1; ((short*)out)[i / 2] = 2;",
}


@pytest.mark.sampled  # each under one seed
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("what", RACES)
def test_races(what, seed):
    source = K + f"k(const float* a, float* out) {{ {RACES[what]} }}"
    device().schedule = seed
    try:
        module, (fault, notes), _ = both(source, [inputs(), outputs()])
    finally:
        device().schedule = 0
    assert fault or notes
    if module.get_function("k").info.scouts:
        assert_lanes(module, doubted=True)


TILE = (
    "__shared__ float s[256], other[256]; int x = threadIdx.x, y = threadIdx.y, i = 16 * y + x; s[i] = a[i];"
    " __syncthreads(); {} out[i] = {};"
)
ONE_PLACE = {  # what the lanes of a row do with one place -> (the kernel's body, whether it is right)
    "read": (TILE.format("float v = s[16 * y];", "v + s[16 * y]"), True),
    "read by all rows": (TILE.format("float v = s[7];", "v"), True),
    "read, and written after a barrier": (
        TILE.format("float v = s[16 * y]; __syncthreads(); s[i] = v;", "s[i]"),
        True,
    ),
    "read by one lane, which writes": (TILE.format("if (x == 5) s[y] += s[16 * y];", "1"), True),
    "read, then written by one": (TILE.format("float v = s[16 * y]; if (x == 3) s[16 * y] = 1;", "v"), False),
    "written before by one row": (TILE.format("if (y == 0) other[i] = s[i];", "other[0]"), False),
    "never written": (TILE.format("", "other[16 * y]"), False),
    "once written": (TILE.format("if (i) other[i] = 1; __syncthreads();", "other[16 * y]"), False),
}


@pytest.mark.parametrize("what", ONE_PLACE)
def test_all_lanes_access_one_place(what):
    body, right = ONE_PLACE[what]
    shape = dict(grid=1, block=(16, 16))
    module, (fault, notes), _ = both(
        K + f"k(const float* a, float* out) {{ {body} }}", [inputs(256), outputs(256)], **shape
    )
    assert_lanes(module, doubted=not right)
    assert not (fault or notes) if right else fault or notes


ORDERED = {
    "barrier": SHARED.format("__syncthreads();", "s[63 - t]"),
    "one for all": SHARED.format("__syncthreads();", "s[t / 16]"),
    "tree": SHARED.format(
        "for (int d = 32; d > 0; d /= 2) { __syncthreads(); if (t < d) s[t] += s[t + d]; } __syncthreads();",
        "s[0]",
    ),
    "own element": f"{INDEX} out[i] = a[i]; for (int k = 0; k < 3; k++) out[i] += 1;",
    "strided": f"{INDEX} out[i * 37 % 128] = a[i]; out[i * 37 % 128] += 1;",
}


@pytest.mark.parametrize("what", ORDERED)
def test_what_is_ordered_is_not_doubted(what):
    source = K + f"k(const float* a, float* out) {{ {ORDERED[what]} }}"
    module, (fault, _), _ = both(source, [inputs(), outputs()])
    assert_lanes(module)
    assert not fault


WRONG = {  # with one array that nobody has written
    "outside": f"{INDEX} out[i + 1] = a[i];",
    "before": f"{INDEX} out[i] = a[i - 1];",
    "unset memory": f"{INDEX} if (out[i] > 1) out[i] = a[i];",
    "unset shared memory": "__shared__ float s[65]; s[threadIdx.x] = 1; __syncthreads();"
    " if (s[threadIdx.x + 1] > 0) out[threadIdx.x + 64 * blockIdx.x] = 1;",
    "unset variable": f"{INDEX} float x; if (a[i] > 100) x = 1; if (x > 0) out[i] = x;",
    "unset variable of a function": f"{INDEX} out[i] = 1; for (int k = 0; k < 2; k++) if (f(k) > 0) out[i] = k;",
    "unset pointer": f"{INDEX} float x = 1, *p; if (a[i] > 100) p = &x; *p = 2; out[i] = x;",
    "misaligned": f"{INDEX} *(float*)((char*)out + i) = 1;",
    "read-only": f"{INDEX} ((float*)a)[i] = 1; out[i] = 0;",
    "left before a barrier": "if (threadIdx.x > 40) return; __syncthreads(); out[threadIdx.x + 64 * blockIdx.x] = 1;",
    "a barrier for some": "if (threadIdx.x < 32) __syncthreads(); out[threadIdx.x + 64 * blockIdx.x] = 1;",
    "two barriers": "if (threadIdx.x < 32)\n __syncthreads();\n else\n __syncthreads(); out[threadIdx.x] = 1;",
}


@pytest.mark.parametrize("what", WRONG)
def test_faults(what):
    function = "__device__ int f(int k) { int x; if (k > 5) x = 1; return x; }\n" * ("f(k)" in WRONG[what])
    source = function + K + f"k(const float* a, float* out) {{ {WRONG[what]} }}"
    _, (fault, notes), _ = both(source, [inputs(), outputs()])
    assert fault or notes


def test_a_partly_written_array():
    source = K + f"first(float* x) {{ {INDEX} if (i < 100) x[i] = 1; }}\n"
    source += K + f"k(const float* x, float* out) {{ {INDEX} if (i < n_) out[i] = x[i] + 1; }}"
    for n, wrong in ((100, False), (101, True)):
        modules = device().compile(source.replace("n_", str(n))), scouting(source.replace("n_", str(n)))
        said = []
        for module in modules:
            x, out = outputs()(), outputs()()
            launched(module, "first", (x,))
            said.append(launched(module, "k", (x, out)))
        assert said[0] == said[1]
        assert modules[1].doubted == ({"k"} if wrong else set())


def test_one_array_by_two_names():
    source = K + f"k(const float* a, float* out) {{ {INDEX} out[i] = a[127 - i]; }}"
    said = []
    for module in (device().compile(source), scouting(source)):
        x = inputs(readonly=False)()
        said.append(launched(module, "k", (x, x)))
    assert said[0] == said[1] and said[0][0]


def test_an_address_that_is_no_array():
    source = K + f"k(const float* a, float* out) {{ {INDEX} out[i] = a[i]; }}"
    module = scouting(source)
    a, out = inputs()(), outputs()()
    assert not launched(module, "k", (np.uint64(a.pointer), np.uint64(out.pointer)))[0]
    assert_lanes(module)
    assert (out.get() == np.arange(128)).all()


@pytest.mark.parametrize("block", [1, 33, 102])
def test_blocks_that_are_no_groups_run_as_single_threads(block):
    source = K + f"k(const float* a, float* out) {{ {INDEX} if (i < 128) out[i] = a[i]; }}"
    module = scouting(source)
    out = outputs()()
    assert not launched(module, "k", (inputs()(), out), grid=128, block=block)[0]
    assert (out.get() == np.arange(128)).all()
    assert not module.get_function("k").for_blocks((block, 1, 1)).info.scouts


def launched_as_lanes(source: str, *seconds: float) -> list[bool]:
    """Whether lanes ran each of some launches of a new module, after that many seconds of launches; what is built beside them
    is then ready."""
    module, found = device().compile(source), []
    module.scouted = False
    for spent in seconds:
        module.seconds = spent
        launched(module, "k", (outputs()(),))
        found.append(module.get_function("k").info.scouts)
        for thread in threading.enumerate():
            if thread.name == BESIDE:
                thread.join()
    return found


@pytest.mark.parametrize("keeps", [True, False])
def test_lanes_are_compiled_beside_launches_and_used_at_once_when_they_are_known(
    keeps, tmp_path, monkeypatch, built_beside
):
    monkeypatch.setenv("BACKWARP_CACHE", str(tmp_path) if keeps else "off")
    monkeypatch.setattr(build, "_beside", {})
    source = K + f"k(float* out) {{ {INDEX} out[i] = {1 + keeps}; }}"
    assert launched_as_lanes(source, 0.0, 50.0, 50.0, 100.0) == [False, False, False, True]
    assert launched_as_lanes(source, 0.0, 50.0) == [keeps, True]


REFUSED = {
    "for (; atomicExch(out, 0) > 5;); out[0] = 1;": "threads that observe or wait for one another in memory",
    "float x[9]; for (int k = 0; k < 9; k++) x[k] = k; out[0] = x[threadIdx.x % 9];": "a local variable with an index that differs",
    "float x[9], *p = x; for (int k = 0; k < out[1]; k++) p = x + k; out[0] = p > x + 2 ? *p : 1;": "a local variable whose address is kept",
    "short x[9]; for (int k = 0; k < out[1]; k++) x[k] = k; out[0] = x[2];": "a local variable whose address is kept, or whose elements",
    "if (out[threadIdx.x] > 1) __syncthreads(); out[1] = 1;": "a barrier or collective where some threads may not be",
    "atomicAdd(out + 1, 2);": "atom.",
}


@pytest.mark.parametrize("body", REFUSED)
def test_why_there_are_no_lanes(body):
    module = device().compile(f"{K}k(float* out) {{ {body} }}")
    built = module._built_again(target().lanes)
    assert built.lowered.kernels["k"].refused.startswith(REFUSED[body]) and not built.code


def test_that_a_kernel_has_no_lanes_is_remembered(monkeypatch):
    source = K + f"k(float* out) {{ {INDEX} for (; atomicExch(out, 0) > 5;); out[i] = clock(); }}"
    asked, compiled = [], build._in_child
    monkeypatch.setattr(build, "_in_child", lambda *given: asked.append(given) or compiled(*given))
    assert launched_as_lanes(source, 0.0, 50.0, 100.0) == [False] * 3
    assert len(asked) <= 2  # of single threads, and of what has no lanes
    asked.clear()
    assert launched_as_lanes(source, 0.0, 50.0, 100.0) == [False] * 3
    assert not asked


@pytest.mark.parametrize("width", [32, 8])
@pytest.mark.parametrize("shuffle", ["__shfl_xor_sync", "__shfl_up_sync", "__shfl_down_sync", "__shfl_sync"])
def test_shuffles_by_what_a_register_holds(shuffle, width):
    source = K + (
        f"k(const float* a, float* out) {{ {INDEX} float x = a[i];"
        f" for (int d = {width // 2 + 1}; d > 0; d /= 2) x += d * {shuffle}(0xffffffff, x, d, {width}); out[i] = x; }}"
    )
    module, (fault, _), _ = both(source, [inputs(), outputs()])
    assert_lanes(module)
    assert not fault


def test_copies_of_functions_have_names_of_their_own():
    functions = """
struct Two { float x, y; };
__device__ Two merge(Two a, Two b) { Two c; c.x = a.x + b.x; c.y = a.y > b.y ? a.y : b.y; return c; }
__device__ Two all(Two a) {
    for (int d = 16; d > 0; d /= 2) {
        Two b; b.x = __shfl_xor_sync(0xffffffff, a.x, d); b.y = __shfl_xor_sync(0xffffffff, a.y, d);
        a = merge(a, b);
    }
    return a;
}
"""
    source = (
        functions
        + K
        + (
            f"k(const float* a, float* out) {{ {INDEX} Two x = {{a[i], a[127 - i]}}, y = {{1, 2}};"
            " x = merge(x, y); x = all(x); x = merge(y, x); x = all(merge(x, x)); out[i] = x.x + x.y; }"
        )
    )
    module, (fault, _), _ = both(source, [inputs(), outputs()])
    assert_lanes(module)
    assert not fault


def test_meetings_of_a_warp_order_its_lanes():
    for between, wrong in (("__syncwarp();", False), ("", True)):
        source = K + (
            "k(const float* a, float* out) { __shared__ float s[64]; int t = threadIdx.x;"
            f" s[t] = a[t]; {between} float x = s[t ^ 5]; x += __shfl_down_sync(0xffffffff, x, 1);"
            " out[blockIdx.x * 64 + t] = x; }"
        )
        module, (fault, _), _ = both(source, [inputs(), outputs()])
        assert_lanes(module, doubted=wrong)
        assert bool(fault) == wrong


TILE = (
    "__shared__ float s[8][64]; int t = threadIdx.x, x = t % 16 * 4, y = t / 16; float sum[4] = {}, p[4], q[2];"
    " for (int i = 0; i < 8; i++) s[i][t] = a[t] + i; __syncthreads();"
    " for (int k = 0; k < 8; k++) {"
    " for (int i = 0; i < 4; i++) p[i] = s[k][x + i];"
    " for (int i = 0; i < 2; i++) q[i] = s[k][y * 2 + i];"
    " for (int j = 0; j < 2; j++) for (int i = j; i < 4; i++) sum[i] += p[i] * q[{index}]; }"
    " for (int i = 0; i < {most}; i++) out[blockIdx.x * 256 + t * 4 + i] = sum[i];"
)


@pytest.mark.parametrize(
    "index, most, wrong",
    [("j", "4", False), ("(i + j) % 2", "4", False), ("j + 1", "4", True), ("j", "5", True)],
)
def test_tiles_in_registers(index, most, wrong):
    body = TILE.replace("{index}", index).replace("{most}", most)
    source = K + f"k(const float* a, float* out) {{ {body} }}"
    module, (fault, _), _ = both(source, [inputs(), outputs(516)])
    assert bool(fault) == wrong
    if not wrong:
        assert_lanes(module)


def test_an_element_of_a_tile_that_is_never_written():
    source = K + (
        f"k(const float* a, float* out) {{ {INDEX} float x[4]; for (int j = 0; j < 3; j++) x[j] = a[i] + j;"
        " float sum = 0; for (int j = 0; j < 4; j++) if (a[i] > 100 || j < n_) sum += x[j]; out[i] = sum; }"
    )
    for n, wrong in ((3, True), (4, True), (2, True)):
        module, (fault, _), _ = both(source.replace("n_", str(n)), [inputs(), outputs()])
        assert_lanes(module, doubted=wrong)
        assert bool(fault) == wrong


LOCALS = {  # arrays of 9 elements that stay in memory, as n is not known -> (what is done with them, whether it is right)
    "one way and back": ("for (int k = n - 1; k >= 0; k--) f = f * 1.5f + x[k];", True),
    "changed": ("for (int k = 0; k < n; k++) { x[k] *= 2; x[n - 1 - k] += k; } f = x[3] + x[6];", True),
    "changed by some": (
        "for (int k = 0; k < n; k++) if (a[i] > 3 * k) x[k] += t; else if (t & 1) x[n - 1 - k] = k; f = x[0] - x[5];",
        True,
    ),
    "read by some": ("for (int k = 0; k < n; k++) if (i % 3 == k % 3) f += x[k] * k;", True),
    "in fours": (
        "for (int k = 0; k + 4 <= n; k += 4) { float4 v = ((float4*)x)[k / 4]; f += v.x * v.y - v.z * v.w; ((float4*)x)[k / 4] = make_float4(f, v.x, 1, 2); } f += x[0] + x[5];",
        True,
    ),
    "whole numbers": (
        "int m[4]; for (int k = 0; k < n; k++) m[k % 4] = __float_as_int(x[k]) ^ k; for (int k = 0; k < n; k++) f += m[k % 4] & 255;",
        True,
    ),
    "threads leave": (
        "if (t == 5) return; for (int k = 0; k < n; k++) { if (a[i] == 9 * k) return; x[k] += f; f = x[n - 1 - k]; }",
        True,
    ),
    "behind the end": ("for (int k = 0; k <= n; k++) f += x[k + (n == 7) * 2];", False),
    "before the start": ("for (int k = 0; k < n; k++) f += x[k - 1];", False),
    "never written": (
        "float y[9]; for (int k = 1; k < n; k++) y[k] = k; for (int k = 0; k < n; k++) f += y[k];",
        False,
    ),
    "never written by some": (
        "float y[9]; for (int k = 0; k < n; k++) if (t != 33) y[k] = k; for (int k = 0; k < n; k++) f += y[k];",
        False,
    ),
    "not read by those": (
        "float y[9]; for (int k = 0; k < n; k++) if (t != 33) y[k] = k; for (int k = 0; k < n; k++) if (t != 33) f += y[k];",
        True,
    ),
    "not aligned": ("for (int k = 0; k < n; k++) f += *(float*)((char*)x + k * 4 + k / 5);", False),
}


@pytest.mark.parametrize("what", LOCALS)
def test_local_arrays_that_stay_in_memory(what):
    body, right = LOCALS[what]
    source = K + (
        f"k(const float* a, float* out, int n) {{ {INDEX} int t = threadIdx.x; __align__(16) float x[9]; float f = 0; __shared__ float s[64];"
        f" s[t] = a[i]; __syncthreads(); for (int k = 0; k < n; k++) x[k] = s[t ^ k] + k; {body} out[i] = f; }}"
    )
    module, (fault, _), _ = both(source, [inputs(), outputs()], np.int32(8))
    assert_lanes(module, doubted=not right)
    assert bool(fault) != right


DTYPES = [("uint8", "unsigned char"), ("int16", "short"), ("float32", "float"), ("float64", "double")]
PLACES = {  # ways to go through shared memory that lanes are not next to each other in
    "columns": "s[x][y] = a[i]; __syncthreads(); {T} v = s[y][x]; out[i] = v;",
    "columns of a padded tile": "s[y][x] = a[i]; __syncthreads(); {T} v = s[x][y]; out[i] = v; s[x][y] = 2 * v;",
    "columns, backwards, some of them twice": "s[y][x] = a[i]; __syncthreads(); {T} v = s[15 - x][y]; if (x % 3) v += s[15 - x][y] + s[x][y]; out[i] = v;",
    "the last row writes what no lane has read": "s[y][x] = a[i]; __syncthreads(); {T} v = 0; if (x < 9) v = s[x][y]; if (y == 15 && x > 8) s[x][3] = a[x]; out[i] = v;",
    "halves": "s[y][x] = a[i]; __syncthreads(); if (x & 4) { {T} v = s[y][x - 4]; s[y][x - 4] = s[y][x]; s[y][x] = v; }"
    " __syncthreads(); out[i] = s[y][x];",
    "some lanes leave": "s[y][x] = a[i]; __syncthreads(); int far = x < 9 ? x : 1 << 20; if (x < 9) out[i] = s[far][y % 9];"
    " else out[i] = 0;",
    "several read the same": "s[y][x] = a[i]; __syncthreads(); out[i] = s[y][x / 3] + s[x / 2][0] + s[0][x * 7 % 16];",
}
WRONG_PLACES = {
    "the same column": "s[y][x] = 0; __syncthreads(); s[x / 2][y] = a[i]; out[i] = 0;",
    "a column, too early": "s[x][y] = a[i]; {T} v = s[y][x]; out[i] = v;",
    "a column that is read and written": "s[y][x] = a[i]; __syncthreads(); {T} v = s[x][y]; s[y][x] = v; out[i] = v;",
    "a column that is read, and a part of it written": "s[y][x] = a[i]; __syncthreads(); {T} v = s[x][y]; if (x == 9) s[x][(y + 1) % 16] = v; out[i] = v;",
    "a part of a column that is read, and another written": "s[y][x] = a[i]; __syncthreads(); {T} v = x < 9 ? s[x][y] : s[15 - x][y]; if (x == 12) s[8][y ^ 1] = v; out[i] = v;",
    "the last row writes what some lanes have read": "s[y][x] = a[i]; __syncthreads(); {T} v = 0; if (x < 9) v = s[x][y]; if (y == 15 && x > 7) s[x][3] = a[x]; out[i] = v;",
    "a column, not all set": "if (y < 15) s[y][x] = a[i]; __syncthreads(); out[i] = s[x][y];",
    "outside": "s[y][x] = a[i]; __syncthreads(); out[i] = s[x][y + 2];",
}


def through_shared_memory(body: str, dtype: str, name: str):
    body = body.replace("{T}", name)
    source = K + (
        f"k(const {name}* a, {name}* out) {{ __shared__ {name} s[16][17]; int x = threadIdx.x, y = threadIdx.y;"
        f" int i = blockIdx.x * 256 + y * 16 + x; {body} }}"
    )
    return both(source, [inputs(512, dtype), outputs(512, dtype)], block=(16, 16))


@pytest.mark.sampled
@pytest.mark.parametrize("dtype, name", DTYPES)
@pytest.mark.parametrize("what", PLACES)
def test_places_that_are_apart(what, dtype, name):
    module, (fault, _), _ = through_shared_memory(PLACES[what], dtype, name)
    assert_lanes(module)
    assert not fault


@pytest.mark.sampled
@pytest.mark.parametrize("dtype, name", DTYPES)
@pytest.mark.parametrize("what", WRONG_PLACES)
def test_what_is_wrong_with_places_that_are_apart(what, dtype, name):
    module, (fault, notes), _ = through_shared_memory(WRONG_PLACES[what], dtype, name)
    assert_lanes(module, doubted=True)
    assert fault or notes


@pytest.mark.parametrize("wrong", ["", "if (x == 5) s[3] = a[0];", "s[64 + x] = a[x];"])
def test_numbers_that_are_read_together(wrong):
    """Four of each lane: several threads read them, and in one case another writes one."""
    source = K + (
        "k(const float* a, float* out) { __shared__ float s[80]; int x = threadIdx.x; s[x] = a[x]; __syncthreads(); float v = 0;"
        " for (int j = 0; j < 3; j++) { float* p = s + x / 2 % 15 * 4; v += p[0] + p[1] * p[2] - p[3]; }"
        f" {wrong} out[blockIdx.x * 64 + x] = v; }}"
    )
    module, (fault, notes), _ = both(source, [inputs(), outputs()])
    assert_lanes(module, doubted=bool(fault or notes))
    assert bool(fault or notes) == bool("[3]" in wrong or "64" in wrong)


@pytest.mark.parametrize("size, name", [(40, "float"), (5, "unsigned char"), (33, "short")])
def test_every_block_finds_its_shared_memory_unset(size, name):
    source = K + (
        f"k(const float* a, float* out) {{ __shared__ {name} s[{size}]; int x = threadIdx.x;"
        f" if (x < {size} && (blockIdx.x == 0 || x < n_)) s[x] = a[x]; __syncthreads();"
        f" if (x == 0) for (int i = 0; i < {size}; i++) if (s[i] >= 0) out[blockIdx.x] = i; }}"
    )
    for n, wrong in ((size, False), (size - 1, True)):
        module, (fault, _), _ = both(source.replace("n_", str(n)), [inputs(), outputs(2)])
        assert bool(fault) == wrong


@pytest.mark.parametrize(("width", "wanted"), [(32, 16), (8, 8), (12, 4), (6, 1)])
@pytest.mark.parametrize("barrier", ["__syncthreads();", ""])
def test_short_rows_are_fewer_lanes(width, wanted, barrier):
    source = (
        K
        + f"""k(const float* a, float* out) {{
        __shared__ float s[96];
        int t = threadIdx.y * blockDim.x + threadIdx.x;
        s[t] = a[t];
        {barrier}
        out[t] = s[(t + 1) % (blockDim.x * blockDim.y)];
    }}"""
    )
    said = []
    for scouts in (False, True):
        module = device().compile(source)
        module.quick, module.scouted = True, False
        if scouts:
            module.scout(block=(width, 3, 1))
            assert module.get_function("k").for_blocks((width, 3, 1)).info.lanes == min(
                wanted, target().lanes
            )
        module.quick = False
        arrays = inputs()(), outputs()()
        said.append(launched(module, "k", arrays, 1, (width, 3)))
        if barrier:
            np.testing.assert_array_equal(arrays[1].get()[: 3 * width], np.roll(np.arange(3.0 * width), -1))
    assert said[0] == said[1] and ("Race" in said[0][0]) != bool(barrier)
