"""Lanes that wait at barriers: the same bits as one thread at a time, shared memory of every kind, the same
faults."""

from __future__ import annotations

import re
from functools import cache

import llvmlite.binding as llvm
import numpy as np
import pytest

from backwarp.devices.nvrtc.compiler import compile_ptx
from backwarp.devices.virtual.compile.llvm import _initialise, _split
from backwarp.devices.virtual.compile.pipeline import lower
from backwarp.devices.virtual.compile.recipes import recipe
from backwarp.errors import KernelFault
from tests.devices.virtual.emit.lanes.bodies import BUILDS, opened
from tests.devices.virtual.launches import K, line_of

N, DYNAMIC = 61, 512
FEW = 8  # kernels of a file, so that it is compiled in time
I = "int t = threadIdx.y * blockDim.x + threadIdx.x, T = blockDim.x * blockDim.y, i = blockIdx.x * T + t;"
#: bodies of `(const float* x, const int* j, float* out, int n)`: 256 elements each, those of j in 0..255; two blocks of 32
BODIES = {
    "a neighbour's": f"{I} __shared__ float s[33]; s[t] = x[i]; __syncthreads(); out[i] = s[(t + 1) % T] - s[t ^ 1] + s[T - 1 - t];",
    "a sum by halves": f"""{I} __shared__ float s[32]; s[t] = x[i]; __syncthreads();
        for (int d = T / 2; d > 0; d /= 2) {{ if (t < d) s[t] += s[t + d]; __syncthreads(); }}
        if (t == 0) out[blockIdx.x] = s[0];""",
    "a tile": f"""{I} __shared__ float a[8][9], b[8][9]; int row = t / 8, column = t % 8; float sum = 0;
        #pragma unroll 1
        for (int k = 0; k < n; k += 8) {{
            a[row][column] = k + column < n ? x[i + k] : 0; b[row][column] = b[row + 4][column] = k & 8 ? x[k + column] : i;
            __syncthreads();
            for (int m = 0; m < 8; m++) sum += a[row][m] * b[m][column];
            __syncthreads();
        }}
        out[i] = sum;""",
    "rows of the block": f"""{I} __shared__ float a[16][33]; float sum = x[i];
        #pragma unroll 1
        for (int k = 0; k < 3; k++) {{
            a[threadIdx.y][threadIdx.x] = sum; __syncthreads();
            for (int m = 0; m < blockDim.x; m++) sum += a[threadIdx.y][m] * (k + a[m % blockDim.y][threadIdx.x]);
            __syncthreads();
        }}
        out[i] = sum;""",
    "some have left": f"""{I} if (i >= n) return; __shared__ float s[32]; s[t] = x[i]; __syncthreads();
        out[i] = s[t / 2]; __syncthreads(); if (x[i] < 0) return; s[t] = i; __syncthreads(); out[i] += s[t];""",
    "all have left": f"{I} if (i >= 32 + n % 2) return; __shared__ float s[32]; s[t] = x[i]; __syncthreads(); out[i] = s[0] + s[t];",
    "twice in a row": f"{I} __shared__ int s[32]; s[t] = i; __syncthreads(); __syncthreads(); int k = s[T - 1 - t] > 40; __syncthreads(); __syncthreads(); s[t] += k; out[i] = s[t];",
    "elements of 1, 2, 8 and 16 bytes": f"""{I} __shared__ unsigned char b[96]; __shared__ short h[32]; __shared__ double d[33]; __shared__ float4 f[32];
        b[t] = j[i]; b[3 * t % 32 + 32] = t; h[t] = -j[i]; d[t] = x[i] / 3.0; f[t] = make_float4(t, x[i], i, 4); __syncthreads();
        float4 v = f[T - 1 - t]; out[i] = b[t + 32] + b[j[i] % 64] * h[(t + 5) % T] + d[t ^ 3] * v.y + v.z - v.x + f[t].w; """,
    "dynamic": f"""{I} extern __shared__ float s[]; int* k = (int*)s + T; double* d = (double*)(s + 2 * T); s[t] = x[i]; k[t] = j[i]; d[t] = x[i + 1];
        __syncthreads(); out[i] = s[k[t] % T] + k[T - 1 - t] + d[t / 3];""",
    "before the first": f"{I} __shared__ float s[40]; s[t + 4] = x[i]; if (t < 4) s[t] = 0; __syncthreads(); out[i] = s[t] + s[t + 3] + s[(unsigned)(t - 1) % 33u];",
    "gathers and scatters": f"""{I} __shared__ float s[64]; s[7 * t % 32 + 32] = x[i]; s[t] = x[i + 1]; __syncthreads();
        float sum = 0; for (int k = 0; k < 5; k++) sum = sum * 2 + s[(j[i] + k) % 64]; __syncthreads(); if (j[i] & 1) s[t] = sum; __syncthreads(); out[i] = s[t] + s[j[i] % 32];""",
    "lengths": f"""{I} __shared__ float s[32]; float sum = 0;
        for (int r = 0; r < 3; r++) {{
            s[t] = i + r; __syncthreads();
            for (int k = 0; k < j[i] % 7; k++) {{ if (k == t) continue; sum += s[(t + k) % T]; if (sum > 300) break; }}
            __syncthreads();
        }}
        out[i] = sum;""",
    "until all agree": f"""{I} __shared__ int s[1]; int k = j[i] % 16, rounds = 0; if (t == 0) s[0] = 0; __syncthreads();
        while (s[0] < 20) {{ __syncthreads(); if (t == 0) s[0] += 3; rounds += k; __syncthreads(); }}
        out[i] = rounds;""",
    "votes": f"""{I} if (i >= n) return; int k = j[i] % 8;
        out[i] = __syncthreads_count(k > 3) + 100 * __syncthreads_or(k == t) + 200 * __syncthreads_and(k < 8) + 400 * __syncthreads_and(k < 7);
        out[i] += 1000 * __syncthreads_count(n > 3) + 7 * __syncthreads_or(n < 3) + 9 * __syncthreads_and(n) + __syncthreads_count(1);""",
    "some rows wait more": f"""{I} __shared__ float s[32]; s[t] = x[i]; __syncthreads(); float sum = s[T - 1 - t];
        #pragma unroll 1
        for (int k = 0; k < 1 + blockIdx.x; k++) {{ __syncthreads(); s[t] = sum + k; __syncthreads(); sum += s[t ^ 1]; }}
        out[i] = sum;""",
    "through a pointer": f"{I} __shared__ float s[64]; float* p = s + n % 2 * 8; p[t] = x[i]; __syncthreads(); const float* q = p + t; out[i] = *q + q[-(t > 3)];",
    "one of all": f"""{I} __shared__ float s[32]; __shared__ int d[1]; s[t] = 1; if (t == T - 3) d[0] = j[i]; __syncthreads();
        if (t == 22) s[5] = x[i]; if (threadIdx.y != 1) out[i] = n / (int)(threadIdx.y - 1) + d[0];
        __syncthreads(); out[i] += s[t] + s[5];""",
    "rows out of bounds": f"""{I} __shared__ float s[32]; int y = threadIdx.y; s[t] = x[i]; __syncthreads(); float sum = 0;
        if (y != 1) sum = x[((y == 1) << 28) + y] + s[(y == 1) * (1 << 27) + y]; if (y == 2) s[y * 4] = sum; if (y * t == 2) s[y] = x[t];
        if (y != 1 && t & 1) {{ long long far = (long long)(j[i] / 300) + ((long long)(y == 1) << 45); sum += x[far]; x[far] == 77 ? s[0] = 1 : 0; }}
        __syncthreads(); out[i] = sum + s[t];""",
    "nobody waits": f"{I} __shared__ float s[32][3]; for (int k = 0; k < 3; k++) s[t][k] = x[i + k]; float sum = 0; for (int k = 0; k < n; k++) sum += s[t][k % 3]; out[i] = sum;",
}
#: as BODIES, but one by one
ALONE = {
    "a barrier in one way": f"{I} __shared__ float s[32]; s[t] = x[i]; if (t < 16) {{ __syncthreads(); out[i] = s[t]; }} else {{ __syncthreads(); out[i] = s[t - 16]; }}",
    "atomics": f"{I} __shared__ int s[4]; if (t < 4) s[t] = 0; __syncthreads(); atomicAdd(&s[j[i] % 4], i); __syncthreads(); out[i] = s[t % 4];",
    "text": f'{I} __shared__ int s[32]; s[t] = i; __syncthreads(); if (s[t ^ 1] == 9) printf("%d\\n", i); out[i] = s[t];',
    "either array": f"{I} __shared__ float a[32], b[32]; a[t] = x[i]; b[t] = i; __syncthreads(); float* p = j[i] & 1 ? a : b; out[i] = p[T - 1 - t];",
}
#: with this before them, rows run side by side
WORK = "{ float f = 0;\n#pragma unroll 1\nfor (int k = 0; k < n; k++) f = f * 0.5f + x[k] * threadIdx.y; if (f == 0.12345f) out[0] = f; }"
#: of BODIES: those that part too much for that, or do not wait
NO_ROWS = ("lengths", "votes", "nobody waits")
ROWS = {name: WORK + body for name, body in BODIES.items() if name not in NO_ROWS}


