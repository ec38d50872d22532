"""Inline assembly that reaches for memory that is not the kernel's: each attempt ends in a fault that says
what it did, in an expendable process, and the next kernel runs normally."""

from __future__ import annotations

import re

import numpy as np
import pytest

from backwarp.devices import open_device
from backwarp.errors import CompileError, KernelFault, LaunchError, Unsupported

OUT_OF_BOUNDS = r"Invalid __(global|shared|local|constant)__ (read|write|atomic|copy)"
BEFORE = """
#include <cassert>
__constant__ int table[4];
__device__ __noinline__ int next(int n) { return n + 1; }
struct Large { int c[200]; };
__device__ __noinline__ Large large(int n) { Large l; for (int i = 0; i < 200; i++) l.c[i] = n; return l; }
struct Pair { int a, b; };
__device__ __noinline__ int takes(Pair p) { return p.a; }
__device__ int (*next_pointer)(int) = next;
__device__ Large (*large_pointer)(int) = large;
__device__ int (*takes_pointer)(Pair) = takes;
"""
CALL = (
    "{{ .param .b32 a; .param .b32 r; .reg .b64 f; {pointer} st.param.b32 [a], 3; call (r), f, (a), p;"
    " p: .callprototype (.param .b32 _) _ (.param .b32 _); ld.param.b32 %0, [r]; }}"
)
LOOP = (
    "{{ .reg .b32 i, j, n; .reg .b64 a; .reg .pred q, t; .local .align 4 .b8 own[64]; mov.u32 i, 0; setp.eq.u32 t, i, 0;"
    " bra L; L: mov.u32 j, i; {body} @!q bra E; mov.u64 a, own; st.local.u32 [a], j; mov.u32 i, n; bra L; E: }}"
)

