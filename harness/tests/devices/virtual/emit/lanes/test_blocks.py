"""Blocks of a known shape that run as one, so that nobody waits: the same bits as one thread at a time, the same faults."""

from __future__ import annotations

from functools import cache
from math import prod

import numpy as np
import pytest

from backwarp.devices.virtual.device import VirtualGPU
from backwarp.errors import KernelFault
from tests.devices.virtual.emit.lanes.bodies import BUILDS, opened
from tests.devices.virtual.emit.lanes.test_barriers import BODIES as WAITING
from tests.devices.virtual.emit.lanes.test_barriers import NO_ROWS, WORK, WRONG
from tests.devices.virtual.launches import K, line_of

THREADS, DYNAMIC, N = 32, 512, 61
I = """int u = threadIdx.x, v = threadIdx.y, w = threadIdx.z, t = (w * blockDim.y + v) * blockDim.x + u, T = 32, i = blockIdx.x * T + t;
    __shared__ float s[64];"""
#: of `(const float* a, const int* j, float* out, int n)`: 256 elements each; two blocks of 32
BODIES = {name: body for name, body in WAITING.items() if name not in NO_ROWS or name == "votes"} | {
    "x, y and z": f"{I} s[u + v * 7 % 32 + w] = 0; __syncthreads(); s[t] = u * 100 + v * 10 + w; __syncthreads(); out[i] = s[31 - t] + s[u] + s[4 * v] + s[w];",
    "products": f"{I} s[t] = x[v * (n - 60) + u] + x[u * n % 64 + w * v]; __syncthreads(); out[i] = x[v * v + u] + x[(blockDim.y - v) * (n - 55)] + s[(v ^ 1) + u];",
    "sums that wrap": f"""{I} s[t] = x[t]; unsigned k = (unsigned)v * 0x40000000u + (unsigned)u; int q = v * (n << 24) + u; __syncthreads();
        out[i] = s[k & 31] + x[(unsigned)(v * 0x55555555u + u) >> 25]; const float* p = x + (long long)q; p -= (long long)v * (n << 24);
        if ((long long)q == (long long)v * (n << 24) + u) out[i] += *p;""",
    "unsigned sums": f"""{I} s[t] = x[t]; unsigned q = (unsigned)(v - 2) * 16u + u, m = (3u - v) * 40u + u; size_t r = (unsigned)(v * 16 - 5 + u); __syncthreads();
        out[i] = s[t ^ 1] + (v >= 2 ? x[q] : 0) + x[(long long)(m & 127u)] + (r < 200 ? x[r] : 1);""",
    "a pointer that moves": f"{I} s[t] = 1; __syncthreads(); const float* p = x + v * 3; float f = 0;\n#pragma unroll 1\nfor (int k = 0; k < n - 55; k++) {{ f += p[u]; p += v + n % 2; }} out[i] = f + (p - x) + s[t];",
    "either, for all rows": f"{I} s[t] = t; __syncthreads(); int k = n > 5 ? v * 7 : u, m = n > 500 ? v : k; if (n & 1) k += v; else k = 4 * u; out[i] = x[k] + x[m + u] + s[(v > 2 ? v : 2) * 3];",
    "bytes": f"{I} s[t] = 0; const unsigned char* b = (const unsigned char*)j; __syncthreads(); unsigned r = 0; for (int k = 0; k < 5; k++) r = r * 3 + b[v * 7 + u + k] + b[v * (n - 50) + k]; out[i] = r % 1000 + s[t];",
    "rows leave": f"{I} s[t] = t; if (v == 1) return; if (u == 1 && v > 1) return; __syncthreads(); out[i] = x[v * 9 + u]; if (i > 40) return; __syncthreads(); out[i] += s[t]; if (v & 1) return; __syncthreads(); out[i] += s[t ^ 1];",
    "rows with guards": f"""{I} float f = 0;
        #pragma unroll 1
        for (int r = 0; r < 6; r++) {{ float g = 3; if (v < 6 - r && u + 4 * r < 14) g = x[v * 7 + u + r]; s[t] = g; __syncthreads(); f = f * 1.5f + s[t ^ 5]; __syncthreads(); }}
        if (i < n - 5) out[i] = f;""",
    "counts of rows": f"{I} int c = __syncthreads_count(x[i] > x[i + 1]); if (u == 1) return; out[i] = c + 100 * __syncthreads_or(v == 3 && n == 61) + 200 * __syncthreads_and(v >= 0) + 400 * __syncthreads_and(v > 0) + 1000 * __syncthreads_count(v & 1);",
}
SHAPES = {
    1: [(8, 4), (32, 1), (5, 3), (4, 4, 2)],
    4: [(4, 8), (8, 4), (32, 1), (8, 2, 2)],
    8: [(8, 4), (16, 2), (8, 1, 4)],
    16: [(16, 2), (32, 1)],
}