WHOLE = 0, 1  # part: the first body, and the distance to the next


@cache
def modules(checks: str, width: int, rows: int, part: tuple[int, int], optimised: bool) -> dict[str, object]:
    """The kernel of each body. part: the first of them, and the distance to the next."""
    every = ROWS if rows > 1 else BODIES | ALONE
    bodies = list(every.items())[slice(part[0], None, part[1])]
    found = {}
    for first in range(0, len(bodies), FEW):
        some = bodies[first : first + FEW]
        module = opened(width, checks, optimised).compile(
            "\n".join(
                f"{K}k{m}(const float* x, const int* j, float* out, int n) {{ {body} }}"
                for m, (_, body) in enumerate(some)
            )
        )
        found |= {name: module.get_function(f"k{m}") for m, (name, _) in enumerate(some)}
    return found


@cache
def bits(
    checks: str,
    width: int,
    block=(32, 1),
    schedule: int = 0,
    rows: int = 1,
    part: tuple[int, int] = WHOLE,
    optimised: bool = False,
) -> dict[str, bytes]:
    """What each body leaves in `out`."""
    dev, rng, found = opened(width, checks, optimised), np.random.default_rng(1), {}
    dev.schedule = schedule
    x = dev.array(rng.standard_normal(256).astype(np.float32), name="x")
    j = dev.array(rng.integers(0, 256, 256, np.int32), name="j")
    for name, kernel in modules(checks, width, rows, part, optimised).items():
        out = dev.array(np.zeros(256, np.float32), name="out")
        assert kernel.info.lanes == (1 if name in ALONE else width), name
        assert rows == 1 or width == 1 or kernel.info.rows == rows, name
        kernel(64 // (block[0] * block[1]), block, (x, j, out, np.int32(N)), shared_mem=DYNAMIC)
        found[name] = out.get().tobytes()
    return found


def compare(checks: str, width: int, block: tuple[int, int], part: tuple[int, int], **how) -> None:
    alone = bits("memory", 1, block, rows=how.get("rows", 1), part=part)
    for name, found in bits(checks, width, block, part=part, **how).items():
        assert found == alone[name] and any(found), name


#: every second body once, and each width with some of them; every night, each with every width
WIDTHS = [("memory", 4, (0, 8)), ("memory", 8, (2, 8)), ("memory", 16, (4, 8)), ("none", 16, (6, 8))]
ALL = [pytest.param(checks, width, WHOLE, marks=pytest.mark.soak) for checks, width, _ in WIDTHS]


@BUILDS
@pytest.mark.parametrize(("checks", "width", "part"), WIDTHS + ALL)
def test_lanes_give_the_bits_of_one_thread_at_a_time(checks, width, part, optimised):
    for block in ((32, 1), (16, 2)):
        compare(checks, width, block, part, optimised=optimised)


@BUILDS
@pytest.mark.parametrize(
    ("checks", "width", "part"),
    [
        ("memory", 4, (0, 4)),
        ("none", 8, (2, 4)),
        pytest.param("memory", 4, WHOLE, marks=pytest.mark.soak),
        pytest.param("none", 8, WHOLE, marks=pytest.mark.soak),
    ],
)
def test_rows_side_by_side_give_them_too(checks, width, part, optimised):
    for block in ((8, 4), (4, 8))[: 8 // width]:
        compare(checks, width, block, part, schedule=1, rows=4, optimised=optimised)


@pytest.mark.soak
@BUILDS
def test_groups_that_are_not_whole_run_one_by_one_and_schedules_change_their_order(optimised):
    compare("memory", 8, (32, 1), (1, 4), schedule=3, optimised=optimised)
    for block in ((2, 16), (8, 2)):
        compare("memory", 16, block, (2, 4), optimised=optimised)
    for block in ((16, 2), (2, 16), (32, 1)):  # too few rows, or rows too short
        compare("memory", 4, block, (0, 2), rows=4, optimised=optimised)


#: as BODIES, but something is wrong in the line
WRONG = {
    "behind a shared array": f"{I} __shared__ float s[32], r[32]; r[t] = 0; __syncthreads();\ns[t + 20 * (t == 13)] = x[i];  // FAULT\n__syncthreads(); out[i] = s[t] + r[0];",
    "before it": f"{I} __shared__ float s[32]; s[t] = x[i]; __syncthreads();\nout[i] = s[t - 1];  // FAULT",
    "behind dynamic memory": f"{I} extern __shared__ float s[]; s[t] = x[i]; __syncthreads();\nout[i] = s[4 * t + 5];  // FAULT",
    "crooked": f"{I} __shared__ float s[64]; s[t] = x[i]; __syncthreads();\nout[i] = *(float*)((char*)s + 3 * t);  // FAULT",
    "an array, after a barrier": f"{I} __shared__ float s[32]; s[t] = x[i]; __syncthreads();\nout[i * 5] = s[T - 1 - t];  // FAULT",
    "in one way": f"{I} __shared__ float s[32]; s[t] = x[i]; __syncthreads();\nif (j[i] % 2) out[i] = s[j[i] + 7];  // FAULT",
    "for ever": f"{I} __shared__ float s[32]; s[t] = 1;\nfor (int k = 0; k >= 0; k = (k + 1) % 9) {{ __syncthreads(); s[t] += k; }}  // FAULT\nout[i] = s[t];",
}


@cache
def wrong(width: int, rows: int, optimised: bool) -> tuple[str, object]:
    """All of WRONG in a file, and its module."""
    source = "\n".join(
        f"{K}k{n}(const float* x, const int* j, float* out, int n) {{ {WORK * (rows > 1)}\n{body.replace('FAULT', str(n))}\n}}"
        for n, body in enumerate(WRONG.values())
    )
    return source, opened(width, optimised=optimised).compile(source)


@cache
def fault(name: str, width: int, rows: int = 1, optimised: bool = False) -> tuple:
    """What is told first of a wrong kernel, and in which thread."""
    dev, number = opened(width, optimised=optimised), list(WRONG).index(name)
    source, module = wrong(width, rows, optimised)
    x, j = (dev.array(np.arange(256).astype(t), name=n) for t, n in ((np.float32, "x"), (np.int32, "j")))
    kernel = module.get_function(f"k{number}")
    out = dev.array(np.zeros(256, np.float32), name="out", axes="i")
    assert kernel.info.lanes == width and (1 in (width, rows) or kernel.info.rows == rows)
    dev.schedule = 0
    with pytest.raises(KernelFault) as caught:
        kernel(2, (8, 4) if rows > 1 else 32, (x, j, out, np.int32(N)), shared_mem=DYNAMIC)
    told = caught.value
    assert told.line == line_of(source, str(number))
    return told.kind, told.thread, told.block, told.array, told.index


@pytest.mark.sampled(2)
@BUILDS
@pytest.mark.parametrize("name", WRONG)
def test_a_fault_names_the_thread_the_line_and_the_element(name, optimised):
    assert fault(name, 8, optimised=optimised) == fault(name, 1)


@pytest.mark.sampled
@BUILDS
@pytest.mark.parametrize("name", WRONG)
def test_a_fault_in_one_of_several_rows(name, optimised):
    assert fault(name, 4, rows=4, optimised=optimised) == fault(name, 1, rows=4)


@pytest.mark.parametrize("checks", ["full", "memory"])
def test_a_sum_is_kept_at_the_barrier_not_in_each_round_of_its_loop(checks):
    source = f"""{K}k(const float* x, float* out, int n) {{
        __shared__ float s[64]; int t = threadIdx.x; float sum = 0;
        for (int r = 0; r < n; r++) {{
            s[t] = x[t + r]; __syncthreads();
            for (int m = 0; m < n; m++) sum += s[(t + m) % 64];
            __syncthreads();
        }}
        out[t] = sum;
    }}"""
    made = recipe(checks, lanes=8, target="avx2")
    text = lower(compile_ptx(source, "k.cu", made.ptx).text, "k.cu", made, 1 << 34).text
    _initialise()
    module = llvm.parse_assembly(text)
    _split(module, False)
    (resumed,) = (str(f) for f in module.functions if f.name.endswith("together.resume"))
    kept = re.findall(r"store <8 x float> (%\S+), ptr %\S+spill", resumed)
    assert kept and all(f"{name} = call <8 x float> @llvm.arithmetic.fence" in resumed for name in kept)