#: kernel -> (statements, in which x is an array of 64 ints that all lanes of a warp have; what is said, or None if it runs)
ATTACKS: dict[str, tuple[str, str | None]] = {
    # -- addresses, in each space ----------------------------------------------------------------
    "global_null": ('asm volatile("st.global.u32 [0], 1;");', OUT_OF_BOUNDS),
    "global_host": (
        'asm volatile("st.global.u32 [%0], 1;" :: "l"(0x7fffffffe000ull));', OUT_OF_BOUNDS),
    "global_last": ('asm volatile("st.global.u32 [%0], 1;" :: "l"(~3ull));', OUT_OF_BOUNDS),
    "global_wraps": (
        'asm volatile("ld.global.v4.u32 {%0, %0, %0, %0}, [%1];" : "=r"(x[0]) : "l"(~0ull - 7));', OUT_OF_BOUNDS),
    "global_far_offset": ('asm volatile("st.global.u32 [%0+999999999996], 1;" :: "l"(x));', OUT_OF_BOUNDS),
    "global_far_hex": ('asm volatile("st.global.u32 [%0+0x7ffffffc], 1;" :: "l"(x));', OUT_OF_BOUNDS),
    "global_before": ('asm volatile("st.global.u32 [%0+-4096], 1;" :: "l"(x));', OUT_OF_BOUNDS),
    "generic_window": ('asm volatile("st.u32 [%0], 1;" :: "l"(0x100000000ull));', OUT_OF_BOUNDS),
    "global_crooked": ('asm volatile("st.global.u64 [%0+4], 1;" :: "l"(x));', "misaligned address"),
    "shared_past": ('asm volatile("st.shared.u32 [%0], 1;" :: "r"(1 << 20));', OUT_OF_BOUNDS),
    "shared_negative": ('asm volatile("st.shared.u32 [%0], 1;" :: "r"(-64));', OUT_OF_BOUNDS),
    "shared_wide": ('asm volatile("st.shared.u32 [%0], 1;" :: "l"(1ull << 40));', OUT_OF_BOUNDS),
    "shared_symbol_past": ('__shared__ int s[4]; s[0] = 1; asm volatile("st.shared.u32 [%0+1048560], 1;" :: "l"(s));', OUT_OF_BOUNDS),
    "local_as_shared": (
        'asm volatile(".local .align 8 .b8 own[64]; { .reg .b64 a; mov.u64 a, own; st.shared.u32 [a], 7; }");', OUT_OF_BOUNDS),
    "local_read_as_shared": (
        'asm volatile(".local .align 8 .b8 kept[64]; { .reg .b64 a; mov.u64 a, kept; ld.shared.u32 %0, [a+8]; }" : "=r"(x[0]));',
        OUT_OF_BOUNDS),
    "shared_as_local": ('__shared__ int s[4]; s[0] = 1; asm volatile("st.local.u32 [%0], 1;" :: "r"((unsigned)__cvta_generic_to_shared(s)));', OUT_OF_BOUNDS),
    "shared_offset_as_global": ('__shared__ int s[4]; s[0] = 1; asm volatile("st.global.u32 [%0], 1;" :: "l"(__cvta_generic_to_shared(s)));', OUT_OF_BOUNDS),
    "local_past": ('asm volatile(".local .align 8 .b8 room[64]; { .reg .b64 a; mov.u64 a, room; st.local.u32 [a+64], 7; }");', OUT_OF_BOUNDS),
    "local_of_another": ('asm volatile(".local .align 8 .b8 here[64]; { .reg .b64 a; mov.u64 a, here; add.u64 a, a, 1900544; st.local.u32 [a], 7; }");', OUT_OF_BOUNDS),
    "local_twice": (
        'asm volatile(".local .align 8 .b8 two[8]; { .local .align 8 .b8 two[400000]; .reg .b64 a; mov.u64 a, two;'
        ' add.u64 a, a, 399992; st.local.u32 [a+8], 7; }");', OUT_OF_BOUNDS),
    "const_written": ('asm volatile("st.global.u32 [%0], 1;" :: "l"(&table[1]));', "may only read it"),
    "const_past": ('asm volatile("ld.const.u32 %0, [%1+64];" : "=r"(x[0]) : "l"(table));', OUT_OF_BOUNDS),
    "param_by_register": ('asm volatile("{ .reg .b64 a; mov.b64 a, %1; ld.param.u32 %0, [a]; }" : "=r"(x[0]) : "l"(5ull << 40));', OUT_OF_BOUNDS),
    "param_octal": ('asm volatile("{ .param .align 4 .b8 p[512]; ld.param.u32 %0, [p+0770]; }" : "=r"(x[0]));', None),
    # -- what touches memory otherwise -----------------------------------------------------------
    "atomic_outside": ('asm volatile("red.global.add.u32 [%0], 1;" :: "l"(x + 4096));', OUT_OF_BOUNDS),
    "atomic_half": ('asm volatile("{ .reg .b16 h; atom.global.cas.b16 h, [%0], 0, 1; }" :: "l"((char*)x + 257));', "misaligned|Invalid"),
    "atomic_shared": ('asm volatile("red.shared.add.u32 [%0], 1;" :: "r"(900000));', OUT_OF_BOUNDS),
    "copy_from_outside": (
        '__shared__ int s[4]; asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(s)), "l"(x + 100000));', OUT_OF_BOUNDS),
    "copy_to_outside": ('asm volatile("cp.async.ca.shared.global [%0], [%1], 020;" :: "r"(700000), "l"(x));', OUT_OF_BOUNDS),
    "copy_of_more": (
        '__shared__ __align__(16) int s[8]; asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2; cp.async.wait_all;" :: "r"((unsigned)__cvta_generic_to_shared(s)), "l"(x), "r"(1 << 30));', "Race|^$"),
    "prefetch_anywhere": ('asm volatile("prefetch.global.L2 [%0];" :: "l"(1ull << 50));', None),
    "mbarrier_outside": ('asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(800000));', OUT_OF_BOUNDS),
    "mbarrier_of_nothing": (
        '__shared__ long long b; b = 0; asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" :: "r"((unsigned)__cvta_generic_to_shared(&b)));', "Race|Too many arrivals|^$"),
    "matrix_rows_outside": (
        'int v; asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(v) : "r"(950000)); x[threadIdx.x] = v;', OUT_OF_BOUNDS),
    "matrix_rows_stored_outside": (
        'asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%0};" :: "r"(950000));', OUT_OF_BOUNDS),
    "matrix_rows_only_read": (
        "__shared__ __align__(16) int s[32]; s[threadIdx.x] = 1; __syncthreads(); unsigned a = (unsigned)__cvta_generic_to_shared(s), q = 0;"
        ' if (threadIdx.x < 8) asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(q) : "r"(a));'
        ' else asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" :: "r"(a), "r"(q)); x[threadIdx.x] = q;',
        "with another shape or type"),
    "matrix_rows_of_others": (
        "__shared__ __align__(16) int s[512]; for (int i = threadIdx.x; i < 512; i += 32) s[i] = i; __syncthreads();"
        " unsigned a = (unsigned)__cvta_generic_to_shared(s), b = 1u << 30, q = 0, r = 0, t = 0, u = 0; if (threadIdx.x < 8)"
        ' asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(q), "=r"(r), "=r"(t), "=r"(u) : "r"(a));'
        ' else asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(q) : "r"(b)); x[threadIdx.x] = u;',
        "all lanes of a warp must execute the same matrix instruction"),
    "matrix_turned": (
        "__shared__ __align__(16) int s[32]; s[threadIdx.x] = 1; __syncthreads(); unsigned a = (unsigned)__cvta_generic_to_shared(s), q = 0;"
        ' if (threadIdx.x & 1) asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(q) : "r"(a));'
        ' else asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(q) : "r"(a)); x[threadIdx.x] = q;',
        "with another shape or type"),
    "products_differ": (
        "float d[4] = {0, 0, 0, 0}; unsigned a = 0; if (threadIdx.x & 1)"
        ' asm volatile("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%4}, {%4}, {%0,%1,%2,%3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a));'
        ' else asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%4}, {%4}, {%0,%1,%2,%3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a));'
        " x[threadIdx.x] = d[0];", "with another shape or type"),
    "fragment_outside": (
        'int v; asm volatile("wmma.load.c.sync.aligned.row.m16n16k16.global.s32 {%0,%0,%0,%0,%0,%0,%0,%0}, [%1], %2;" : "=r"(v) : "l"(x), "r"(1 << 28)); x[0] = v;',
        OUT_OF_BOUNDS),
    # -- where control goes ------------------------------------------------------------------------
    "branch_past_table": (
        'asm volatile("{ ts: .branchtargets A, B; brx.idx %0, ts; A: st.global.u32 [%1], 1; B: }" :: "r"(x[0] + 77), "l"(x));',
        "The index of this branch is past the end of its table"),
    "branch_negative": (
        'asm volatile("{ ts: .branchtargets A; brx.idx %0, ts; A: }" :: "r"(x[0] - 1));', "past the end of its table"),
    "branch_unset": ('asm volatile("{ .reg .u32 i; ts: .branchtargets A; brx.idx i, ts; A: }");', "past the end|no value"),
    "pointer_made_up": (f'int v; asm volatile("{CALL.format(pointer="mov.b64 f, 12345;")}" : "=r"(v)); x[0] = v;', "does not point to a function"),
    "pointer_near": (f'int v; asm volatile("{CALL.format(pointer="ld.global.b64 f, [%1]; add.u64 f, f, 8;")}" : "=r"(v) : "l"(&next_pointer)); x[0] = v;', "does not point to a function"),
    "pointer_result_larger": (f'int v; asm volatile("{CALL.format(pointer="ld.global.b64 f, [%1];")}" : "=r"(v) : "l"(&large_pointer)); x[0] = v;', "with these parameters"),
    "pointer_argument_larger": (f'int v; asm volatile("{CALL.format(pointer="ld.global.b64 f, [%1];")}" : "=r"(v) : "l"(&takes_pointer)); x[0] = v;', "with these parameters"),
    "pointer_read": ('asm volatile("{ .reg .b64 f; ld.global.b64 f, [%0]; st.global.u32 [f], 1; }" :: "l"(&next_pointer));', OUT_OF_BOUNDS),
    # -- loops that look short -----------------------------------------------------------------------
    "endless_or": (f'asm volatile("{LOOP.format(body="add.s32 n, j, 1; setp.lt.or.s32 q, j, 10, t;")}");', "timed out"),
    "endless_wraps": (f'asm volatile("{LOOP.format(body="add.u32 n, j, 4294967290; setp.lt.u32 q, j, 4294967295;")}");', "timed out"),
    "endless_step_wraps": (f'asm volatile("{LOOP.format(body="add.s32 n, j, 4294967296; setp.lt.s32 q, j, 17179869184; setp.lt.s32 q, j, 5;")}");', "timed out"),
    "endless_guarded": (f'asm volatile("{LOOP.format(body="add.s32 n, j, 1; mov.pred q, t; @!t setp.lt.s32 q, j, 10;")}");', "timed out"),
    "endless_by_table": ('asm volatile("{ ts: .branchtargets A; A: brx.idx 0, ts; }");', "timed out"),
    # -- barriers and collectives --------------------------------------------------------------------
    "barrier_number": ('asm volatile("bar.sync %0;" :: "r"(x[0] + 16));', "barriers 0 to 15"),
    "barrier_huge_number": ('asm volatile("barrier.arrive 4294967295, 64;");', "barriers 0 to 15"),
    "barrier_count": ('asm volatile("bar.sync 1, %0;" :: "r"(threadIdx.x & 1 ? 4096 : 8192));', "Barrier error"),
    "mask_of_none": ('asm volatile("bar.warp.sync 0;");', "leaves out lane"),
    "lanes_anywhere": ('int v; asm volatile("shfl.sync.idx.b32 %0, %1, %2, %2, -1;" : "=r"(v) : "r"(1), "r"(0x7fffffff)); x[threadIdx.x] = v & 0;', None),
    # -- what was never written: whatever it is, it is the same number for all passes -------------------
    "unset_parameter": ('int v; asm volatile("{ .param .b32 p; .reg .pred q; ld.param.u32 %0, [p]; setp.eq.u32 q, %0, 5; @q trap; }" : "=r"(v)); x[0] = v;', None),
    "unset_carry": ('int v; asm volatile("addc.u32 %0, 1, 1;" : "=r"(v)); x[0] = v;', "no value|^$"),
    "unset_address": ('asm volatile("{ .reg .b64 a; st.global.u32 [a], 1; }");', "no value|Invalid"),
    # -- printf and assert ----------------------------------------------------------------------------
    "print_wide": ('if (threadIdx.x == 0) printf("%*c|%2147483647d|%.2147483647f\\n", 2147483647, 65, 1, 1.0);', None),
    "print_forged": ('if (threadIdx.x == 0) printf("%s %s %n %hhn %p", (char*)(1ull << 45), (char*)x, x, x, x);', None),
    "format_forged": ('if (threadIdx.x == 0) printf((const char*)(1ull << 44));', None),
    "assert_forged": ('asm volatile("{ .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e; st.param.b64 [a], -8;'
                      ' st.param.b32 [c], -1; call __assertfail, (a, b, c, d, e); }"); assert(x[0] == 0);', "Assertion"),
    "assert_of_registers": ('asm volatile("call __assertfail, (%0, %0, %1, %0, %0);" :: "l"(x), "r"(1)); assert(x[0] == 0);', "Assertion"),
    # -- names of the emitter's own ---------------------------------------------------------------------
    "own_names": (
        'asm volatile("{ .reg .b32 arena, shadow; .param .b32 env, thr, launch, t; mov.u32 arena, 1; st.param.b32 [env], arena; bra dead;'
        ' begin: return: st.global.u32 [%0], 5; bra finish; dead: bra begin; entry: suspended: finish: }" :: "l"(x));', None),
}  # fmt: skip
RIGHT = "x[threadIdx.x] = 3 * threadIdx.x;"


