"""Threads as vector lanes: the same bits as one thread at a time, and the same faults."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

from backwarp.devices.nvrtc.compiler import compile_ptx
from backwarp.devices.virtual.compile.pipeline import lower
from backwarp.devices.virtual.compile.recipes import recipe
from backwarp.devices.virtual.compile.targets import target
from backwarp.errors import KernelFault
from tests.devices.virtual.emit.lanes.bodies import BUILDS, opened
from tests.devices.virtual.launches import K, line_of

N, BLOCK = 61, 32  # of 64 threads, the last three leave
I = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
#: bodies of `(const float* x, const int* j, float* out, int n)`: 256 elements each, those of j in 0..255
BODIES = {
    "a guard": f"{I} if (i >= n) return; float sum = 0; for (int k = 0; k < n; k++) sum += x[k] * (i + k); out[i] = sum;",
    "all": f"{I} out[i] = x[i] * 2 + 1;",
    "a fixed distance": f"{I} if (i < n) out[i] = x[3 * i + 1] + x[255 - i] + x[2 * i];",
    "a distance known at run time": f"{I} if (i < n) out[i] = x[(n - 58) * i];",
    "rows": f"{I} float sum = 0; for (int k = 0; k < n / 20; k++) sum += x[i * (n / 20) + k] * x[k]; out[i] = sum;",
    "fours": f"{I} float s = 0; for (int k = 0; k < n / 15; k++) s += x[i / 3 * 4 + k]; out[i] = s;",
    "pieces": f"{I} out[i] = x[i / 5 * 16 + i % 5] + x[i / 5] * x[i % 5];",
    "gathers": f"{I} if (i < n) out[i] = x[j[i]] + x[j[i + 4]] * j[i];",
    "scatters": f"{I} if (i < n) out[i * 7 % 64] = x[i];",
    "one place": f"{I} out[n] = x[n]; out[n + 1] = i < 500 ? x[3] : 0;",
    "vectors of four": f"{I} float4 v = ((const float4*)x)[i]; ((float4*)out)[i] = make_float4(v.w, v.z, v.y + v.x, i);",
    "vectors of two": f"{I} float2 v = ((const float2*)x)[i]; if (i < n) ((float2*)out)[i] = make_float2(v.y, v.x + i);",
    "both ways": f"{I} float a; if (x[i] > 0) a = sqrtf(x[i]); else a = x[i] * x[(i + 3) % n] - 2; out[i] = a + i;",
    "ways within ways": f"""{I} float a = i;
        if (j[i] & 1) {{ a += x[j[i]]; if (j[i] & 2) a *= 3; else {{ out[128 + i] = a; if (j[i] & 4) return; }} }}
        else if (i % 3 == 0) a = x[0];
        out[i] = a;""",
    "lengths": f"{I} unsigned k = 1; for (int s = 0; s < j[i] % 9; s++) {{ k = 3 * k + (s ^ i); if (k % 11 == 5) break; }} out[i] = k;",
    "lengths within": f"""{I} float sum = 0;
        for (int r = 0; r < n; r++) {{
            for (int s = 0; s < (i + r) % 4; s++) {{ if ((s ^ r) & 1) continue; sum += x[r + s]; }}
            if (sum > 20) sum -= 19;
        }}
        out[i] = sum;""",
    "a loop that some leave": f"{I} for (int k = 0; k < 100; k++) {{ out[i] += x[k]; if (out[i] > 3 || k == i) return; }} out[i] = -1;",
    "a loop that ends the kernel": f"""{I} if (i >= n || n < 9) return;
        for (int k = 0; k < n; k++) {{ float a = 0; if (j[i + k] & 1) a = x[k]; out[4 * i + (k & 3)] = a; }}""",
    "one way around another": f"""{I} float s = 0;
        for (int k = 0; k < n; k++) {{
            if (j[k] & 1) {{ if (j[i] % 3 == k % 3) continue; s += x[k + i]; if (s > 9) continue; s *= 2; }}
            else {{ if (j[i] % 5 == k % 5) continue; s -= x[k]; if (s < 3) continue; s += 1.5f; }}
        }}
        out[i] = s;""",
    "a condition of the block": f"{I} if (n > 60 || x[i] > 0) {{ out[i] = x[i]; if (n < 3) out[i] = 2; }} else out[i] = 7;",
    "quotients": f"""{I} int d = j[i] - 128, e = j[i + 1] - 100; unsigned u = d, v = e;
        out[i] = d / 7 + d % 7 + (e ? d / e + d % e : 0); out[64 + i] = u / 7 + u % 1000; out[128 + i] = v ? u / v : u % 3;""",
    "borders": f"""{I} const int low = 1 << 31; int a = i == 5 ? low : -j[i], b = i == 5 ? -1 : i - 7;
        out[i] = b ? a / b : 1; out[64 + i] = b ? a % b : 2; out[128 + i] = (unsigned)a / (unsigned)(b | 1);""",
    "below zero": f"{I} unsigned k = i - 1; if (k < n) out[i] = x[k]; unsigned m = (unsigned)i * 3000000000u; if (m < 256) out[64] = x[m];",
    "64 bits": f"""{I} size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x; long long far = (long long)(i - 40) * j[i];
        out[at] = x[at * 2] + x[at * (n / 30)]; out[64 + at] = far * far + (far >> 3) + (far < 0); out[128 + at] = (unsigned)i * 3u;""",
    "sums that wrap before they are widened": f"""{I} unsigned u = 4294967290u + i; out[i] = (u > 63 ? x - 4294967290ull : x)[u];
        int k = (int)(2147483642u + i); out[64 + i] = (k > 0 ? x - 2147483642ll : x + 2147483648ll)[k];""",
    "a way to 64 bits": f"{I} size_t k = (unsigned)(i - 3); if (i >= 3) for (int r = 0; r < 3; r++) {{ out[3 * k + r] += x[k]; k += r & 1; }}",
    "bytes": f"""{I} const unsigned char* b = (const unsigned char*)j; const short* h = (const short*)x;
        out[i] = b[i] + b[4 * i + 1] * h[i]; ((unsigned char*)out)[512 + i] = b[i]; ((short*)out)[300 + i] = h[2 * i];""",
    "doubles": f"{I} double s = x[i]; for (int k = 0; k < n; k++) s = s * 0.5 + x[k]; ((double*)out)[i] = s + ((const double*)x)[i % 9];",
    "functions": f"{I} out[i] = expf(x[i]) + __sinf(x[i] * 9) + fmodf(x[i], 0.3f) + rsqrtf(i + 1.f) + logf(i); out[64 + i] = __popc(j[i]) + __clz(j[i]);",
    "four windows": f"""{I} float s = 0, u = 0; int m = 0, at = i / 5 * 19 + i % 5, mixed = (i ^ 5) % 16 / 4 * 60 + i % 4;
        for (int k = 0; k < n / 15; k++) {{ s += x[at + k] * x[252 - at + k]; m += j[mixed + k] ^ k; u += x[i % 16 / 3 * 40 + i % 3 + k]; }}
        for (int t = 0; t < n / 6; t++) {{
            int turned = i / 5 * (9 + t / 2 % 4 * 3) + i % 5;
            for (int k = 0; k < n / 15; k++) s += x[turned + k] * (t + 1);
        }}
        out[i] = s; out[64 + i] = m; out[128 + i] = u;""",
    "not a number": f"""{I} float a = __int_as_float(j[i] % 5 == 0 ? 0x7fc01234 + i : j[i] % 7 == 0 ? 0x7f800000 : j[i] << 23);
        out[i] = fminf(a, x[i]) + fmaxf(a, 1); out[64 + i] = a * x[i]; out[128 + i] = a; ((int*)out)[192 + i] = (int)a;""",
    "choices": f"{I} int k = i & 1 ? n : i; bool p = x[i] > 0, q = (i ^ n) & 4; out[i] = (p && !q ? k : -k) + (p ^ q); out[64 + i] = max(k, j[i]) << (k & 3);",
    "two rows": f"""{I} const short* h = (const short*)j; const double* d = (const double*)x; const char* c = (const char*)j;
        int at = i / 12 * 20 + i % 12; if (i < 61) out[i] = x[at] + j[at + 1] + h[at] * c[at] + d[at % 127]; out[64 + i] = x[at + 2] + c[at + 1];""",
    "windows": f"""{I} int at = i / 8 * 12 + i % 8; float s = x[at] + x[at + 1] * x[at + 3] + x[at + 9] * x[at + 30];
        for (int k = n / 4 - 1; k < n / 4 + 20; k++) s += x[i % 16 * k / 15 + i / 16] * k;
        out[i] = s; out[64 + i] = j[at] * j[at + 2];""",
    "rows with edges": f"""{I} float s = 0;
        for (int r = 0; r < 3; r++) for (int k = 0; k < 3; k++) {{
            int p = i / 12 - r, q = i % 12 - k;
            if (p < 0 || p >= 4 || q < 0 || q >= 10) continue;
            s += x[p * 10 + q] * x[i / 32 * 9 + 3 * r + k];
        }}
        out[i] = s;""",
    "taps with edges": f"""{I} float s = -0.0f, u = 1;
        for (int k = 0; k < n / 20; k++) for (int t = 0; t < n / 8; t++) {{
            int p = i / 12 - k, q = i % 12 - t;
            if (p >= 0 && p <= n - 58 && q >= 0 && q < n - 51) s += x[128 + p * 10 + q] * x[i / 32 * 9 + 7 * k + t];
            if (p < 0 || q < 0 || q > n - 62) u += x[192 + p * 12 + q];
        }}
        out[i] = s; out[64 + i] = u; out[128 + i] = 1 / s;""",
    "limits": f"""{I} int a = j[i] - 128, low = -n, top = a > 100 ? 0x7fffffff : a; float s = 0; unsigned w = a;
        if (a < 0 || a >= n) s += x[i]; if (a >= 0 && a < low) s += 2; if (a < 0 || a > low) s += 4; if (a >= 0 && i <= top) s += 8;
        if (a >= 0 && i >= 0 && a <= top) s += x[a]; if (a > -1 && a < 77) s += 16; if (a <= -1 || a >= 5 || i < 0 || i > 9) s -= 1;
        if (w < n - 20u) s *= 2; if (w >= (unsigned)low) s += 3; if (w > 5u && w <= 0x80000000u + n) s += 5; out[i] = s;""",
    "places that nobody asks for": f"""{I} float s = 0; int far = n << 24; const float* p = x + j[i] / 8;
        for (int k = 0; k < n / 4; k++) {{
            if (j[i] > k * 18) s += p[k]; if (j[i] < -k) s -= x[k * far];
            if (j[i] + i > 1000 - k) s += p[k * far + 1] + p[k * far + 2]; if (i > k * k) s += x[k] * x[k + 40];
        }}
        out[i] = s;""",
    "conditions one after the other": f"""{I} float s = 0, a = 0; int k = j[i];
        for (int t = 0; t < n; t++) {{
            if (k & 1) s += x[t]; k = k * 5 + 3 & 255; if (k & 2) a = x[t + 1]; if (a > 0) s = x[t + 2]; k ^= t;
            if (k % 3 == 0) {{ a += s; k += 1; s *= x[k & 127]; }}
        }}
        out[i] = s + k; out[64 + i] = a;""",
    "addresses of nobody": f"""{I} float s = 0;
        for (int k = 0; k < n; k++) {{
            if (j[i] + k < 900) continue;
            s += x[(long long)(j[i] / 1000) - (1ll << 42)] + x[(long long)(i / 7) + (1ll << 42)];
        }}
        out[i] = s + 1;""",
    "a result that nobody wants": f"""{I} int k = j[i]; asm("{{.reg .pred p; setp.lt.s32 _|p, %0, %1; @p add.s32 %0, %0, 7;}}" : "+r"(k) : "r"(i)); out[i] = k;""",
    "an index of 16 bits": f"{I} short k = i + 190; out[i] = x[k]; long long far = ((long long)i + 500) << 50; out[64 + i] = (int)(far >> 51);",
    "begun with nothing": f"{I} float sum; for (int k = 0; k < n; k++) sum += x[k + i]; out[i] = x[i]; if (n > 100) out[i] = sum;",
    "overlapping": f"{I} if (i < 40) {{ out[i + 1] = x[i]; out[i + 2] = x[i + 1]; }}",
    "rows of a block": f"{I} int c = i % 8, r = i / 8; out[r * 8 + c] = x[c * 8 + r + blockDim.x] + x[c];",
    "what differs cancels out": f"""{I} int t = threadIdx.x, k; long long w;
        asm("sub.s32 %0, %1, %2;" : "=r"(k) : "r"(i), "r"(t));
        asm("mad.wide.s32 %0, %1, -1, %2;" : "=l"(w) : "r"(i), "l"((long long)(t + n)));
        out[i] = x[k + i % 3] + w;
        long long a, b, d;
        asm("mul.wide.s32 %0, %1, 4;" : "=l"(a) : "r"(i + 0x7fffffbd + n));
        asm("mul.wide.s32 %0, %1, 4;" : "=l"(b) : "r"(i));
        asm("sub.s64 %0, %1, %2;" : "=l"(d) : "l"(a), "l"(b));
        out[64 + i] = d >> 20;""",
}


def source(bodies) -> str:
    """A kernel of each."""
    return "__constant__ float weights[4] = {1, 2, 3, 4};\n__device__ float table[64];\n" + "\n".join(
        f"{K}k{n}(const float* x, const int* j, float* out, int n) {{\n{body}\n}}"
        for n, body in enumerate(bodies)
    )


WHOLE = 0, 1  # part: the first body, and the distance to the next


@cache
def bits(
    checks: str,
    width: int,
    block: int = BLOCK,
    schedule: int = 0,
    part: tuple[int, int] = WHOLE,
    optimised: bool = False,
) -> dict[str, bytes]:
    """What each body leaves in `out`. part: the first of them, and the distance to the next."""
    dev, rng, found = opened(width, checks, optimised), np.random.default_rng(1), {}
    bodies = dict(list(BODIES.items())[slice(part[0], None, part[1])])
    module = dev.compile(source(bodies.values()))
    dev.schedule = schedule
    x = dev.array(rng.standard_normal(256).astype(np.float32), name="x")
    j = dev.array(rng.integers(0, 256, 256, np.int32), name="j")
    for n, name in enumerate(bodies):
        out, kernel = dev.array(np.zeros(256, np.float32), name="out"), module.get_function(f"k{n}")
        assert kernel.info.lanes == width, name
        kernel(64 // block, block, (x, j, out, np.int32(N)))
        found[name] = out.get().tobytes()
    return found


def compare(
    checks: str, width: int, block: int, part: tuple[int, int], schedule: int = 0, optimised: bool = False
) -> None:
    alone = bits("memory", 1, block, part=part)
    for name, found in bits(checks, width, block, schedule, part, optimised).items():
        assert schedule and name in ("one place", "overlapping") or found == alone[name] and any(found), name


#: every second body once, and each width with some of them; every night, each with every width
WIDTHS = [("memory", 4, (0, 8)), ("memory", 8, (2, 8)), ("memory", 16, (4, 8)), ("none", 16, (6, 8))]
ALL = [
    pytest.param(checks, width, (first, 3), marks=pytest.mark.soak)
    for checks, width in [(checks, width) for checks, width, _ in WIDTHS] + [("memory", 32)]
    for first in range(3)
]


@BUILDS
@pytest.mark.parametrize(("checks", "width", "part"), WIDTHS + ALL)
def test_lanes_give_the_bits_of_one_thread_at_a_time(checks, width, part, optimised):
    compare(checks, width, BLOCK, part, optimised=optimised)


@pytest.mark.parametrize(
    "optimised, wide, narrow",
    [(False, (4, 8), (0, 8)), pytest.param(True, (2, 4), (0, 4), marks=pytest.mark.soak)],
    ids=["quick", "optimised"],
)
def test_groups_that_are_not_whole_run_one_by_one_and_schedules_change_their_order(optimised, wide, narrow):
    for block in (2, 48):
        compare("memory", 16, block, wide, optimised=optimised)
        compare("memory", 4, block, narrow, optimised=optimised)
    compare("memory", 16, BLOCK, wide, 3, optimised)


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["four windows", "windows", "taps with edges"])
def test_a_kernel_for_blocks_of_whole_warps_runs_by_warps(name):
    """Two windows of 16 lanes each, too."""
    dev, found = opened(16), set()
    kernel = dev.compile(source([BODIES[name]])).get_function("k0")
    x, j = dev.array(np.arange(256, dtype=np.float32) / 7), dev.array(np.arange(256, dtype=np.int32))
    for block, row in ((32, 32), (16, 48), (16, 0)):
        out = dev.array(np.zeros(256, np.float32))
        args = x, j, out, np.int32(N)
        fixed = kernel.fixed(args, row)
        assert fixed.info.lanes == (32 if row == 32 and target().masks == "i1" else 16)
        fixed(64 // block, block, args)
        found.add(out.get().tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("width", [16, 1])
def test_other_blocks_than_a_kernel_is_compiled_for_run_thread_by_thread(width):
    """In blocks of whole warps, a warp is on one side of a multiple of 32; and their size is a number in the code."""
    body = f"{I} if (i >= 64) return; out[i] = x[i];"
    dev = opened(width)
    kernel = dev.compile(source([body])).get_function("k0")
    x = dev.array(np.ones(256, np.float32))
    for grid, block in ((2, 48), (4, 16)):
        out = dev.array(np.zeros(256, np.float32))
        args = x, dev.array(np.zeros(1, np.int32)), out, np.int32(N)
        kernel.fixed(args, 32)(grid, block, args)
        assert out.get().tolist() == [1] * 64 + [0] * 192


#: as BODIES, but something is wrong in the line
WRONG = {
    "one too far": f"{I} float v = x[i];\nout[i * 5] = v;  // FAULT",
    "before the start": f"{I} float sum = 0;\nfor (int k = 0; k < n; k++) sum += x[k - (i == 9)];  // FAULT\nout[i] = sum;",
    "far away": f"{I}\nout[i] = x[(unsigned)(i - 1)];  // FAULT",
    "in one way": f"{I} out[i] = 1;\nif (j[i] % 2 == 0) out[i] = x[j[i] - 100];  // FAULT",
    "a whole block": f"{I}\nout[i] = x[n + 1000];  // FAULT",
    "crooked": f"{I}\nout[i] = *(const float*)((const char*)x + 3 * i);  // FAULT",
    "only to be read": f"{I} if (i < 4) return;\n((float*)x)[i] = 1;  // FAULT",
    "a tap outside": f"{I} float s = 0;\nfor (int k = 0; k < n / 20; k++) if (j[i] > k + 50 && i + k != 62) s += x[j[i] * 4 + 2 * k];  // FAULT\nout[i] = s;",
    "one place for some": f"{I} float s = 0;\nfor (int k = 0; k < n; k++) if (i > k * 3) s += x[k * n];  // FAULT\nout[i] = s;",
    "for ever": f"{I} float v = x[i];\nfor (int k = 0; v == v; k++) v += x[k & 63];  // FAULT\nout[i] = v;",
}


@cache
def wrong(width: int, optimised: bool) -> tuple[str, object]:
    """All of WRONG in a file, and its module."""
    text = source(body.replace("FAULT", str(n)) for n, body in enumerate(WRONG.values()))
    return text, opened(width, optimised=optimised).compile(text)


def fault(name: str, width: int, optimised: bool = False) -> tuple:
    """What is told first of a wrong kernel, and in which thread."""
    dev, number = opened(width, optimised=optimised), list(WRONG).index(name)
    text, module = wrong(width, optimised)
    x, j = (
        dev.array(np.arange(256).astype(t), name=n, readonly=True)
        for t, n in ((np.float32, "x"), (np.int32, "j"))
    )
    kernel, out = (
        module.get_function(f"k{number}"),
        dev.array(np.zeros(256, np.float32), name="out", axes="i"),
    )
    assert kernel.info.lanes == width
    dev.schedule = 0
    with pytest.raises(KernelFault) as caught:
        kernel(2, 32, (x, j, out, np.int32(N)))
    told = caught.value
    assert told.line == line_of(text, str(number))
    return told.kind, told.thread, told.block, told.array, told.index


def text_of(name: str, checks: str = "memory") -> str:
    """A kernel's LLVM text, for 8 lanes."""
    ptx = opened(8).compile(source([BODIES[name]])).compiled.text
    return lower(ptx, "kernel.cu", recipe(checks, lanes=8, target="avx2"), 1 << 34).text


