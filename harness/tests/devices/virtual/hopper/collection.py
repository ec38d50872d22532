"""Short kernels with Hopper's asynchronous instructions: right ones, and ones with a line changed that breaks one rule.

All have the same frame, so that they are compiled together: 128 threads, a tile of 4,096 floats aligned to 1,024 bytes, and a
barrier with one arrival. `x` has 0, 1, 2, ...; `y` is what a kernel leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

HEAD = r"""
#include "hopper.cuh"
#include <cuda_bf16.h>
#define VOLATILE(text, ...) asm volatile(text :: __VA_ARGS__ : "memory")
__device__ void get(void* to, const void* from, int bytes, Barrier* b) { VOLATILE("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];", "r"(in_shared(to)), "l"(from), "r"(bytes), "r"(in_shared(b))); }
__device__ void put(void* to, const void* from, int bytes) { VOLATILE("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;", "l"(to), "r"(in_shared(from)), "r"(bytes)); }
__device__ void commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int n> __device__ void arrived() { asm volatile("cp.async.bulk.wait_group %0;" :: "n"(n) : "memory"); }
template <int n> __device__ void was_read() { asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(n) : "memory"); }
__device__ void fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ int elected() { int is; asm volatile("{.reg .pred p; elect.sync _|p, 0xffffffff; selp.s32 %0, 1, 0, p;}" : "=r"(is)); return is; }
"""
FRAME = r"""
extern "C" __global__ void __launch_bounds__(128) NAME(float* y, const float* x, const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap out) {
    __shared__ alignas(1024) float tile[4096];
    __shared__ alignas(16) Barrier bar, more[4];
    int t = threadIdx.x;
    if (t == 0) { make_barrier(&bar, 1); for (int i = 0; i < 4; i++) make_barrier(&more[i], 128); show_barriers(); }
    __syncthreads();
    BODY
}
"""
LOAD = "if (t == 0) { arrive_and_expect(&bar, 2048); get(tile, x, 2048, &bar); }\n"
SHOW = "for (int i = t; i < 512; i += 128) y[i] = tile[i];\n"
FILL = "for (int i = t; i < 512; i += 128) tile[i] = i;\nfence();\n__syncthreads();\n"
TO_COPIES = 'asm volatile("fence.proxy.async.global;" ::: "memory");\n'
ADD = 'VOLATILE("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 2048;", "l"(y), "r"(in_shared(tile)));\n'
DONE = "if (t == 0) { commit(); arrived<0>(); }\n"
WAIT = "wait_for_phase(&bar, 0);\n"


@dataclass(frozen=True)
class Right:
    """wanted: the first numbers of y, from x."""

    body: str
    wanted: Callable[[np.ndarray], np.ndarray] = lambda x: x[:512]


def waits(opcode: str, operands: str, given: str = '"r"(0)') -> str:
    """A load that is waited for by a loop around one form of a wait. operands: after the address."""
    wait = f"{{.reg .pred p; mbarrier.{opcode} p, [%1], {operands}; selp.s32 %0, 1, 0, p;}}"
    inputs = f'"r"(in_shared(&bar)), {given}'
    return (
        f'{LOAD}for (int over = 0; !over;) asm volatile("{wait}" : "=r"(over) : {inputs} : "memory");\n{SHOW}'
    )


def reduced(type_: str, c_type: str, update: str, old: str, new: str) -> str:
    """y, of `c_type`, begins with `old` and is updated by `new`, both of i."""
    size = {"b64": 8, "u64": 8, "s64": 8, "f64": 8, "f16": 2, "bf16": 2}.get(type_, 4)
    modifier = ".noftz" if type_ in ("f16", "bf16") and update == "add" else ""
    return f"""{c_type} *to = ({c_type}*)y, *by = ({c_type}*)tile;
    for (int i = t; i < 128; i += 128) {{ to[i] = ({c_type})({old}); by[i] = ({c_type})({new}); }}
    fence();
    __syncthreads();
    __threadfence();
    if (t == 0) {{
        asm volatile("fence.proxy.async.global;" ::: "memory");
        VOLATILE("cp.reduce.async.bulk.global.shared::cta.bulk_group.{update}{modifier}.{type_} [%0], [%1], {128 * size};", "l"(to), "r"(in_shared(by)));
        commit();
        arrived<0>();
    }}
    __syncthreads();
    float own = (float)to[t];
    __syncthreads();
    y[t] = own;"""


I = np.arange(128, dtype=np.float32)  # noqa: E741
REDUCED = {
    "add_s32": (("s32", "int", "add", "i", "3 - i"), 3 + 0 * I),
    "add_u32": (("u32", "unsigned", "add", "i", "2 * i"), 3 * I),
    "add_u64": (("u64", "unsigned long long", "add", "i", "5"), I + 5),
    "add_f32": (("f32", "float", "add", "i", "0.5f"), I + 0.5),
    "add_f64": (("f64", "double", "add", "i", "0.25"), I + 0.25),
    "add_f16": (("f16", "__half", "add", "(float)i", "1.0f"), I + 1),
    "add_bf16": (("bf16", "__nv_bfloat16", "add", "(float)i", "1.0f"), I + 1),
    "min_s32": (("s32", "int", "min", "i", "64 - i"), np.minimum(I, 64 - I)),
    "max_u32": (("u32", "unsigned", "max", "i", "64"), np.maximum(I, 64)),
    "min_s64": (("s64", "long long", "min", "i", "9 - i"), np.minimum(I, 9 - I)),
    "max_f16": (("f16", "__half", "max", "(float)i", "50.0f"), np.maximum(I, 50)),
    "and_b32": (("b32", "unsigned", "and", "i", "6"), (I.astype(int) & 6).astype(float)),
    "or_b32": (("b32", "unsigned", "or", "i", "128"), I + 128),
    "xor_b64": (("b64", "unsigned long long", "xor", "i", "1"), (I.astype(int) ^ 1).astype(float)),
    "inc_u32": (("u32", "unsigned", "inc", "i", "100"), np.where(I >= 100, 0, I + 1)),
    "dec_u32": (("u32", "unsigned", "dec", "i", "100"), np.where((I == 0) | (I > 100), 100, I - 1)),
}
STAGE = "float* stage = tile + n % {stages} * 512;\n"
#: tiles 0 to 7 through a few stages, thread 0 among those who read
PERSISTENT = """float sum = 0;
    Barrier *empty = more;
    __shared__ Barrier full[4];
    if (t == 0) {{ for (int i = 0; i < {stages}; i++) make_barrier(&full[i], 1); show_barriers(); }}
    __syncthreads();
    for (int n = 1 - {stages}; n < 8; n++) {{
        if (n >= 0) {{
            wait_for_phase(&full[n % {stages}], n / {stages} % 2);
            for (int i = t; i < 256; i += 128) sum += (n + 1) * tile[n % {stages} * 512 + i];
            arrive(&empty[n % {stages}]);  // released
        }}
        int next = n + {stages} - 1, stage = next % {stages};
        if (t == 0 && next < 8) {{
            wait_for_phase(&empty[stage], (next / {stages} + 1) % 2);
            arrive_and_expect(&full[stage], 1024);
            get(tile + stage * 512, x + 256 * next, 1024, &full[stage]);
        }}
    }}
    y[t] = sum;"""


def streamed(x: np.ndarray) -> np.ndarray:
    return sum((n + 1) * x[256 * n : 256 * n + 256].reshape(2, 128).sum(0) for n in range(8))


RIGHT = {
    "load": Right(LOAD + WAIT + SHOW),
    "load_with_hint": Right(
        'if (t == 0) { arrive_and_expect(&bar, 2048); unsigned long long p; asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(p)); '
        'VOLATILE("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], 2048, [%2], %3;", "r"(in_shared(tile)), "l"(x), "r"(in_shared(&bar)), "l"(p)); }\n'
        + WAIT
        + SHOW
    ),
    "two_copies_one_phase": Right(LOAD.replace("get(tile, x, 2048, &bar);", "get(tile, x, 512, &bar); get(tile + 128, x + 128, 1536, &bar);") + WAIT + SHOW),
    "expect_apart": Right(
        'if (t == 0) { VOLATILE("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 2048;", "r"(in_shared(&bar))); get(tile, x, 2048, &bar); arrive(&bar); }\n' + WAIT + SHOW
    ),
    "expected_late": Right("if (t == 0) { get(tile, x, 2048, &bar); arrive_and_expect(&bar, 2048); }\n" + WAIT + SHOW),
    "arrive_of_many": Right(
        LOAD.replace("&bar", "&more[0]").replace("arrive_and_expect", 'VOLATILE("mbarrier.arrive.shared::cta.b64 _, [%0], 127;", "r"(in_shared(&more[0]))); arrive_and_expect')
        + WAIT.replace("bar", "more[0]") + SHOW
    ),
    "state_of_arrival": Right(
        'unsigned long long s; tile[t] = t; asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(s) : "r"(in_shared(&more[0])) : "memory");\n'
        'for (int over = 0; !over;) asm volatile("{.reg .pred p; mbarrier.try_wait.shared::cta.b64 p, [%1], %2; selp.s32 %0, 1, 0, p;}" : "=r"(over) : "r"(in_shared(&more[0])), "l"(s) : "memory");\n'
        "y[t] = tile[127 - t];", lambda x: x[127::-1]
    ),
    "arrive_and_drop": Right(
        'tile[t] = t; if (t >= 64) { VOLATILE("mbarrier.arrive_drop.shared::cta.b64 _, [%0];", "r"(in_shared(&more[0]))); return; }\n'
        "for (int n = 0; n < 3; n++) { arrive(&more[0]); wait_for_phase(&more[0], n % 2); }\ny[t] = tile[127 - t];", lambda x: x[127:63:-1]
    ),
    "made_again": Right(
        LOAD + WAIT + '__syncthreads(); if (t == 0) { VOLATILE("mbarrier.inval.shared::cta.b64 [%0];", "r"(in_shared(&bar))); make_barrier(&bar, 1); show_barriers(); }\n__syncthreads();\n'
        + LOAD + WAIT + SHOW
    ),
    "wait_test": Right(waits("test_wait.parity.shared::cta.b64", "%2")),
    "wait_try_acquire": Right(waits("try_wait.parity.acquire.cta.shared::cta.b64", "%2")),
    "wait_try_for_a_time": Right(waits("try_wait.parity.shared::cta.b64", "%2, 1000")),
    "wait_try_bare": Right(waits("try_wait.parity.b64", "%2").replace('"r"(in_shared(&bar)), "r"(0)', '"l"(&bar), "r"(0)')),
    "store": Right(FILL + "if (t == 0) put(y, tile, 2048);\n" + DONE),
    "store_in_turns": Right(
        "for (int n = 0; n < 4; n++) { float* from = tile + n % 2 * 128; if (t == 0) was_read<1>();\n__syncthreads();\nfrom[t] = 128 * n + t; fence(); __syncthreads();\n"
        "if (t == 0) { put(y + 128 * n, from, 512); commit(); } }\nif (t == 0) arrived<0>();"
    ),
    "through_shared": Right(LOAD + WAIT + "if (t == 0) put(y, tile, 2048);\n" + DONE),
    "tensor_load": Right("if (t == 0) { arrive_and_expect(&bar, 2048); copy_box(tile, &a, 0, 0, &bar); }\n" + WAIT + SHOW),
    "tensor_store": Right(FILL + 'if (t == 0) VOLATILE("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %2}], [%1];", "l"(&out), "r"(in_shared(tile)), "r"(0));\n' + DONE),
    "tensor_add": Right(
        FILL + "for (int i = t; i < 512; i += 128) y[i] = 1;\n__threadfence();\n__syncthreads();\n"
        'if (t == 0) { asm volatile("fence.proxy.async.global;" ::: "memory"); VOLATILE("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%2, %2}], [%1];", "l"(&out), "r"(in_shared(tile)), "r"(0)); }\n' + DONE,
        lambda x: x[:512] + 1
    ),
    "prefetches": Right(
        'if (t == 0) { VOLATILE("cp.async.bulk.prefetch.L2.global [%0], 2048;", "l"(x)); VOLATILE("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %1}];", "l"(&a), "r"(0)); '
        'VOLATILE("prefetch.tensormap [%0];", "l"(&a)); }\n' + LOAD + WAIT + SHOW
    ),
    "elected_lane": Right("if (t < 32 && elected()) { arrive_and_expect(&bar, 2048); get(tile, x, 2048, &bar); }\n" + WAIT + SHOW),
    "elected_stores": Right(FILL + "if (t < 32) { int own = elected(); if (own) put(y, tile, 2048); if (own) { commit(); arrived<0>(); } }"),
    "parity_of_a_count": Right(LOAD + "wait_for_phase(&bar, 2);\n" + SHOW),  # a note
    "through_global": Right(
        "y[512 + t] = t;  // mine\n" + TO_COPIES + "__syncthreads();\nif (t == 0) { arrive_and_expect(&bar, 512); get(tile, y + 512, 512, &bar); }\n" + WAIT + "y[t] = tile[t];",
        lambda x: x[:128]
    ),
    "updated_twice": Right(
        FILL + "for (int i = t; i < 512; i += 128) y[i] = 1;\n" + TO_COPIES + "__syncthreads();\n"
        "if (t == 0) { " + 2 * ADD + "commit(); arrived<0>(); }", lambda x: 2 * x[:512] + 1
    ),
    "dependent_launch": Right(
        'asm volatile("griddepcontrol.wait;" ::: "memory");\n' + LOAD + WAIT + SHOW + 'asm volatile("griddepcontrol.launch_dependents;" ::: "memory");'
    ),
    "matrices_stored": Right(
        'unsigned pair = __float_as_uint(__uint_as_float((unsigned)t));  // 8 rows of 8 halves to each of 4 places\n'
        'if (t < 32) VOLATILE("stmatrix.sync.aligned.m8n8.x1.shared::cta.b16 [%0], {%1};", "r"(in_shared(tile) + t % 8 * 16), "r"(pair));\n'
        "__syncthreads();\nif (t < 32) y[t] = __float_as_uint(tile[t]);", lambda x: x[:32]
    ),
    **{f"persistent_{stages}": Right(PERSISTENT.format(stages=stages), streamed) for stages in (2, 3, 4)},
    **{name: Right(reduced(*how), lambda x, found=found: found) for name, (how, found) in REDUCED.items()},
}  # fmt: skip


@dataclass(frozen=True)
class Wrong:
    """A right kernel with some of its text changed. kinds: of fault, by the order any of these. line: in the text of the line
    that is named, or of the other one. orders: those in which it shows."""

    of: str
    old: str
    new: str
    kinds: str
    line: str
    orders: tuple[int, ...] = (0, 1, 2)


#: the reading of a tile, and its release
RELEASED = "\n".join(
    line for line in PERSISTENT.format(stages=3).splitlines() if "sum +=" in line or "released" in line
)

#: one for each rule
WRONG = {
    "not waited for": Wrong("load", WAIT, "", "race", "y[i] = tile[i];"),
    "other parity": Wrong("load", WAIT, "wait_for_phase(&bar, 1);\n", "race", "y[i] = tile[i];"),
    "one warp does not wait": Wrong("load", WAIT, "if (t >= 32) wait_for_phase(&bar, 0);\n", "race", "y[i] = tile[i];"),
    "fewer bytes": Wrong("load", "2048)", "1024)", "stuck-at-phase", "arrive_and_expect(&bar, 1024)"),
    "more bytes": Wrong("load", "2048)", "4096)", "stuck-at-phase", "arrive_and_expect(&bar, 4096)"),
    "second copy not counted": Wrong("two_copies_one_phase", "2048)", "512)", "race", "y[i] = tile[i];"),
    "copy left out": Wrong("load", "get(tile, x, 2048, &bar);", "", "stuck-at-phase", "arrive_and_expect(&bar, 2048)"),
    "no arrival": Wrong("expect_apart", "arrive(&bar);", "", "stuck-at-phase", "wait_for_phase(&bar, 0)"),
    "arrives twice": Wrong("load", "arrive_and_expect", "arrive(&bar); arrive_and_expect", "race", "y[i] = tile[i];"),
    "one arrival too few": Wrong("arrive_of_many", ", 127;", ", 126;", "stuck-at-phase", "wait_for_phase(&more[0], 0)"),
    "drop forgotten": Wrong("arrive_and_drop", "arrive_drop", "arrive", "stuck-at-phase", "wait_for_phase(&more[0], n % 2)"),
    "barrier not made": Wrong("load", LOAD + WAIT, "__shared__ Barrier bad;\n" + (LOAD + WAIT).replace("&bar", "&bad"), "race too-many", "y[i] = tile[i];"),
    "barrier used after its end": Wrong("made_again", "make_barrier(&bar, 1); show_barriers(); ", "", "race too-many", "y[i] = tile[i];"),
    "barrier not aligned": Wrong("load", LOAD, "Barrier& bad = *(Barrier*)((char*)&bar + 4);\n" + LOAD.replace("&bar", "&bad"), "misaligned", "arrive_and_expect(&bad, 2048)"),
    "destination not aligned": Wrong("load", "get(tile,", "get(tile + 1,", "misaligned", "void get("),
    "source not aligned": Wrong("load", "get(tile, x,", "get(tile, x + 1,", "misaligned", "void get("),
    "bytes not of sixteen": Wrong("load", "2048, &bar)", "2040, &bar)", "misaligned", "void get("),
    "tensor not aligned": Wrong("tensor_load", "copy_box(tile,", "copy_box(tile + 4,", "misaligned", "copy_box(tile + 4,"),
    "beyond the tile": Wrong("load", "get(tile,", "get(tile + 4000,", "out-of-bounds", "void get("),
    "beyond the array": Wrong("load", "get(tile, x,", "get(tile, x + 4000,", "out-of-bounds", "void get("),
    "stored beyond the array": Wrong("store", "put(y,", "put(y + 4000,", "out-of-bounds", "void put("),
    "store without a fence": Wrong("store", "fence();\n", "", "unfenced", "tile[i] = i;"),
    "fence before the stores": Wrong("store", FILL, "fence();\n" + FILL.replace("fence();\n", ""), "unfenced", "tile[i] = i;"),
    "store not waited for": Wrong("store", "arrived<0>();", "", "under-way", "void put("),
    "store in no group": Wrong("store", "commit();", "", "under-way", "void put("),
    "store before all have written": Wrong("store", "__syncthreads();\n", "", "race unfenced", "tile[i] = i;"),
    "overwritten while stored": Wrong("store_in_turns", "was_read<1>();", "was_read<2>();", "race", "from[t] = "),
    "never released": Wrong("persistent_3", "arrive(&empty[n % 3]);", "", "stuck-at-phase", "wait_for_phase(&empty[stage]"),
    "refilled too early": Wrong("persistent_3", "wait_for_phase(&empty[stage], (next / 3 + 1) % 2);", "", "race", "sum += "),
    "released before it is read": Wrong("persistent_3", RELEASED, "\n".join(reversed(RELEASED.split("\n"))), "race", "sum += "),
    "first lane taken for the elected": Wrong("elected_stores", "if (own) { commit", "if (t == 0) { commit", "under-way", "void put(", (1, 3)),
    "barriers used before they are made": Wrong("persistent_2", "__syncthreads();\n    for", "for", "race stuck-at-phase too-many", ""),
    "a store beside a reduction": Wrong("add_s32", "commit();", "put(to, by, 512);\n        commit();", "race", "void put("),
    "fenced for global memory alone": Wrong("store", "fence();\n", TO_COPIES, "unfenced", "tile[i] = i;"),
    "fenced for shared memory alone": Wrong("through_global", TO_COPIES, "fence();\n", "unfenced", "// mine"),
    "update of what is not fenced": Wrong("updated_twice", TO_COPIES, "fence();\n", "unfenced", "y[i] = 1;"),
    "updates of two kinds": Wrong("add_s32", "commit();", 'VOLATILE("cp.reduce.async.bulk.global.shared::cta.bulk_group.min.s32 [%0], [%1], 512;", "l"(to), "r"(in_shared(by)));\n        commit();', "race", "min.s32"),
    "result read too early": Wrong("add_f32", "arrived<0>();\n    }", "was_read<0>();\n    }", "race", "float own = "),
}  # fmt: skip


def source(bodies: dict[str, str]) -> str:
    return HEAD + "".join(FRAME.replace("NAME", name).replace("BODY", body) for name, body in bodies.items())