_SUMS = f"{I} float f[64], p[8], q[8]; for (int k = 0; k < 64; k++) f[k] = x[k + t];"
_LOADED = "for (int k = 0; k < 8; k++) { p[k] = s[(m * 8 + k) % 32]; q[k] = s[(m * 5 + k * 3 + u) % 32]; }"
_GIVEN = "for (int k = 0; k < 8; k++) { float g = 0; for (int m = 0; m < 8; m++) g = g * 1.5f + f[8 * k + m]; x[0] > 9 ? out[i] = 0 : out[i] += g; }"
#: kernels whose threads keep many sums
PACKED = {
    "products of all": f"{_SUMS}\n#pragma unroll 1\nfor (int r = 0; r < n - 58; r++) {{ s[t] = x[t + r]; __syncthreads();\n#pragma unroll 1\nfor (int m = 0; m < 5; m++) {{ {_LOADED} for (int k = 0; k < 64; k++) f[k] += p[k / 8] * q[k % 8]; }} __syncthreads(); }} {_GIVEN}",
    "unrolled, the other way": f"{_SUMS}\n#pragma unroll 1\nfor (int r = 0; r < n - 58; r++) {{ s[t] = x[t + r]; __syncthreads();\n#pragma unroll\nfor (int m = 0; m < 3; m++) {{ {_LOADED} for (int k = 0; k < 64; k++) f[k] += q[k / 8] * p[k % 8]; }} __syncthreads(); }} {_GIVEN}",
    "sums that are also used alone": f"{_SUMS}\n#pragma unroll 1\nfor (int r = 0; r < n - 58; r++) {{ s[t] = x[t + r] + f[9]; __syncthreads();\n#pragma unroll 1\nfor (int m = 0; m < 5; m++) {{ {_LOADED} for (int k = 0; k < 64; k++) f[k] += p[k / 8] * q[k % 8]; f[3] *= 0.5f; if (q[2] > 0) f[11] = m; }} float g = f[0]; f[0] = f[7]; f[7] = g; __syncthreads(); }} {_GIVEN}",
    "in another order": f"{_SUMS}\n#pragma unroll 1\nfor (int r = 0; r < n - 58; r++) {{ s[t] = x[t + r]; __syncthreads();\n#pragma unroll 1\nfor (int m = 0; m < 5; m++) {{ {_LOADED} for (int k = 0; k < 64; k++) f[k] += p[k / 8] * q[k % 8]; }} __syncthreads();\n#pragma unroll 1\nfor (int m = 0; m < 4; m++) {{ {_LOADED} for (int k = 0; k < 64; k++) f[63 - k] += p[k % 8] * q[k / 8]; }} __syncthreads(); }} {_GIVEN}",
    "of each other": f"{_SUMS}\n#pragma unroll 1\nfor (int r = 0; r < n - 58; r++) {{ s[t] = x[t + r]; __syncthreads();\n#pragma unroll 1\nfor (int m = 0; m < 3; m++) {{ {_LOADED} for (int k = 0; k < 64; k++) f[k] += f[8] * q[k % 8] * 0.01f; for (int k = 0; k < 32; k++) f[k] += p[0] * f[k + 32] * 0.01f; }} __syncthreads(); }} {_GIVEN}",
}
#: those in which copies are on their way while threads wait
COPIES = {
    f"copies, {late} behind": f"""{I} float f = 0; unsigned to = (unsigned)__cvta_generic_to_shared(s + t);
        for (int r = 0; r < n - 55; r++) {{
            asm volatile("cp.async.ca.shared.global [%0], [%1], 4; cp.async.commit_group;" :: "r"(to + r % 2 * 128), "l"(x + t + r) : "memory");
            asm volatile("cp.async.wait_group {late};" ::: "memory"); __syncthreads(); f = f * 1.5f + s[(t ^ 1) + (r + {late}) % 2 * 32]; __syncthreads(); }}
        asm volatile("cp.async.wait_all;" ::: "memory"); out[i] = f;"""
    for late in (0, 1)
}
BODIES |= PACKED | COPIES
ALONE = "votes", "counts of rows", "some have left", "all have left", "rows leave"  # no phases


