"""Copies of many bytes and products of four warps, as racecheck sees them: like threads of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backwarp.errors import KernelFault
from tests.devices.virtual.launches import device, line_of
from tests.devices.virtual.runtime.agent_programs import Reckoning, programs

_INCLUDE = Path(__file__).parents[5] / "puzzles" / "include"
_COPIES = r"""
#include "hopper.cuh"
__device__ void put(float* to, const void* from) { asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;" :: "l"(to), "r"(in_shared(from)) : "memory"); }  // PUT
__device__ void add(float* to, const void* from) { asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 512;" :: "l"(to), "r"(in_shared(from)) : "memory"); }  // ADD
__device__ void get(void* to, const float* from, Barrier* b) { asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];" :: "r"(in_shared(to)), "l"(from), "r"(in_shared(b)) : "memory"); }  // GET
__device__ void commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int n> __device__ void arrived() { asm volatile("cp.async.bulk.wait_group %0;" :: "n"(n) : "memory"); }
template <int n> __device__ void was_read() { asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(n) : "memory"); }
__device__ void fence() { asm volatile("fence.proxy.async;" ::: "memory"); }
extern "C" __global__ void k(float* y, float* z) {
    __shared__ alignas(1024) float a[128], b[128];
    __shared__ Barrier bar;
    int t = threadIdx.x;
    if (t == 0) { make_barrier(&bar, 1); show_barriers(); }
    a[t] = t;
    b[t] = 2 * t;
    fence();
    __syncthreads();
    BODY
}
"""
_PUT = "if (t == 0) { put(y, a); commit(); }\n"
_ALL = "if (t == 0) arrived<0>();\n__syncthreads();\n"
_KINDS = ("race", "unfenced")
_LOAD = "if (t == 0) { arrive_and_expect(&bar, 512); get(a, y, &bar); }\n"
_STAGES = """for (int i = 0; i < 4; i++) {
    float* stage = i % 2 ? b : a;
    if (t == 0) { put(y + 128 * i, stage); commit(); was_read<N>(); }
    __syncthreads();
    (i % 2 ? a : b)[t] = i;  // USE
    fence();
    __syncthreads();
}
"""


def _found(source: str, threads: int, arguments, grid: int = 1, kernel: str = "k") -> list:
    """What each order finds: nothing, or a fault."""
    found, dev = [], device()
    for seed in (0, 1):
        dev.schedule, before = seed, dev.schedule
        try:
            dev.compile(source, include_dirs=(_INCLUDE,)).get_function(kernel)(grid, threads, arguments(dev))
            found.append(None)
        except KernelFault as fault:
            found.append(fault)
        finally:
            dev.schedule = before
    return found


def _copied(body: str, grid: int = 1) -> tuple[list, str]:
    source = _COPIES.replace("BODY", body)
    arrays = lambda dev: tuple(dev.array(np.zeros(1024, np.float32), name) for name in "yz")  # noqa: E731
    return _found(source, 128, arrays, grid), source


@pytest.mark.parametrize(
    "body, grid",
    [
        (_PUT + _ALL + "z[t] = y[t]; a[t] = 0;", 1),
        ("if (t == 0) { add(y, a); add(y + 64, b); commit(); arrived<0>(); }", 3),
        (_STAGES.replace("N", "1") + _ALL, 1),
        ("a[t] = 1; __syncthreads(); if (t == 64) fence(); __syncthreads();\n" + _PUT + _ALL, 1),
        ("a[t] = 1; __syncthreads(); a[127 - t] = 2; fence(); __syncthreads();\n" + _PUT + _ALL, 1),
    ],
)
def test_copies_that_are_waited_for_race_with_nothing(body, grid):
    assert _copied(body, grid)[0] == [None, None]


@pytest.mark.parametrize(
    "body, grid, kind, first, last",
    [
        (_PUT + "if (t == 1) arrived<0>();\n__syncthreads();\nz[t] = y[t];  // USE\n" + _ALL, 1, "race", "PUT", "USE"),
        ("if (t == 0) { put(y, a); add(y + 64, b); commit(); arrived<0>(); }", 1, "race", "PUT", "ADD"),
        (_PUT + _ALL, 2, "race", "PUT", "PUT"),
        (_STAGES.replace("N", "2") + _ALL, 1, "race", "PUT", "USE"),
        (_LOAD.replace("512", "1024", 1) + "if (t == 0) get(a, y + 128, &bar); wait_for_phase(&bar, 0);", 1, "race", "GET", "GET"),
        (_PUT + _LOAD + "wait_for_phase(&bar, 0);\n" + _ALL, 1, "race", "PUT", "GET"),
        (_LOAD + "if (t == 0) y[3] = 4;  // USE\nwait_for_phase(&bar, 0);", 1, "race", "GET", "USE"),
        (f"if (blockIdx.x) {{ {_LOAD} wait_for_phase(&bar, 0); }}\nelse y[t] = 1;  // USE\n", 2, "race", "GET", "USE"),
    ],
)  # fmt: skip
def test_copies_race_with_threads_and_with_one_another(body, grid, kind, first, last):
    faults, source = _copied(body, grid)
    for fault in faults:
        lines = sorted((fault.line, fault.other.line)) if fault else None
        assert fault and (fault.kind, lines) == (
            kind,
            sorted((line_of(source, first), line_of(source, last))),
        )


def test_blocks_are_told_to_add_as_they_cannot_wait():
    assert all("all add to them" in fault.explanation for fault in _copied(_PUT + _ALL, 2)[0])


# -- products ---------------------------------------------------------------------------------------------------

_PRODUCT = r"""
#include "hopper.cuh"
struct Pair { __half x[64 * 64], w[64 * 64]; };
extern "C" __global__ void k(float* y, int steps, const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w) {
    __shared__ alignas(1024) Pair pair;
    __shared__ Barrier full;
    int t = threadIdx.x;
    if (t == 0) { make_barrier(&full, 1); show_barriers(); }  // MADE
    __syncthreads();  // SHOWN
    float d[32] = {};
    for (int step = 0; step < steps; step++) {
        if (t == 0) {
            arrive_and_expect(&full, sizeof(pair));
            copy_box(pair.x, &x, step * 64, 0, &full);  // COPY
            copy_box(pair.w, &w, step * 64, 0, &full);
        }
        wait_for_phase(&full, step % 2);  // FULL
        fence_sums();
        wgmma_m64n64k16(d, tile_at(pair.x, 1024), tile_at(pair.w, 1024));  // PRODUCT
        commit_products();
        wait_products<0>();  // WAIT
        __syncthreads();  // NEXT
    }
    for (int i = 0; i < 32; i++) y[i * 128 + t] = d[i];
}
"""
_FULL, _WAIT, _NEXT = (f"{code}  // {mark}" for code, mark in (
    ("wait_for_phase(&full, step % 2);", "FULL"), ("wait_products<0>();", "WAIT"), ("__syncthreads();", "NEXT")
))  # fmt: skip


_FENCE = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'


def _multiplied(*changes: tuple[str, str]) -> tuple[list, str]:
    source = _PRODUCT
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)

    def arguments(dev):
        x, w = (dev.tensor_map(dev.array(np.ones((64, 192), np.float16), n), (64, 64), "128B") for n in "xw")
        return dev.empty(4096, np.float32, name="y"), np.int32(3), x, w

    return _found(source, 128, arguments), source


@pytest.mark.parametrize(
    "changes",
    [
        (),
        # whoever has waited knows that a product is complete for all four warps
        ((_NEXT, ""),),
        ((_WAIT, f"if (t < 32) {_WAIT}"),),
        (
            ("step % 2);  // FULL", "0);"),
            (
                _NEXT,
                f'{_NEXT}\nif (t == 0) {{ asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(in_shared(&full)) : "memory");'
                " make_barrier(&full, 1); }\n__syncthreads();",
            ),
        ),
        ((_FULL, "if (t % 32 == 0) wait_for_phase(&full, step % 2); __syncwarp();"),),
        # copies swizzle by the address, as products do, so the tile may begin within the pattern
        (("Pair pair;", "char room[128 + sizeof(Pair)];\nPair& pair = *(Pair*)(room + 128);"),),
    ],
)
def test_products_of_tiles_that_are_there(changes):
    assert _multiplied(*changes)[0] == [None, None]


def _descriptor(mode: int, stride: int) -> str:
    return f"(tile_at(pair.w, {stride}) & ~(3ull << 62) | {mode}ull << 62)"


@pytest.mark.parametrize(
    "changes, values",
    [
        ((("tile_at(pair.x, 1024)", "tile_at(pair.x, 512)"),), ("of A", "512 bytes", "1,024 bytes")),
        ((("tile_at(pair.w, 1024)", _descriptor(2, 512)),), ("of B", "64 bytes", "128 bytes")),
        ((("tile_at(pair.w, 1024)", _descriptor(0, 256)),), ("of B", "none", "128 bytes")),
        (
            (
                (_FULL, f"{_FULL}\npair.w[64 + t] = 1;\n{_FENCE}\n__syncthreads();"),
                ("tile_at(pair.w, 1024)", "tile_at(pair.w + 64, 1024)"),
            ),
            ("of B", "128 bytes past", "1,024"),
        ),
    ],
)
def test_a_descriptor_fits_the_tile_that_was_copied(changes, values):
    faults, source = _multiplied(*changes)
    for fault in faults:
        assert fault and (fault.kind, fault.line) == ("descriptor", line_of(source, "PRODUCT"))
        assert all(value in fault.explanation for value in values)


@pytest.mark.parametrize(
    "changes, kind, line, other",
    [
        (((_FULL, f"if (t == 0) {_FULL}"),), "unlanded", "PRODUCT", "COPY"),
        (((_FULL, f"if (t / 32 != 2) {_FULL}"),), "unlanded", "PRODUCT", "COPY"),
        (((_WAIT, ""),), "refilled", "COPY", "PRODUCT"),
        (((_WAIT, f"if (t >= 32) {_WAIT}"), (_NEXT, "")), "refilled", "COPY", "PRODUCT"),
        (((_WAIT, f"if (t == 5) pair.x[9] = __half(0);  // USE\n{_WAIT}"),), "overwritten", "PRODUCT", "USE"),
        ((("__syncthreads();  // SHOWN", ""),), "race", "FULL", "MADE"),
        (
            ((_NEXT, f"{_NEXT}\nif (t == 0) make_barrier(&full, 1);  // AGAIN\n__syncthreads();"),),
            "made-again",
            "AGAIN",
            "MADE",
        ),
    ],
)
def test_a_product_races_with_what_its_warps_do_not_know(changes, kind, line, other):
    faults, source = _multiplied(*changes)
    for fault in faults:
        assert fault and (fault.kind, fault.line) == (kind, line_of(source, line))
        assert fault.other.line == line_of(source, other)


def test_what_the_assembler_mends_is_a_note():
    """Of the optimised build alone: without optimisation sums are stored at once."""
    for old, checks, lines in (
        (_FULL, "memory", 0),
        ("fence_sums();", "memory", 1),
        ("fence_sums();", "full", 0),
    ):
        dev, source = device(checks), _PRODUCT.replace(old, old if old == _FULL else "")
        x, w = (dev.tensor_map(dev.array(np.ones((64, 192), np.float16), n), (64, 64), "128B") for n in "xw")
        kernel = dev.compile(source, include_dirs=(_INCLUDE,)).get_function("k")
        notes = kernel(1, 128, (dev.empty(4096, np.float32, name="y"), np.int32(3), x, w)).notes
        assert [note.line for note in notes] == [line_of(source, "PRODUCT")] * lines


# -- registers --------------------------------------------------------------------------------------------------

_REGISTERS = r"""
#include "hopper.cuh"
extern "C" __global__ void __launch_bounds__(384, 1) k(float* y) {
    int t = threadIdx.x;
    if (t < 128) give_up_registers<40>();
    else take_registers<232>();  // TAKE
    y[t] = 1;
}
"""


@pytest.mark.parametrize(
    "changes, says",
    [
        ((), ""),
        ((("(384, 1)", "(384)"), ("<40>", "<48>")), ""),  # the assembler ignores both
        ((("<40>", "<24>"), ("<232>", "<240>")), ""),
        ((("<40>", "<48>"),), "64,512 together, and with this the block wants 65,536"),
        ((("<232>", "<240>"),), "the block wants 66,560"),
        ((("else take", "else if (t < 320) take"),), "that of thread 320 of the block, of the same group, executes none"),
    ],
)  # fmt: skip
def test_registers_that_are_taken_are_given_up_by_others(changes, says):
    source = _REGISTERS
    for old, new in changes:
        source = source.replace(old, new)
    for fault in _found(source, 384, lambda dev: (dev.empty(384, name="y"),)):
        assert (fault is None) == (not says)
        assert not says or says in fault.explanation and fault.line == line_of(source, "TAKE")


# -- random copies ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 40))])
def test_random_copies_race_as_they_are_reckoned_to(seed):
    """All pairs of lines, and no others. The rest of the seeds takes minutes."""
    source, made = programs(seed, 6, 30)
    dev, lines = device(), source.splitlines()
    module = dev.compile(source)
    for number, statements in enumerate(made):
        start = next(i for i, line in enumerate(lines) if f"void k{number}(" in line)
        first = lines.index("    __syncthreads();", start) + 2
        faults, reckoned = [], Reckoning(statements)
        dev.schedule, before = (seed + number) % 3, dev.schedule
        try:
            arrays = (dev.array(np.zeros(64, np.uint32), name) for name in ("y", "out"))
            module.get_function(f"k{number}")(1, 64, tuple(arrays))
        except KernelFault as fault:
            faults = [fault, *fault.more]
        finally:
            dev.schedule = before
        pairs = {
            kind: {(f.other.line - first, f.line - first) for f in faults if f.kind == kind}
            for kind in _KINDS
        }
        assert {f.kind for f in faults} <= {*_KINDS}
        assert {tuple(sorted(pair)) for pair in pairs["race"]} == {tuple(sorted(p)) for p in reckoned.races()}
        may, must = reckoned.unfenced()
        assert pairs["unfenced"] <= may and must <= {copy for _, copy in pairs["unfenced"]}
