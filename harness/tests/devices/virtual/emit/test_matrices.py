"""Matrix instructions against NumPy: fragments in the layouts that the PTX ISA draws, whole products."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.errors import KernelFault
from tests import ROOT, sampled
from tests.devices.virtual.launches import FLAVOURS, K, device, run, zeros

INCLUDE = (ROOT / "puzzles" / "include",)

_FLOAT = ("f", "float")
_INT = ("r", "int")


def inline_mma(shape: str, types: str, registers: tuple[int, int, int], out: tuple[str, str]) -> str:
    """A kernel that hands registers from memory, by lane, to one mma.sync: a[32][A], b[32][B], c[32][C]."""
    na, nb, nc = registers
    letter, c_type = out
    outputs = ", ".join(f"%{i}" for i in range(nc))
    a = ", ".join(f"%{nc + i}" for i in range(na))
    b = ", ".join(f"%{nc + na + i}" for i in range(nb))
    bound = ", ".join(f'"+{letter}"(d[{i}])' for i in range(nc))
    given = ", ".join(
        [f'"r"(a[lane * {na} + {i}])' for i in range(na)] + [f'"r"(b[lane * {nb} + {i}])' for i in range(nb)]
    )
    return f"""
extern "C" __global__ void k(const unsigned* a, const unsigned* b, {c_type}* c) {{
    int lane = threadIdx.x;
    {c_type} d[{nc}];
    for (int i = 0; i < {nc}; i++) d[i] = c[lane * {nc} + i];
    asm volatile("mma.sync.aligned.{shape}.row.col.{types} {{{outputs}}}, {{{a}}}, {{{b}}}, {{{outputs}}};"
                 : {bound} : {given});
    for (int i = 0; i < {nc}; i++) c[lane * {nc} + i] = d[i];
}}
"""


def spread(matrix: np.ndarray, places, count: int) -> np.ndarray:
    """Registers in lane order: [32][count] elements of `matrix` at places(lane, i) -> (row, column)."""
    return np.array([[matrix[places(lane, i)] for i in range(count)] for lane in range(32)], matrix.dtype)


def accumulator(lane: int, i: int) -> tuple[int, int]:
    return lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2


def a_16bit(lane: int, i: int) -> tuple[int, int]:
    return lane // 4 + 8 * (i // 2 % 2), lane % 4 * 2 + i % 2 + 8 * (i // 4)


def b_16bit(lane: int, i: int) -> tuple[int, int]:
    return lane % 4 * 2 + i % 2 + 8 * (i // 2), lane // 4


def a_32bit(lane: int, i: int) -> tuple[int, int]:
    return lane // 4 + 8 * (i % 2), lane % 4 + 4 * (i // 2)


def b_32bit(lane: int, i: int) -> tuple[int, int]:
    return lane % 4 + 4 * i, lane // 4


def a_8bit(lane: int, i: int) -> tuple[int, int]:
    return lane // 4 + 8 * (i // 4 % 2), lane % 4 * 4 + i % 4 + 16 * (i // 8)


def b_8bit(lane: int, i: int) -> tuple[int, int]:
    return lane % 4 * 4 + i % 4 + 16 * (i // 4), lane // 4


def words(elements: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(elements).view(np.uint32)


@pytest.mark.parametrize("checks", FLAVOURS)
@pytest.mark.parametrize("k", [8, 16])
def test_mma_half(k, checks):
    rng = np.random.default_rng(k)
    a, b = rng.standard_normal((16, k)).astype(np.float16), rng.standard_normal((k, 8)).astype(np.float16)
    c = rng.standard_normal((16, 8)).astype(np.float32)
    out = device(checks).array(spread(c, accumulator, 4), name="c")
    source = inline_mma(f"m16n8k{k}", "f32.f16.f16.f32", (k // 4, k // 8, 4), _FLOAT)
    run(source, words(spread(a, a_16bit, k // 2)), words(spread(b, b_16bit, k // 4)), out, checks=checks)
    expected = a.astype(float) @ b.astype(float) + c
    np.testing.assert_allclose(out.get(), spread(expected, accumulator, 4), rtol=1e-6, atol=1e-6)


def test_mma_bfloat16():
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((16, 16), (16, 8)))
    a, b = (words(x) & 0xFFFF0000 for x in (a, b))  # what bfloat16 can hold
    out = zeros((32, 4), checks="memory")
    halves = [(spread(x, p, n) >> 16).astype(np.uint16) for x, p, n in ((a, a_16bit, 8), (b, b_16bit, 4))]
    source = inline_mma("m16n8k16", "f32.bf16.bf16.f32", (4, 2, 4), _FLOAT)
    run(source, words(halves[0]), words(halves[1]), out, checks="memory")
    expected = a.view(np.float32).astype(float) @ b.view(np.float32).astype(float)
    np.testing.assert_allclose(out.get(), spread(expected, accumulator, 4), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("k", [4, 8])
def test_mma_tf32_uses_ten_bits_of_the_fraction(k):
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((16, k), (k, 8)))
    out = zeros((32, 4), checks="memory")
    source = inline_mma(f"m16n8k{k}", "f32.tf32.tf32.f32", (k // 2, k // 4, 4), _FLOAT)
    run(source, words(spread(a, a_32bit, k // 2)), words(spread(b, b_32bit, k // 4)), out, checks="memory")
    short = [(words(x) & 0xFFFFE000).view(np.float32).astype(float) for x in (a, b)]
    np.testing.assert_allclose(out.get(), spread(short[0] @ short[1], accumulator, 4), rtol=1e-6, atol=1e-6)
    assert not np.allclose(out.get(), spread(a.astype(float) @ b, accumulator, 4), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("k", [16, 32])
def test_mma_int8(k):
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-128, 128, s).astype(np.int8) for s in ((16, k), (k, 8)))
    c = rng.integers(-1000, 1000, (16, 8)).astype(np.int32)
    out = device("memory").array(spread(c, accumulator, 4), name="c")
    source = inline_mma(f"m16n8k{k}", "s32.s8.s8.s32", (k // 8, k // 16, 4), _INT)
    run(source, words(spread(a, a_8bit, k // 2)), words(spread(b, b_8bit, k // 4)), out, checks="memory")
    expected = a.astype(np.int32) @ b.astype(np.int32) + c
    assert (out.get() == spread(expected, accumulator, 4)).all()


_WMMA = """
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void k(const {T}* a, const {T}* b, {D}* c) {{
    wmma::fragment<wmma::matrix_a, {shape}, {E}, wmma::{la}> fa;
    wmma::fragment<wmma::matrix_b, {shape}, {E}, wmma::{lb}> fb;
    wmma::fragment<wmma::accumulator, {shape}, {D}> fc;
    wmma::fill_fragment(fc, ({D})1);
    wmma::load_matrix_sync(fa, a, {lda});
    wmma::load_matrix_sync(fb, b, {ldb});
    for (int i = 0; i < fa.num_elements; i++) fa.x[i] = fa.x[i] + fa.x[i];
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, {n}, wmma::mem_row_major);
}}
"""


@pytest.mark.sampled
@pytest.mark.parametrize("checks", FLAVOURS)
@pytest.mark.parametrize("layouts", sampled(["row row", "row col", "col row"], always=["col row"]))
@pytest.mark.parametrize("m, n, k", [(16, 16, 16), (32, 8, 16), (8, 32, 16)])
def test_wmma_half(m, n, k, layouts, checks):
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((k, n)).astype(np.float16)
    la, lb = layouts.split()
    source = _WMMA.format(
        T="half",
        E="half",
        D="float",
        shape=f"{m}, {n}, {k}",
        la=f"{la}_major",
        lb=f"{lb}_major",
        lda=k if la == "row" else m,
        ldb=n if lb == "row" else k,
        n=n,
    )
    stored = [np.ascontiguousarray(x if layout == "row" else x.T) for x, layout in ((a, la), (b, lb))]
    out = zeros((m, n), checks=checks)
    run(source, *stored, out, checks=checks)
    np.testing.assert_allclose(out.get(), 2 * a.astype(float) @ b.astype(float) + 1, rtol=1e-6, atol=1e-6)


def test_wmma_double():
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((8, 4)), rng.standard_normal((4, 8))
    source = _WMMA.format(
        T="double", E="double", D="double", shape="8, 8, 4", la="row_major", lb="row_major", lda=4, ldb=8, n=8
    )
    out = zeros((8, 8), np.float64, checks="memory")
    run(source, a, b, out, checks="memory")
    np.testing.assert_allclose(out.get(), 2 * a @ b + 1, rtol=1e-14)


_LDMATRIX = """
extern "C" __global__ void k(const unsigned short* a, unsigned* c) {{
    __shared__ __align__(16) unsigned short tile[32][8];
    int lane = threadIdx.x;
    for (int i = 0; i < 8; i++) tile[lane][i] = a[lane * 8 + i];
    __syncthreads();
    unsigned row = __cvta_generic_to_shared(&tile[lane % (8 * {n})][0]), r[{n}];
    asm volatile("ldmatrix.sync.aligned.m8n8.x{n}{trans}.shared.b16 {{{names}}}, [%{n}];" : {outputs} : "r"(row));
    for (int i = 0; i < {n}; i++) c[lane * {n} + i] = r[i];
}}
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("checks", FLAVOURS)
@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_ldmatrix(n, trans, checks):
    a = np.arange(256, dtype=np.uint16).reshape(32, 8)
    names = ", ".join(f"%{i}" for i in range(n))
    outputs = ", ".join(f'"=r"(r[{i}])' for i in range(n))
    out = zeros((32, n), np.uint32, checks=checks)
    run(_LDMATRIX.format(n=n, trans=trans, names=names, outputs=outputs), a, out, checks=checks)
    got = np.ascontiguousarray(out.get()).view(np.uint16).reshape(32, n, 2)
    for lane in range(32):
        for i in range(n):
            tile = a[8 * i : 8 * i + 8]
            tile = tile.T if trans else tile
            assert (got[lane, i] == tile[lane // 4, lane % 4 * 2 : lane % 4 * 2 + 2]).all()


_STMATRIX = """
extern "C" __global__ void k(unsigned short* out) {{
    __shared__ __align__(16) unsigned short tile[32][8];
    int lane = threadIdx.x;
    unsigned row = __cvta_generic_to_shared(&tile[lane % (8 * {n})][0]), r[{n}];
    for (int i = 0; i < {n}; i++) r[i] = 64 * i + 2 * lane | (64 * i + 2 * lane + 1) << 16;
    {unset}
    asm volatile("stmatrix.sync.aligned.m8n8.x{n}{trans}.shared.b16 [%{n}], {{{names}}};" :: {inputs}, "r"(row));
    __syncthreads();
    if (lane < 8 * {n}) for (int i = 0; i < 8; i++) out[lane * 8 + i] = tile[lane][i];
}}
"""


def stored_matrices(n: int, trans: str = "", checks: str = "full", unset: str = "") -> np.ndarray:
    names = ", ".join(f"%{i}" for i in range(n))
    inputs = ", ".join(f'"r"(r[{i}])' for i in range(n))
    out = zeros((n, 8, 8), np.uint16, checks=checks)
    run(_STMATRIX.format(n=n, trans=trans, names=names, inputs=inputs, unset=unset), out, checks=checks)
    return out.get()


@pytest.mark.parametrize("checks", FLAVOURS)
def test_stmatrix(checks):
    assert (stored_matrices(1, "", checks).ravel() == np.arange(64)).all()
    assert (stored_matrices(2, ".trans", checks) == np.arange(128).reshape(2, 8, 8).swapaxes(1, 2)).all()
    assert (stored_matrices(4, "", checks).ravel() == np.arange(256)).all()


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_stmatrix_follows_unset_values(trans):
    """Where they matter: in what is stored of the tile."""
    unset = "unsigned none; if (lane != 5) none = 3; r[1] = none;"
    with pytest.raises(KernelFault) as caught:
        stored_matrices(2, trans, unset=unset)
    assert (caught.value.kind, caught.value.array) == ("uninitialised-read", "none")


def in_a_warp(body: str, given, out) -> None:
    """Runs `body` in one warp with the course's mma.cuh, with `lane` and the arrays `in` and `out`."""
    types = {"float32": "float", "float16": "__half", "uint32": "unsigned"}
    parameters = f"const {types[str(given.dtype)]}* in, {types[str(out.dtype)]}* out"
    source = f'#include "mma.cuh"\n{K}k({parameters}) {{\nint lane = threadIdx.x;\n{body}\n}}\n'
    run(source, given, out, include_dirs=INCLUDE)


@pytest.mark.parametrize("trans", ["", "_trans"])
def test_wrapper_of_two_matrices(trans):
    a, out = np.arange(128, dtype=np.float16).reshape(16, 8), zeros((32, 2), np.uint32)
    in_a_warp(
        f"""__shared__ __align__(16) __half tile[16 * 8];
for (int i = lane; i < 128; i += 32) tile[i] = in[i];
__syncthreads();
unsigned r[2];
ldmatrix_x2{trans}(r, &tile[lane % 16 * 8]);
for (int i = 0; i < 2; i++) out[2 * lane + i] = r[i];""",
        a,
        out,
    )
    got = np.ascontiguousarray(out.get()).view(np.float16).reshape(32, 2, 2)
    pieces = a.reshape(2, 8, 8).swapaxes(1, 2) if trans else a.reshape(2, 8, 8)
    assert (got == pieces.reshape(2, 8, 4, 2).transpose(1, 2, 0, 3).reshape(32, 2, 2)).all()


def test_to_tf32_rounds_to_nearest_ties_away_from_zero():
    step = 2.0**-10
    x = np.array([1 + 0.49 * step, 1 + 0.5 * step, 1 + 1.5 * step, -1 - 0.5 * step], np.float32)
    out = zeros(4)
    in_a_warp("if (lane < 4) out[lane] = __uint_as_float(to_tf32(in[lane]));", x, out)
    assert out.get().tolist() == [1, 1 + step, 1 + 2 * step, -1 - step]


SET = "unsigned x[4] = {}, y[2] = {}; float d[4] = {};"
WRONG = {
    "a register of A that nothing was written to": (
        SET.replace("x[4] = {}", "x[4]"),
        "x[0] = x[1] = x[2] = 0;",
        "",
        "uninitialised-read",
        "x[3]",
    ),
    "a sum that nothing was written to": (
        SET.replace("d[4] = {}", "d[4]"),
        "d[0] = d[1] = d[2] = 0;",
        "",
        "uninitialised-read",
        "d[3]",
    ),
    "lanes that have left": (SET, "if (lane >= 20) return;", "", "shuffle-mask", "lanes 20-31"),
    "lanes that go elsewhere": (SET, "", "if (lane < 16) ", "shuffle-mask", "lanes 16-31"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_mma_is_a_fault_in_the_line_that_calls_it(name):
    declared, before, when, kind, says = WRONG[name]
    body = f"{declared}\n{before}\n{when}mma_m16n8k8_tf32(d, x, y);\nout[lane] = d[0] + d[3];"
    with pytest.raises(KernelFault) as fault:
        in_a_warp(body, np.zeros(1, np.float32), zeros((32,)))
    assert (fault.value.kind, fault.value.line) == (kind, 6) and says in str(fault.value)