@cache
def module(width: int, optimised: bool, which: tuple[str, ...]):
    texts = (
        f"{K}k{m}(const float* x, const int* j, float* out, int n) {{ {WORK} {BODIES[name]} }}"
        for m, name in enumerate(which)
    )
    return opened(width, optimised=optimised).compile("\n".join(texts))


def launched(
    width: int, optimised: bool, which: tuple[str, ...], name: str, block: tuple[int, ...], as_one=True
) -> bytes:
    dev, rng, made = (
        opened(width, optimised=optimised),
        np.random.default_rng(1),
        module(width, optimised, which),
    )
    kernel = made.get_function(f"k{which.index(name)}")
    x = dev.array(rng.standard_normal(256).astype(np.float32), name="x")
    j, out = (
        dev.array(rng.integers(0, 256, 256, np.int32), name="j"),
        dev.array(np.zeros(256, np.float32), name="out"),
    )
    if as_one:
        block = (*block, 1)[:3]
        made.for_blocks(kernel.info.name, block)
        found = kernel.for_blocks(block).info
        assert (found.block, found.lanes) == (block, width), name
    kernel(2, block, (x, j, out, np.int32(N)), shared_mem=DYNAMIC)
    return out.get().tobytes()


#: some bodies with each width; every night, each with every width and shape
SOME = [(width, tuple(BODIES)[n::12], SHAPES[width][:1]) for n, width in enumerate((4, 8, 16, 1))]
SOME.append((1, ("products of all", "sums that are also used alone", *COPIES), [(8, 4)]))
ALL = [pytest.param(width, tuple(BODIES), shapes, marks=pytest.mark.soak) for width, shapes in SHAPES.items()]


@BUILDS
@pytest.mark.parametrize(("width", "which", "shapes"), SOME + ALL)
def test_whole_blocks_give_the_bits_of_one_thread_at_a_time(width, which, shapes, optimised):
    for name in which:
        for block in (b for b in shapes if b[:2] == b or name not in WAITING):
            if (
                name in (ALONE if width == 1 else PACKED | COPIES)
                or prod(block) < THREADS
                and name in WAITING
            ):
                continue
            found, alone = (
                launched(width, optimised, which, name, block),
                launched(1, False, which, name, block, False),
            )
            assert found == alone and any(found), (name, block)


@pytest.mark.parametrize(
    ("block", "lanes"),
    [((16, 2, 1), 16), ((8, 4, 1), 8), ((4, 4, 2), 4), ((24, 1, 1), 8), ((6, 4, 1), 0), ((2, 16, 1), 0)],
)
def test_short_rows_are_fewer_lanes(block, lanes):
    made = module(16, False, ("x, y and z",))
    made.of_blocks.clear()
    launched(16, False, ("x, y and z",), "x, y and z", block, False)
    kernel = made.get_function("k0")
    made.for_blocks(kernel.info.name, block)
    info = kernel.for_blocks(block).info
    assert (info.block, info.lanes) == ((block, lanes) if lanes else ((), 1))
    bits = [launched(width, False, ("x, y and z",), "x, y and z", block, False) for width in (16, 1)]
    assert bits[0] == bits[1]


