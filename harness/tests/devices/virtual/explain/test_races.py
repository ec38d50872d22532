"""The remedy for a race: a barrier if the program implies an order, else one owner per element, or an atomic."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.errors import KernelFault
from backwarp.grading.sentences import others
from tests.devices.virtual.launches import K, device, zeros

SOURCE = f"""
template <typename T> __device__ __noinline__ void add(T* to, int i) {{
    to[0] += i;
}}
{K}counted(float* out) {{
    __shared__ unsigned char s[64];
    s[threadIdx.x] = 0;
    __syncthreads();
    s[threadIdx.x / 40]++;
    __syncthreads();
    out[threadIdx.x] = s[0];
}}
{K}in_a_loop(float* out) {{
    __shared__ int bins[8];
    if (threadIdx.x < 8) bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < 100; i += blockDim.x)
        bins[i * i % 8] += i;
}}
{K}through_a_pointer(float* out) {{
    __shared__ double s[2];
    double* sum = s + 1;
    if (threadIdx.x == 0) *sum = 0;
    __syncthreads();
    *sum = *sum + threadIdx.x;
}}
{K}in_a_function(float* out) {{
    __shared__ short s[2];
    if (threadIdx.x == 0) s[0] = 0;
    __syncthreads();
    add(s, threadIdx.x);
}}
{K}by_blocks(float* out) {{
    if (threadIdx.x == 0) out[0] += 1;
}}
{K}stored(float* out) {{
    out[threadIdx.x / 2] = threadIdx.x;
}}
{K}on_branches(float* out) {{
    __shared__ float s[64];
    if (threadIdx.x < 32)
        s[threadIdx.x] = 1;
    else
        s[threadIdx.x - 31] = 2;
}}
{K}split(float* out) {{
    float old = out[blockIdx.x];
    out[blockIdx.x] = old + threadIdx.x;
}}
{K}tree(float* out) {{
    __shared__ float s[64];
    s[threadIdx.x] = 1;
    __syncthreads();
    for (int n = 0; n < 3; n++)
        if (threadIdx.x / 16 == n) s[threadIdx.x] += s[threadIdx.x + 16];
}}
{K}scan(float* out) {{
    __shared__ float s[64];
    s[threadIdx.x] = 1;
    __syncthreads();
    for (int n = 1; n < 64; n *= 2) {{
        if (threadIdx.x >= n) s[threadIdx.x] += s[threadIdx.x - n];
        __syncthreads();
    }}
}}
{K}turns(float* out) {{
    __shared__ float s[64];
    s[threadIdx.x] = 1;
    __syncthreads();
    for (int n = 0; n < 4; n++)
        s[(threadIdx.x + n) % 64] = s[threadIdx.x] + n;
}}
{K}fill(float* out) {{
    __shared__ float s[64];
    s[threadIdx.x] = 1;
    if (threadIdx.x >= 32)
        out[threadIdx.x] = s[63 - threadIdx.x];
}}
{K}again(float* out) {{
    __shared__ float s[64];
    for (int i = 0; i < 3; i++) {{
        s[threadIdx.x] = i;
        __syncthreads();
        out[threadIdx.x] = s[63 - threadIdx.x];
    }}
}}
{K}two_steps(float* out) {{
    __shared__ float s[64];
    s[threadIdx.x] = 1;
    s[63 - threadIdx.x] = 2;
}}
{K}zeroed(float* out) {{
    __shared__ float s[64];
    if (threadIdx.x == 63) s[0] = 0;
    if (threadIdx.x < 32) atomicAdd(&s[0], 1.0f);
}}
{K}either(float* out) {{
    __shared__ float s[64];
    if (threadIdx.x < 32)
        s[threadIdx.x] = 1;
    else
        out[0] = s[threadIdx.x - 32];
}}
{K}of_two_blocks(float* out) {{
    out[threadIdx.x + 64 * blockIdx.x] = 1;
    if (blockIdx.x == 1) out[threadIdx.x + 64] = out[63 - threadIdx.x];
}}
{K}kept_by_two(float* out) {{
    for (int i = threadIdx.x + 64 * blockIdx.x; i < 128; i += blockDim.x) {{
        const float x = out[i];
        out[i] = x < 1 ? 1 : x;
    }}
}}
{K}by_another_name(float* out) {{
    float* half = out + threadIdx.x / 32 * 32;
    out[threadIdx.x] = half[(threadIdx.x + 1) % 32] + 1;
}}
__device__ int flag; __device__ float total;
{K}flagged(float* out) {{
    if (threadIdx.x) return;
    if (blockIdx.x == 0) {{
        out[0] = 1;
        __threadfence();
        atomicExch(&flag, 1);
    }} else {{
        while (atomicAdd(&flag, 0) == 0) {{}}
        out[1] = out[0];
    }}
}}
{K}locked(float* out) {{
    while (atomicCAS(&flag, 0, 1)) {{}}
    out[0] += 1;
    __threadfence();
    atomicExch(&flag, 0);
}}
{K}of_a_scope(float* out) {{
    atomicAdd_block(out, 1.0f);
}}
{K}renamed(float* db) {{
    if (threadIdx.x == 0) db[0] = 0;
    __syncthreads();
    if (threadIdx.x % 32 == 0) db[0] += threadIdx.x;
}}
{K}renamed_and_aliased(float* x) {{
    float* half = x + 32;
    x[threadIdx.x] += half[0];
}}
{K}one_for_all(float* out) {{
    __shared__ float sum;
    sum = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = 2 * sum;
}}
{K}one_sum_for_all(float* out) {{
    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    sum += out[threadIdx.x];
}}
{K}scalar_in_steps(float* out) {{
    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    float now = sum;
    now += threadIdx.x;
    sum = now;
}}
{K}four_on_a_line(float* out) {{
    __shared__ float s[65];
    int i = threadIdx.x;
    s[i] = i; s[i + 1] = 2;
}}
{K}left(float* out) {{
    __shared__ float s[64];
    s[threadIdx.x] = 1;
    if (threadIdx.x >= 40) return;
    __syncthreads();
    out[threadIdx.x] = s[63 - threadIdx.x];
}}
{K}last(float* out) {{
    if (threadIdx.x) return;
    out[blockIdx.x] = 1;
    if (atomicAdd(&flag, 1) % gridDim.x == gridDim.x - 1)
        for (int i = 0; i < gridDim.x; i++) out[32] += out[i];
}}
{K}last_of_all(float* out) {{
    __shared__ bool last;
    if (blockIdx.x < 2) out[threadIdx.x + 64 * blockIdx.x] = 1;
    if (threadIdx.x == 0) {{ __threadfence();
        last = atomicAdd(&flag, 1) % gridDim.x == gridDim.x - 1;
        __threadfence(); }}
    __syncthreads();
    if (last && threadIdx.x == 0) total = out[1] + out[65];
}}
{K}awaited(float* out) {{
    if (threadIdx.x) return;
    if (blockIdx.x == 0) out[0] = 1;
    else
        while (out[0] == 0) __threadfence();
}}
{K}in_place(float* out) {{
    int i = threadIdx.x + 64 * blockIdx.x;
    if (i < 127) out[i] += out[i + 1];
}}
{K}set_after(float* out) {{
    __shared__ int any;
    if (threadIdx.x == 0) any = 0;
    if (threadIdx.x == 41) any = 1;
}}
{K}best(float* out) {{
    __shared__ float s[64];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    for (int n = 48; n > 0; n /= 2)
        if (threadIdx.x < n && threadIdx.x + n < 64 && s[threadIdx.x + n] > s[threadIdx.x])
            s[threadIdx.x] = out[threadIdx.x] + 1;
}}
{K}of_a_scope_of_volatile(float* out) {{
    if (threadIdx.x) return;
    if (blockIdx.x == 0) asm volatile("st.relaxed.cta.f32 [%0], %1;" :: "l"(out), "f"(1.0f));
    else asm volatile("st.relaxed.cta.f32 [%0], %1;" :: "l"(out), "f"(2.0f));
}}
{K}released(float* out) {{
    __shared__ int lock;
    if (threadIdx.x == 0) lock = 0;
    __syncthreads();
    if (threadIdx.x % 32 == 0) {{
        while (atomicCAS(&lock, 0, 1)) {{}}
        lock = 0;
    }}
}}
{K}sent(float* out) {{
    if (blockIdx.x == 0) {{
        out[threadIdx.x] = 1;
        __syncthreads();
        if (threadIdx.x == 0) atomicExch(&flag, 1);
    }} else {{
        while (atomicAdd(&flag, 0) == 0) {{}}
        if (threadIdx.x == 0) total = out[threadIdx.x];
    }}
}}
{K}sent_by_a_warp(float* out) {{
    __shared__ int full;
    __shared__ float s[32];
    if (threadIdx.x == 0) full = 0;
    __syncthreads();
    if (threadIdx.x < 32) {{
        s[threadIdx.x] = 1;
        __syncwarp();
        if (threadIdx.x == 0) atomicExch(&full, 1);
    }} else {{
        while (atomicAdd(&full, 0) == 0) {{}}
        out[threadIdx.x] = s[63 - threadIdx.x];
    }}
}}
__device__ __noinline__ void everyone(int target) {{
    __syncthreads();
    if (threadIdx.x == 0) {{
        __threadfence();
        atomicAdd(&flag, 1);
        while (atomicAdd(&flag, 0) < target) {{}}
        __threadfence();
    }}
    __syncthreads();
}}
{K}met_once(float* out) {{
    for (int n = 1; n < 3; n++) {{
        out[threadIdx.x + 64 * blockIdx.x] = n;
        everyone(n * gridDim.x);
        total = out[127 - threadIdx.x - 64 * blockIdx.x];
    }}
}}
{K}in_three_lines(float* out) {{
    float now = *out;
    now = now + threadIdx.x;
    *out = now;
}}
"""
FENCES = "but no signal orders anything by itself: put a __threadfence()"
ATOMIC = "An element that several threads update needs atomicAdd or another atomic, or a single thread that does it for all."
ON_INT = ATOMIC.replace("another atomic", "another atomic (on an int: none changes so few bytes)")
ONE = "for the whole block: if each thread needs its own, it must not be __shared__; if all need the same,"
OWNER = (
    "Each element must belong to one thread: does its index use every part of the thread's number, and does the guard keep out "
    "threads that have no element?"
)
KEPT = (
    "its index needs every part of the thread's and the block's number, and the step of the loop must pass over those of all "
    "other threads."
)
BOTH = "Between two barriers, each element must belong to one thread: is the index right in both lines"
NONE = "there is no __syncthreads() between them"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "says", "grid"),
    [
        ("counted", f"both update s[0]. {ON_INT}", 1),
        ("in_a_loop", ATOMIC, 1),
        ("through_a_pointer", f"both update s[1]. {ATOMIC}", 1),
        ("in_a_function", f"both update s[0]. {ON_INT}", 1),
        ("by_blocks", f"of block (1,0,0) both update out[0]. {ATOMIC}", 2),
        ("renamed", f"both update out[0]. {ATOMIC}", 1),
        ("in_three_lines", f"both update out[0]. {ATOMIC}", 1),
        (
            "renamed_and_aliased",
            "if it is meant to, read into a variable first, then __syncthreads(), then write.",
            1,
        ),
        ("one_for_all", f"There is one sum {ONE} let one thread write it.", 1),
        ("one_sum_for_all", f"There is one sum {ONE} change it with an atomic, such as atomicAdd.", 1),
        ("split", ATOMIC, 1),
        ("scalar_in_steps", f"There is one sum {ONE} change it with an atomic, such as atomicAdd.", 1),
        ("four_on_a_line", f"{BOTH.replace('both lines', 'this line')}, s[i] and s[i + 1]?", 1),
        (
            "left",
            "leaves the kernel before the barrier in line 177, which orders only what threads do that reach it.",
            1,
        ),
        (
            "last",
            f"line 183 signals that it is done and sees those of others, {FENCES} directly before line 183 and a __threadfence() directly after line 183.",
            3,
        ),
        ("last_of_all", "by itself: put a __syncthreads() between line 188 and line 190.", 3),
        (
            "awaited",
            "must be volatile or changed by atomics, with a __threadfence() directly before it is written and another after the wait.",
            2,
        ),
        (
            "in_place",
            "if it is meant to, store into another array: no barrier orders this block and the others.",
            2,
        ),
        ("set_after", f"and so does this thread; {NONE}.", 1),
        (
            "best",
            "there is no __syncwarp(), neither from line 215 to line 216 nor from one iteration of the loop to the next.",
            1,
        ),
        ("of_a_scope_of_volatile", "is safe only within its block.", 2),
        (
            "released",
            "an atomic is safe only against other atomics: use one in line 229, too, such as atomicExch().",
            1,
        ),
        ("stored", f"Threads (0,0,0) and (1,0,0) both write out[0]. {OWNER}", 1),
        ("on_branches", f"both write s[1] (lines 42 and 44). {OWNER}", 1),
        ("tree", "there is no __syncthreads() between one iteration of the loop and the next.", 1),
        ("scan", "if it is meant to, read into a variable first, then __syncthreads(), then write.", 1),
        (
            "turns",
            "If they do so in the same iteration of a loop, leave it to one thread or use an atomic; if in different iterations,"
            " put a __syncthreads() between them.",
            1,
        ),
        ("fill", f"writes s[31] (line 75), and this thread reads it; {NONE}.", 1),
        (
            "again",
            "after the barrier in line 83, there is no __syncthreads() on the path from line 84 around the loop to"
            " line 82.",
            1,
        ),
        (
            "two_steps",
            f"(lines 89 and 90). {BOTH}, s[threadIdx.x] and s[63 - threadIdx.x]?",
            1,
        ),
        ("zeroed", f"and this thread atomically changes it; {NONE}.", 1),
        (
            "either",
            "the two lines are on different branches, and a __syncthreads() can only go after both.",
            1,
        ),
        (
            "of_two_blocks",
            "blocks run in any order: what one needs from another must come from an earlier launch.",
            2,
        ),
        ("kept_by_two", KEPT, 2),
        (
            "by_another_name",
            "of the same warp writes out[1], and this thread reads it; if it is meant to, read into a variable first, then __syncwarp(),"
            " then write.",
            1,
        ),
        (
            "flagged",
            f"line 124 signals that it is done and line 126 sees that, {FENCES} directly after line 126.",
            2,
        ),
        (
            "locked",
            f"both update out[0]. Line 134 signals that it is done and line 131 sees that, {FENCES} directly after line 131.",
            2,
        ),
        (
            "of_a_scope",
            "so does this thread; an atomic with block scope, such as atomicAdd_block, is safe only within its block.",
            2,
        ),
        (
            "sent",
            "writes out[0] (line 234), and this thread reads it; line 236 signals that it is done and line 238 sees that, "
            f"{FENCES} directly before line 236 and a __threadfence() directly after line 238.",
            2,
        ),
        (
            "sent_by_a_warp",
            "by itself: put a __threadfence_block() directly before line 250 and a __threadfence_block() directly after line 252.",
            1,
        ),
        (
            "met_once",
            "blocks run in any order: what one needs from another must come from an earlier launch.",
            2,
        ),
    ],
)
def test_the_remedy_fits(name, says, grid):
    dev = device("full")
    kernel = dev.compile(SOURCE).get_function(name)
    try:
        for dev.schedule in range(4):
            with pytest.raises(KernelFault) as caught:
                kernel(grid, 64, (zeros(128),))
            fault = caught.value
            assert fault.kind == "race" and fault.explanation.endswith(says), fault.explanation
            assert fault.no_barrier == any(
                remedy in says for remedy in (ATOMIC, OWNER, BOTH[:60], KEPT, ONE, "both update")
            )
    finally:
        dev.schedule = 0


def test_races_for_one_array_are_one_message():
    source = f"""{K}k(float* out) {{
    __shared__ float s[64], t[64];
    s[threadIdx.x] = 1;
    s[63 - threadIdx.x] = 2;
    t[threadIdx.x] = s[(threadIdx.x + 1) % 64];
    s[threadIdx.x] = t[63 - threadIdx.x];
    out[threadIdx.x] = t[63 - threadIdx.x];
}}"""
    with pytest.raises(KernelFault) as caught:
        device("full").compile(source).get_function("k")(1, 64, (zeros(64),))
    fault = caught.value
    pairs = {(f.other.line, f.line) for f in [fault, *fault.more] if f.array == "s"}
    assert fault.array == "s" and len(pairs) > 3 and {f.array for f in fault.more} == {"s", "t"}
    assert others(fault) == [
        f"{len(pairs) - 1} further pairs of lines race for s.",
        "Also: a race for t in line 6.",
    ]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("if (threadIdx.x % 32 == 0) own[0] += 1;", f"both update grad_bias[0]. {ATOMIC}"),
        (
            "for (int i = threadIdx.x; i < 128; i += 2) {\n float x = own[i];\n own[i] = x + 1;\n}",
            "does the loop's step pass over the elements of the other threads? If one iteration passes the element on to the "
            "next, put a __syncthreads() between them.",
        ),
    ],
)
def test_an_array_that_the_file_calls_something_else(body, says):
    dev = device("full")
    kernel = dev.compile(f"{K}k(float* own) {{\n    {body}\n}}").get_function("k")
    with pytest.raises(KernelFault) as caught:
        kernel(1, 64, (dev.array(np.zeros(128, np.float32), name="grad_bias"),))
    assert caught.value.explanation.endswith(says), caught.value.explanation


@pytest.mark.soak  # CUDA's header takes seconds to compile
def test_a_reference_in_a_variable_is_not_the_element():
    source = f"""#include <cuda/atomic>
{K}k(int* flags) {{
    if (threadIdx.x) return;
    cuda::atomic_ref<int, cuda::thread_scope_device> seen(flags[5]);
    if (blockIdx.x == 0) flags[5] = 1;
    else while (seen.load() == 0) {{}}
}}"""
    dev = device()
    with pytest.raises(KernelFault) as caught:
        kernel = dev.compile(source).get_function("k")
        kernel(2, 32, (dev.array(np.zeros(8, np.int32), name="flags"),))
    assert (caught.value.array, caught.value.index) == ("flags", "5")
