"""Kernels that are difficult to run as vector lanes, for lanes.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import numpy as np

K = 'extern "C" __global__ void '
I = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
TYPES = {
    "char": np.int8,
    "unsigned char": np.uint8,
    "short": np.int16,
    "unsigned short": np.uint16,
    "int": np.int32,
    "unsigned": np.uint32,
    "float": np.float32,
    "double": np.float64,
    "long long": np.int64,
    "unsigned long long": np.uint64,
}
VECTORS = ("float4", "int4", "double2", "short4", "uchar4", "float2", "char2", "ushort2")
N = 211  # threads that work: no block size divides it
ROOM = 4096  # a fourth of an array's elements: what is read begins there
BLOCKS = (1, 7, 32, 33, 64, 96)
WARPS = 12  # files of kernels whose warps exchange values

#: of T x[], int j[] (0 to 255), T y[], n: each thread writes y[i] and what it says beside
BODIES = {
    "offsets": "y[i] = x[i + 1] + x[i + 3] * x[i - 5];",
    "backwards": "y[i] = x[n - i] - x[3 * n - 3 * i]; y[1024 - i] = x[-i];",
    "strides": "y[i] = x[2 * i] + x[3 * i + 1] + x[5 * i + 2] + x[7 * (i % 64) - 9];",
    "stride of n": "y[i] = x[i * (n - 210)] + x[i * (n - 209)] + x[i * (210 - n)];",
    "rows": "y[i] = x[i / 13 * 29 + i % 13] + x[i / 8 * 16 + i % 8] + x[i % 16] + x[i / 16];",
    "zigzag": "y[i] = x[(i & 1 ? i : -i)] + x[i ^ 3] + x[(i * 37) % 101];",
    "indices": "y[i] = x[j[i]] + x[j[j[i]] - 128]; y[512 + (i ^ 5)] = x[j[i + 1]];",
    "wrap-around": "T a = x[i], b = x[i + 1]; a += b; a *= 3; a -= x[j[i]]; y[i] = a; y[512 + i] = (T)(a + 100) > (T)(b + 27);",
    "small types": """unsigned char u = j[i] + 250; short s = j[i] * 200; signed char c = j[i]; u++; s -= 30000; c -= 100;
        unsigned short w = s; w *= w; y[i] = u + s + c; y[512 + i] = u < 10 ? w : c; y[1024 + i] = (unsigned char)(u - 11) / 3;""",
    "division": """int d = j[i] - 128, e = j[i + 7] - 100; unsigned u = d, v = e | 1; e = e ? e : -1;
        y[i] = d / e + d % e; y[512 + i] = u / v + u % v; y[1024 + i] = (long long)d * 77777 / e + (long long)u % v;
        y[1536 + i] = (n - 300) / e + d % (n - 300) + (unsigned)(n - 300) / v + d / -7 + d % -8;""",
    "near the limits": """int a = 2147483600 + (i & 31), b = -2147483647 + (j[i] & 63); unsigned c = 4294967280u + i;
        y[i] = a / 3 + b / 7 + (a ^ b); y[512 + i] = x[a - 2147483600] + x[c - 4294967280u]; y[1024 + i] = (long long)a + c + b;
        y[1536 + i] = x[(int)((a - 5ll) % 100)] + (a > b) + (c > (unsigned)a);""",
    "sums that wrap": """unsigned k = i * 0x8000001u + 0xfffffff0u; y[i] = x[k & 255]; unsigned m = i - 5; if (m < 100u) y[512 + m] = x[m];
        int far = i * 40000000 / 40000000; y[1024 + i] = far; y[1536 + i] = x[((unsigned)i * 3221225472u) >> 30];""",
    "64 bits": """long long p = (long long)i * 0x123456789ll - 5; unsigned long long q = ~0ull / (i + 1); y[i] = p >> 7; y[512 + i] = q % 1000;
        y[1024 + i] = x[p & 127] + x[(p - q) & 63]; y[1536 + i] = p / (j[i] + 1) + q / (unsigned)(j[i] | 1);""",
    "choices": "int a = j[i], b = i & 7; y[i] = a > b ? x[a] : b > 3 ? x[-b] : T(a ? 7 : b); y[512 + i] = (a & 1) ? (b & 1) ? 1 : x[b] : a;",
    "ways": """T s = x[i]; int a = j[i];
        if (a < 64) { s += x[a]; if (a & 1) s *= 2; else if (a & 2) { y[512 + i] = s; s -= x[i + a]; } }
        else if (a < 128) { s = x[-a]; } else { if (a > 250) { y[i] = -1; return; } s += a; y[1024 + i] = s; }
        y[i] = s;""",
    "returns": "if (j[i] & 1) return; y[i] = x[i]; if (j[i] & 2) return; y[512 + i] = x[2 * i]; if (i % 5 == 3) return; y[1024 + i] = x[j[i]];",
    "loops": """T s = 0; for (int k = 0; k < j[i] % 13; k++) { if (k == 7) continue; s += x[k * 3 + i]; if (j[i + k] > 240) break; } y[i] = s;""",
    "loops in loops": """T s = 0; for (int r = i % 3; r < j[i] % 7; r++) for (int q = r; q < i % 11; q += 1 + (q & 1)) {
            if ((r ^ q) % 5 == 4) continue; s += x[r * 20 + q]; if (s > 100 && q > 8) break; if (j[r + q] == 77) { y[i] = 3; return; } }
        y[i] = s;""",
    "loops that end anywhere": """int k = j[i]; T s = 0; do { k = k * 5 + 1 & 255; s += x[k]; if (k % 31 == 7) goto out; } while (k & 15); s *= 2; out: y[i] = s + k;""",
    "pointers that move": "const T* p = x + j[i] % 9; T s = 0; while (p < x + i % 23) { s += *p; p += 1 + (i & 1); } y[i] = s; y[512 + i] = p - x;",
    "switch": """T s = 1; switch (j[i] % 9) { case 0: s = x[i]; break; case 1: s += 2; case 2: s *= 3; break; case 3: y[512 + i] = 5; return;
        case 4: case 5: s = x[-i]; break; case 7: for (int k = 0; k < i % 4; k++) s += x[k]; default: s -= 4; } y[i] = s;""",
    "in place": "T* z = y; z[i] = x[i]; z[i] += z[i] * 2; T a = z[i]; z[i] = x[i + 1]; z[512 + i] = a + z[i];",
    "bytes of others": """const unsigned char* b = (const unsigned char*)x; unsigned s = 0; for (int k = 0; k < i % 7; k++) s = s * 3 + b[i * 3 + k];
        y[i] = (int)(s & 255); ((unsigned char*)(y + 1024))[i ^ 1] = s; ((unsigned short*)(y + 1536))[i] = s;""",
    "sizes": """struct S { char a; int b; short c; long long d; }; const S* p = (const S*)(((size_t)x + 7) & ~7ull); y[i] = p[i % 37].b + p[i % 41].a;
        y[512 + i] = (int)p[i % 29].c - (int)p[j[i] % 33].d;""",
    "private": "T a[5]; for (int k = 0; k < 5; k++) a[k] = x[i + k * 9]; T s = 0; for (int k = 0; k < 5; k++) s += a[k] * a[4 - k]; y[i] = s;",
    "two at once": "for (int k = i; k < 400; k += gridDim.x * blockDim.x) y[k] = x[k] + x[k + 1] * k;",
    "in a grid of two": "int c = threadIdx.x % 5, r = i / 5; if (c < n && r > 2) y[r * 5 + c] = x[c * 31 + r] - x[r * 7 + blockIdx.x];",
    "predicates": "bool p = j[i] > 100, q = x[i] > x[i + 1], r = p != q; if ((p && !q) || (r && i % 3)) y[i] = x[j[i]] + r; else y[512 + i] = p + q * 2;",
    "bits": "unsigned u = j[i] * 0x9e3779b9u; y[i] = __popc(u) + __clz(u >> 5) + __brev(u) % 9; y[512 + i] = (u << (j[i] & 31)) >> (i & 31) & 127; y[1024 + i] = __ffs(u & 48) + (int(u) >> (i & 15)) % 5;",
    "constants": "y[i] = table[i & 15] + table[j[i] & 15]; y[512 + i] = table[(15 - i) & 15] * 2;",
    "wild where nobody reads": "T s = 0; for (int k = 0; k < 4; k++) { long long at = j[i] % 3 == k ? i : (1ll << 40) + i; if (at < 4096) s += x[at]; } y[i] = s;",
}
_HEAD = "__constant__ int table[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};\n"


def subjects() -> Iterator[tuple[str, str, dict[str, Callable]]]:
    """(name, CUDA C++, its launches: device, module -> arrays)"""
    for c_type, dtype in TYPES.items():
        source = f"typedef {c_type} T;\n{_HEAD}" + "\n".join(
            f"{K}k{i}(const T* x, const int* j, T* y, int n, int at) {{ {I} if (i >= n) return; x += at; y += at % 16; {body} }}"
            for i, body in enumerate(BODIES.values())
        )
        launches = {
            f"{name}, blocks of {block}, {'odd' if odd else 'aligned'}": _launch(f"k{i}", dtype, block, odd)
            for i, name in enumerate(BODIES)
            for block, odd in zip(BLOCKS, (0, 1, 3, 0, 5, 2), strict=True)
        }
        yield c_type, source, launches
    source = "\n".join(
        f"{K}k{i}(const {t}* x, const int* j, {t}* y, int n, int at) {{ {I} if (i >= n) return; x += at;"
        f" {t} a = x[j[i] % 64], b = x[2 * i % 99]; a.x += b.y; b.y = a.x * 3; y[i] = i % 3 ? a : b; if (j[i] & 1) y[300 + (i ^ 1)] = x[-1 - i]; }}"
        for i, t in enumerate(VECTORS)
    )
    yield (
        "vectors",
        source,
        {
            f"{t}, blocks of {block}": _launch(f"k{i}", np.int16 if t[:-1] == "short" else np.uint8, block, 0)
            for i, t in enumerate(VECTORS)
            for block in BLOCKS
        },
    )
    source = f"{K}k0(const float* x, const int* j, float* y, int n, int at) {{ {I} if (i < n) y[i + 1] = y[2 * i + 300] + y[i + 700]; }}"
    yield "one array", source, {f"blocks of {b}": _launch("k0", np.float32, b, 0) for b in BLOCKS}
    for seed in range(WARPS):
        random = Random(seed)
        source = "\n".join(
            f"{K}k{k}(const float* x, const int* j, float* y, int n, int at) {{ {_exchanges(random)} }}"
            for k in range(6)
        )
        launches = {
            f"k{k}, blocks of {b}": _launch(f"k{k}", np.float32, b, 0) for k in range(6) for b in (32, 96, 48)
        }
        yield f"warps {seed}", source, launches


def _exchanges(random: Random) -> str:
    """A body whose warps exchange values, while more and more lanes leave."""
    lines = [I, "int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, v = j[i], u = i; float f = x[at + i];"]
    for _ in range(random.randint(3, 9)):
        to, given = (
            random.choice(("v", "u")),
            random.choice(("v", "u", "i", "lane", "n", "v * 3 - u", "__float_as_int(f)")),
        )
        b, c = (
            random.choice((0, 1, 2, 5, 16, 31, random.randrange(64))),
            random.choice((0, 31, 0x1F, 0x1C1F, 0x181F, random.randrange(1 << 13))),
        )
        way, vote = random.choice(("up", "down", "bfly", "idx")), random.choice(("any", "all", "uni"))
        redux = random.choice(("add", "min", "max", "and", "or", "xor"))
        type_ = "int" if redux in ("add", "min", "max") and random.random() < 0.5 else "unsigned"
        lines.append(
            random.choice(
                (
                    f'{{ int p; asm volatile("{{.reg .pred p; shfl.sync.{way}.b32 %0|p, %2, {b}, {c}, -1; selp.s32 %1, 1, 0, p;}}" : "=r"({to}), "=r"(p) : "r"({given})); u += p; }}',
                    f"{to} ^= __{vote}_sync(~0u, ({given}) % 5 > {random.randint(-3, 4)});",
                    f"{to} += __ballot_sync(~0u, ({given}) & {random.randint(1, 7)});",
                    f"{to} -= __reduce_{redux}_sync(~0u, ({type_})({given}));",
                    f"f += __shfl_xor_sync(~0u, f, {random.randint(0, 31)}) * lane;",
                    f"if (lane {random.choice(('<', '>', '=='))} {random.randint(0, 31)}) {{ u += x[at + lane]; v ^= {random.randint(0, 99)}; }}",
                    f"if (({given}) % 7 == {random.randint(0, 9)}) return;",
                    f"if (warp {random.choice(('==', '!=', '<'))} {random.randint(0, 2)}) {{ v += __shfl_xor_sync(~0u, v, 3); y[512 + i] = v; }}",
                    "for (int k = lane; k < (u & 63); k += 1 + (v & 3)) f += x[at + k];",
                    "u = threadIdx.x; v += (u >> 5) + (u & 31);",
                )
            )
        )
    return " ".join([*lines, "y[i] = f; ((int*)y)[1024 + i] = v; ((int*)y)[2048 + i] = u;"])


def _launch(kernel: str, dtype, block: int, odd: int) -> Callable:
    """odd: by how many elements the pointers are off the arrays' beginnings."""

    def run(device, module) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(3)
        whole = np.issubdtype(dtype, np.integer)
        values = rng.integers(0, 200, 4 * ROOM) if whole else rng.integers(-99, 99, 4 * ROOM) / 8
        x = device.array(values.astype(dtype), name="x", readonly=True)
        y = device.array(np.zeros(4 * ROOM, dtype), name="y")
        j = device.array(rng.integers(0, 256, ROOM).astype(np.int32), name="j", readonly=True)
        args = x, j, y, np.int32(N), np.int32(ROOM + odd)
        module.get_function(kernel)(-(-N // block), block, args)
        return {"y": y.get()}

    return run