@cache
def fault(name: str, width: int, as_one: bool = True) -> tuple:
    body = WRONG[name].replace("FAULT", "0")
    source = f"{K}k(const float* x, const int* j, float* out, int n) {{ {WORK}\n{body}\n}}"
    dev = opened(width)
    kernel = (made := dev.compile(source)).get_function("k")
    x, j = (dev.array(np.arange(256).astype(t), name=n) for t, n in ((np.float32, "x"), (np.int32, "j")))
    out = dev.array(np.zeros(256, np.float32), name="out", axes="i")
    if as_one:
        made.for_blocks("k", (8, 4, 1))
        assert kernel.for_blocks((8, 4, 1)).info.block
    with pytest.raises(KernelFault) as caught:
        kernel(2, (8, 4), (x, j, out, np.int32(N)), shared_mem=DYNAMIC)
    assert caught.value.line == line_of(source, "0")
    return caught.value.kind, caught.value.thread, caught.value.block, caught.value.array, caught.value.index


@pytest.mark.sampled
@pytest.mark.parametrize("width", [4, 1])
@pytest.mark.parametrize("name", WRONG)
def test_a_fault_in_a_whole_block_names_the_same(name, width):
    assert fault(name, width) == fault(name, 1, False)


def test_blocks_that_cannot_run_as_one_and_those_of_another_shape_run_as_before():
    dev = opened(4)
    source = f"{K}k(int* out, int n) {{ if (threadIdx.y < n) __syncthreads(); atomicAdd(out, 1); }}"
    source += f"{K}m(int* out, int n) {{ __shared__ int s[64]; int t = threadIdx.y * blockDim.x + threadIdx.x; s[t] = t; __syncthreads(); out[t] = s[t ^ 1]; }}"
    made, out = dev.compile(source), dev.array(np.zeros(64, np.int32), name="out")
    made.for_blocks("k", (8, 4, 1))
    made.for_blocks("m", (6, 4, 1))
    made.for_blocks("m", (8, 32, 1))
    assert not any(made.of_blocks.values())
    made.get_function("k")(1, (8, 4), (out, np.int32(9)))
    assert out.get()[0] == 32
    fixed = made.get_function("m").fixed((out, np.int32(3)), (8, 4))
    for block in ((8, 4), (8, 8), (3, 2)):
        fixed(1, block, (out, np.int32(3)))
        threads = block[0] * block[1]
        assert (out.get()[:threads] == np.arange(threads) ^ 1).all()


def test_a_kernel_is_compiled_for_the_blocks_that_its_launches_have_long_had(built_beside):
    dev = opened(4)
    source = (
        "__constant__ int add; "
        + K
        + "k(float* out) { __shared__ float s[32]; int t = threadIdx.y * 8 + threadIdx.x; float f = 0; "
    )
    source += "s[t] = t;\n#pragma unroll 1\nfor (int k = 0; k < 3; k++) { __syncthreads(); f += s[t ^ 1]; } out[t] = f + add; }"
    made, out = dev.compile(source), dev.array(np.zeros(32, np.float32), name="out")
    kernel = made.get_function("k")
    made.set_constant("add", np.int32(7))
    kernel(1, (8, 4), (out,))
    before = out.get()
    assert not made.of_blocks
    made.spent["k", (8, 4, 1)] = 9.0
    while not made.of_blocks:
        kernel(1, (8, 4), (out,))
    assert kernel.for_blocks((8, 4, 1)).info.block and not kernel.for_blocks((4, 8, 1)).info.block
    assert (out.get() == before).all() and before[0] == 10