def test_what_a_loop_may_not_need_is_not_computed_before_it():
    """The address of each lane's four numbers, in the code for lanes that are not in rows."""
    assert "@llvm.launder.invariant.group.p0(ptr" in text_of("fours")


def test_sums_are_computed_before_later_accesses():
    """Behind what a failed access gives to the runtime, there is room for what would else be computed later."""
    for checks in ("memory", "none"):
        text = text_of("taps with edges", checks)
        assert re.search(r"ptr %lanes.room, i64 320\n *store volatile <8 x float> %\S+, ptr %", text)


@BUILDS
@pytest.mark.parametrize("name", WRONG)
def test_a_fault_names_the_thread_the_line_and_the_element(name, optimised):
    assert fault(name, 8, optimised) == fault(name, 1)


def test_what_a_correct_program_may_do_beyond_its_first_array():
    """Another array than the one that the pointer comes from: the runtime decides."""
    text = f"{K}k(const float* x, const int* j, float* out, int n) {{ {I} out[i] = x[(n - 61) * i + ((float*)j - x)] + 1; }}"
    dev = opened(8, optimised=True)
    kernel, x, j = (
        dev.compile(text).get_function("k"),
        dev.array(np.zeros(9, np.float32)),
        dev.array(np.arange(4, dtype=np.float32)),
    )
    out = dev.array(np.zeros(64, np.float32))
    kernel(2, 32, (x, j, out, np.int32(N)))
    assert kernel.info.lanes == 8 and (out.get() == 1).all()


def test_an_index_that_has_just_been_widened_is_not_asked_again_whether_it_was_exact():
    source = f"{K}k(const float* x, float* out, int n) {{ {I} out[i] = x[n + i]; }}"
    made = recipe("full", lanes=16)
    text = lower(compile_ptx(source, "k.cu", made.ptx).text, "k.cu", made, 1 << 34).text
    asked, read = re.findall(r"lshr i64 %\S+, 56", text), re.findall(r"ptr %anchors, i64 %", text)
    assert len(asked) == len(read) == 4