def source(names) -> str:
    bodies = {name: ATTACKS[name][0] for name in sorted(names)} | {"right": RIGHT}
    kernels = (f'extern "C" __global__ void {name}(int* x) {{\n{body}\n}}\n' for name, body in bodies.items())
    return BEFORE + "".join(kernels)


#: with full checks they are compiled again, all of them, to see where the value comes from
UNSET = {"branch_unset", "unset_address"}


def outcome(device, module, name: str, bystander) -> str:
    """What is wrong with how an attack ends; "" if nothing is."""
    process, says = device.process.generation, ATTACKS[name][1]
    x = device.array(np.zeros(64, np.int32), name="x")
    try:
        launch = module.get_function(name)(1, 32, (x,))
        wrong = "" if says is None or re.search(says, "") else "nothing is said"
        wrong = wrong or "so much printed" * (len(launch.stdout) > 100_000)
    except KernelFault as fault:
        found = says is not None and fault.line and re.search(says, str(fault))
        wrong = "" if found else str(fault)
    if device.process.generation != process:
        return "the process had to be replaced"
    module.get_function("right")(1, 32, (x,))
    if x.get()[:32].tolist() != list(range(0, 96, 3)) or (bystander.get() != np.arange(64)).any():
        return "what comes after it is not right"
    return wrong


@pytest.mark.parametrize("checks", ["full", "memory"])
def test_it_ends_in_a_fault_or_does_nothing(checks):
    names = ATTACKS.keys() - (UNSET if checks == "full" else ())
    with open_device("cpu", checks=checks, confined=True) as device:
        device.quick, device.time_limit, device.step_budget = True, 5.0, 1 << 16
        bystander = device.array(np.arange(64, dtype=np.int32), name="bystander")
        module = device.compile(source(names))
        wrong = {name: outcome(device, module, name, bystander) for name in sorted(names)}
    assert not any(wrong.values()), {name: what for name, what in wrong.items() if what}


def test_a_kernel_that_only_seems_to_be_there():
    """Text in the PTX that looks like a kernel: in a comment, and in a string with a newline."""
    for says in ("/*\\n.visible .entry hidden(\\n*/", '.pragma \\"\\n.visible .entry hidden(\\n\\";'):
        source = f'extern "C" __global__ void k() {{ asm volatile("{says}"); }}'
        with (
            open_device("cpu", confined=True) as device,
            pytest.raises((LaunchError, CompileError, Unsupported)),
        ):
            device.compile(source).get_function("hidden")