def test_threads_that_race_to_different_barriers():
    dev = opened(1)
    source = (
        K
        + """k(int* out, int n) { __shared__ int s; int t = threadIdx.x; float f = 0; s = 0; __syncthreads();
        if (s < n) {
            f = s; s = 9;
            __syncthreads();  // here
        } else __syncthreads();
        out[t] = f; }"""
    )
    made, out = dev.compile(source), dev.array(np.zeros(32, np.int32), name="out")
    made.for_blocks("k", (32, 1, 1))
    kernel = made.get_function("k")
    assert kernel.for_blocks((32, 1, 1)).info.block
    with pytest.raises(KernelFault) as caught:
        kernel(1, 32, (out, np.int32(5)))
    assert (caught.value.kind, caught.value.line) == ("barrier-divergence", line_of(source, "here"))


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("wrong", [None, 1, 96])
def test_a_launch_goes_on_with_code_that_comes_while_it_runs(wrong, cores):
    source = (
        K
        + """k(float* out, int n, int wrong) {
        __shared__ float s[32];
        int t = threadIdx.y * 8 + threadIdx.x;
        float sum = 0;
        s[t] = 1;
        for (int k = 0; k < n; k++) {
            __syncthreads();
            sum += s[t ^ k];
        }
        out[blockIdx.x * 32 + t + (blockIdx.x == wrong) * 9999] += sum;  // here
    }"""
    )
    dev = VirtualGPU("memory", cores=cores)
    dev.lanes = 4
    made, out = dev.compile(source), dev.array(np.zeros(100 * 32, np.float32), name="out")
    # what is expected of it is known once a part has run
    made.look_for_better = lambda kernel, block, seconds=0.0: seconds and made.for_blocks(kernel, block)
    ran, run = [], dev.workers.run
    dev.workers.run = lambda plan, launch: ran.append((plan, launch.next_block)) or run(plan, launch)
    kernel, args = made.get_function("k"), (out, np.int32(5), np.int32(999 if wrong is None else wrong))
    if wrong is None:
        kernel(100, (8, 4), args)
        assert (out.get() == 5).all()
    else:
        with pytest.raises(KernelFault) as caught:
            kernel(100, (8, 4), args)
        assert (caught.value.line, caught.value.block) == (line_of(source, "here"), (wrong, 0, 0))
    first, rest = ran
    assert first[1] == 0 and 6 <= rest[1] < 20
    assert (first[0] is rest[0]) == (wrong == 1) and made.of_blocks["k", (8, 4, 1)]


@pytest.mark.parametrize("rows", [2, 3, 4, 5])
def test_rows_of_which_every_second_is_not_aligned(rows):
    dev = opened(4)
    source = (
        K
        + """k(const float* x, float* out, int n) {
        __shared__ float s[32];
        float f = 0;
        s[threadIdx.x] = n;
        #pragma unroll 1
        for (int r = 0; r < n; r++) {
            __syncthreads();
            f += s[threadIdx.x ^ 1] + *(const float*)((const char*)x + (threadIdx.y * n + threadIdx.x * 4));  // here
        }
        out[threadIdx.y * 4 + threadIdx.x] = f;
    }"""
    )
    made, x, out = (
        dev.compile(source),
        dev.array(np.ones(64, np.float32), name="x"),
        dev.empty(20, name="out"),
    )
    made.for_blocks("k", (4, rows, 1))
    kernel = made.get_function("k")
    assert kernel.for_blocks((4, rows, 1)).info.block
    kernel(1, (4, rows), (x, out, np.int32(4)))
    assert (out.get()[: 4 * rows] == 20).all()
    with pytest.raises(KernelFault) as caught:
        kernel(1, (4, rows), (x, out, np.int32(2)))
    assert (caught.value.kind, caught.value.line, caught.value.thread) == (
        "misaligned",
        line_of(source, "here"),
        (0, 1, 0),
    )


@pytest.mark.parametrize("schedule", [0, 5, 6])
def test_neighbours_run_side_by_side_in_any_order_of_warps(schedule):
    source = (
        K
        + """k(const float* x, float* out, int n) {
        __shared__ __align__(16) float p[8][40], q[8][40];
        int u = threadIdx.x, v = threadIdx.y, t = v * 8 + u;
        float sum[8][8] = {};
        #pragma unroll 1
        for (int r = 0; r < n; r++) {
            for (int m = t; m < 320; m += 64) p[m / 40][m % 40] = x[m + r], q[m / 40][m % 40] = x[m * 2 + r] * v;
            __syncthreads();
            for (int k = 0; k < 8; k++)
                for (int i = 0; i < 8; i++) for (int j = 0; j < 8; j++) sum[i][j] += p[k][v * 4 + i] * q[k][u * 4 + j];
            __syncthreads();
            out[(64 + r) * 64 + t] = u + (r & 1 ? sum[1][1] : sum[0][1]);
        }
        for (int i = 0; i < 64; i++) out[i * 64 + t] = sum[i / 8][i % 8];
    }"""
    )
    found = []
    for as_one in (True, False):
        dev = opened(1)
        before, dev.schedule = dev.schedule, schedule
        made, x = (
            dev.compile(source),
            dev.array(np.random.default_rng(2).standard_normal(700).astype(np.float32)),
        )
        out = dev.array(np.zeros(64 * 128, np.float32), name="out")
        if as_one:
            made.for_blocks("k", (8, 8, 1))
            assert made.of_blocks["k", (8, 8, 1)]
        made.get_function("k")(1, (8, 8), (x, out, np.int32(3)))
        found.append(out.get().tobytes())
        dev.schedule = before
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("t * 4 + (t == 9)", "misaligned"),
        ("t * 8", "out-of-bounds"),
        ("t * 4 - 4 * (u == 0)", "out-of-bounds"),
    ],
)
def test_accesses_at_places_that_are_known_before(place, kind):
    source = (
        K
        + """k(float* out) {
        __shared__ float s[32];
        int u = threadIdx.x, t = threadIdx.y * 8 + u;
        s[t] = t;
        __syncthreads();
        out[t] = *(float*)((char*)s + (PLACE));  // here
    }"""
    )
    dev = opened(1)
    out = dev.array(np.zeros(32, np.float32), name="out")
    for wrong in (False, True):
        text = source.replace("PLACE", place if wrong else "124 - t * 4")
        made = dev.compile(text)
        made.for_blocks("k", (8, 4, 1))
        kernel = made.get_function("k")
        assert kernel.for_blocks((8, 4, 1)).info.block
        if not wrong:
            kernel(1, (8, 4), (out,))
            assert (out.get() == np.arange(31, -1, -1)).all()
            continue
        with pytest.raises(KernelFault) as caught:
            kernel(1, (8, 4), (out,))
        assert (caught.value.kind, caught.value.line) == (kind, line_of(text, "here"))


@pytest.mark.parametrize(("wrong", "kind"), [("+ 1000", "out-of-bounds"), ("", None)])
@pytest.mark.parametrize("guard", ["v < n", "v < 3", "u < 5 && v > 0"])
def test_guarded_rows_of_which_some_are_out_of_bounds(guard, wrong, kind):
    source = (
        K
        + f"""k(const float* x, float* out, int n) {{
        __shared__ float s[32];
        int u = threadIdx.x, v = threadIdx.y, t = v * 8 + u;
        float f = 0;
        #pragma unroll 1
        for (int r = 0; r < n; r++) {{
            float g = 2;
            if (n > 9 || {guard} && r < n) g = x[v * n + u + r * (1 {wrong})];  // here
            s[t] = g;
            __syncthreads();
            f = f * 1.5f + s[t ^ 3];
            __syncthreads();
        }}
        out[t] = f;
    }}"""
    )
    found = []
    for width in (8, 1):
        dev = opened(width)
        made, x = dev.compile(source), dev.array(np.arange(64, dtype=np.float32), name="x")
        out = dev.array(np.zeros(32, np.float32), name="out")
        if width > 1:
            made.for_blocks("k", (8, 4, 1))
            assert made.get_function("k").for_blocks((8, 4, 1)).info.block
        if kind is None:
            made.get_function("k")(1, (8, 4), (x, out, np.int32(4)))
            found.append(out.get().tobytes())
            continue
        with pytest.raises(KernelFault) as caught:
            made.get_function("k")(1, (8, 4), (x, out, np.int32(4)))
        assert (caught.value.kind, caught.value.line) == (kind, line_of(source, "here"))
        found.append(caught.value.thread)
    assert found[0] == found[1]
