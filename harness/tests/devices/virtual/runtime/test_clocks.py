"""What orders two accesses besides barriers, and what does not: locks, flags, fences, swaps, lanes."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.errors import KernelFault
from tests.devices.virtual.launches import K, device, line_of, run, zeros

_LOCKED = f"""__device__ int lock;
{K}k(float* total) {{
    LOCK;
    *total += threadIdx.x;  // FAULT
    UNLOCK;
}}"""
_LOCK = "while (atomicCAS(&lock, 0, 1)) {} __threadfence()"
_UNLOCK = "__threadfence(); atomicExch(&lock, 0)"


def found(source: str, *args, **launch) -> KernelFault | None:
    try:
        run(source, *args, **launch)
    except KernelFault as fault:
        return fault
    return None


def locked(lock: str = _LOCK, unlock: str = _UNLOCK) -> str:
    return _LOCKED.replace("UNLOCK", unlock).replace("LOCK", lock)


@pytest.mark.parametrize("block, grid", [(32, 1), (64, 1), (48, 3)])
def test_a_lock_orders_what_it_guards(block, grid):
    total = zeros(1)
    assert found(locked(), total, block=block, grid=grid) is None
    assert total.get()[0] == grid * sum(range(block))


@pytest.mark.parametrize(
    "lock, unlock",
    [
        pytest.param("", "", id="no lock"),
        pytest.param(_LOCK, "atomicExch(&lock, 0)", id="no fence before it is given back"),
        pytest.param(_LOCK.replace(" __threadfence()", ""), _UNLOCK, id="no fence after it is taken"),
        pytest.param("atomicAdd(&lock, 1)", "__threadfence()", id="nothing is handed over"),
        pytest.param(
            "if (threadIdx.x % 3) { while (atomicCAS(&lock, 0, 1)) {} __threadfence(); }",
            "if (threadIdx.x % 3) { __threadfence(); atomicExch(&lock, 0); }",
            id="some do not take it",
        ),
    ],
)
def test_what_no_lock_guards(lock, unlock):
    source = locked(lock, unlock)
    fault = found(source, zeros(1), block=64)
    assert fault.kind == "race" and fault.line == line_of(source)


WHO = "threadIdx.x", "!threadIdx.x", "blockIdx.x", "!blockIdx.x"
_ONE_FORGETS = f"""__device__ int lock;
{K}k(float* total) {{
    if (threadIdx.x % 32) return;
    while (atomicCAS(&lock, 0, 1)) {{}}
    if (WHO) __threadfence();
    *total += 1;  // FAULT
    __threadfence();
    atomicExch(&lock, 0);
}}"""


@pytest.mark.parametrize("who", WHO)
def test_it_is_found_whoever_comes_first(who, monkeypatch):
    """A race that shows only if one thread takes the lock, or a number, after the other: found under every
    schedule."""
    launch = dict(block=33, grid=1) if "thread" in who else dict(block=1, grid=2)
    numbers = f"""{K}k(unsigned* next, int* out) {{
    if (threadIdx.x % 32 == 0) out[atomicAdd(next, WHO ? 1 : 0)] = 2 * blockIdx.x + threadIdx.x;  // FAULT
}}"""
    for seed in range(3):
        monkeypatch.setattr(device(), "schedule", seed)
        for text, args in ((_ONE_FORGETS, (zeros(1),)), (numbers, (zeros(1, np.uint32), zeros(4, np.int32)))):
            source = text.replace("WHO", who)
            fault = found(source, *args, **launch)
            assert fault and fault.kind == "race" and fault.line == line_of(source), (seed, source)


def test_each_lock_guards_its_own():
    source = f"""__device__ int locks[2];
{K}k(float* totals) {{
    for (int i = 0; i < 4; i++) {{
        int mine = (threadIdx.x + i) % 2;
        while (atomicCAS(&locks[mine], 0, 1)) {{}}
        __threadfence();
        totals[mine] += 1;
        __threadfence();
        atomicExch(&locks[mine], 0);
    }}
}}"""
    totals = zeros(2)
    assert found(source, totals, block=64) is None
    assert totals.get().tolist() == [128, 128]


_FLAG = f"""{K}k(float* out, int* flags) {{
    if (threadIdx.x == 0) {{
        out[0] = 5;
        FENCE;
        *(volatile int*)flags = 1;
    }}
    if (threadIdx.x == 40) {{
        while (*(volatile int*)flags == 0) {{}}
        FENCE;
        out[1] = out[0];  // FAULT
    }}
}}"""


def test_a_flag_hands_over_what_a_fence_precedes():
    flag = lambda: zeros(1, np.int32, name="flags")  # noqa: E731
    for fence in ("__threadfence()", "__threadfence_block()", "__threadfence_system()"):
        assert found(_FLAG.replace("FENCE", fence), zeros(2), flag(), block=64) is None
    source = _FLAG.replace("FENCE", "")
    fault = found(source, zeros(2), flag(), block=64)
    assert fault.kind == "race" and fault.line == line_of(source) and fault.other.thread == (0, 0, 0)


_OF_MANY = f"""__device__ void other(int) {{ asm volatile("fence.acq_rel.gpu;" ::: "memory"); }}
{K}k(float* data, int* flag, float* out) {{
    int t = threadIdx.x;
    if (blockIdx.x == 0) {{
        data[t] = t;
        WRITERS
        __syncthreads();
        if (t == 0) {{ SIGNALLER SIGNAL; }}
    }} else {{
        if (t == 0) {{ while (*(volatile int*)flag == 0) {{}} LOOKER }}
        __syncthreads();
        READERS
        out[t] = data[63 - t];  // FAULT
    }}
}}"""
_ALL, _OTHER, _BLOCK = "__threadfence();", "other(t);", "__threadfence_block();"


@pytest.mark.parametrize("signal", ["*(volatile int*)flag = 1", "atomicExch(flag, 1)", "atomicAdd(flag, 1)"])
@pytest.mark.parametrize(
    "fences, ordered",
    [
        pytest.param(dict(WRITERS=_ALL, LOOKER=_ALL), True, id="all writers, before they meet"),
        pytest.param(dict(SIGNALLER=_ALL, READERS=_ALL), True, id="all readers, after they have met"),
        pytest.param(dict(WRITERS=_ALL, READERS=_ALL), True, id="all of both"),
        pytest.param(
            dict(WRITERS="__threadfence_system();", READERS=_ALL), True, id="all of both, of two scopes"
        ),
        pytest.param(dict(SIGNALLER=_ALL, LOOKER=_ALL), True, id="who signals and who looks"),
        pytest.param(dict(SIGNALLER=_OTHER, LOOKER=_OTHER), True, id="who signals and who looks, not sc"),
        pytest.param(dict(WRITERS=_OTHER, LOOKER=_ALL), False, id="writers', not sc"),
        pytest.param(dict(WRITERS=_ALL, LOOKER=_OTHER), False, id="who looks, not sc"),
        pytest.param(dict(SIGNALLER=_ALL, READERS=_OTHER), False, id="readers', not sc"),
        pytest.param(dict(SIGNALLER=_OTHER, READERS=_ALL), False, id="who signals, not sc"),
        pytest.param(dict(WRITERS="if (t == 0) " + _ALL, LOOKER=_ALL), False, id="one writer's"),
        pytest.param(
            dict(SIGNALLER=_ALL, READERS="if (t == 0) " + _ALL), False, id="one reader's, after they have met"
        ),
        pytest.param(dict(WRITERS=_BLOCK, LOOKER=_ALL), False, id="writers', for their block"),
        pytest.param(dict(SIGNALLER=_ALL, READERS=_BLOCK), False, id="readers', for their block"),
    ],
)
def test_a_fence_of_many_and_the_signal_of_one(fences, ordered, signal):
    """Fences of kind sc have one order, and one that all have had when they meet is before the signal that follows."""
    source = _OF_MANY.replace("SIGNAL;", signal + ";")
    for part in ("WRITERS", "SIGNALLER", "LOOKER", "READERS"):
        source = source.replace(part, fences.get(part, ""))
    fault = found(source, zeros(64), zeros(1, np.int32, name="flag"), zeros(64), block=64, grid=2)
    assert fault is None if ordered else fault.kind == "race" and fault.line == line_of(source)


def test_cuda_atomics_hand_over_by_their_order():
    source = """#include <cuda/atomic>
extern "C" __global__ void k(float* out, bool released) {
    __shared__ cuda::atomic<int, cuda::thread_scope_block> ready;
    __shared__ float value;
    if (threadIdx.x == 0) ready.store(0, cuda::memory_order_relaxed);
    __syncthreads();
    if (threadIdx.x == 0) {
        value = 5;
        if (released) ready.store(1, cuda::memory_order_release);
        else ready.store(1, cuda::memory_order_relaxed);
    }
    if (threadIdx.x == 40) {
        while (ready.load(cuda::memory_order_acquire) == 0) {}
        out[0] = value;  // FAULT
    }
}"""
    assert found(source, zeros(1), np.bool_(True), block=64) is None
    fault = found(source, zeros(1), np.bool_(False), block=64)
    assert fault.kind == "race" and fault.line == line_of(source) and fault.array == "value"


def test_the_first_guess_of_a_compare_and_swap_is_no_race():
    source = f"""{K}k(float* most, const float* x) {{
    int* bits = (int*)most;
    int old = *bits, seen;  // FAULT
    do {{
        seen = old;
        if (__int_as_float(seen) >= x[threadIdx.x]) break;
        old = atomicCAS(bits, seen, __float_as_int(x[threadIdx.x]));
    }} while (old != seen);
    EXTRA
}}"""
    most, x = zeros(1), np.random.default_rng(0).random(64).astype(np.float32)
    assert found(source.replace("EXTRA", ""), most, x, block=64) is None
    assert most.get()[0] == x.max()
    floats = source.replace("int* bits = (int*)most;\n    int old = *bits, seen;", "float old = *most, seen;")
    floats = floats.replace("__int_as_float(seen)", "seen").replace(
        "atomicCAS(bits, seen,", "__int_as_float(atomicCAS((int*)most, __float_as_int(seen),"
    )
    floats = floats.replace("__float_as_int(x[threadIdx.x]));", "__float_as_int(x[threadIdx.x])));")
    assert found(floats.replace("EXTRA", ""), zeros(1), x, block=64) is None
    fault = found(source.replace("EXTRA", "if (*most < 0) bits[0] = 0;"), zeros(1), x, block=64)
    assert fault.kind == "race" and "*most < 0" in fault.source


def test_plain_and_atomic_accesses_do_not_mix():
    source = f"""{K}k(int* count, int* out) {{
    atomicAdd(count, 1);
    if (threadIdx.x == 63) out[0] = *count;  // FAULT
}}"""
    fault = found(source, zeros(1, np.int32), zeros(1, np.int32), block=64)
    assert fault.kind == "race" and fault.line == line_of(source)


def test_a_plain_read_counts_beside_atomic_ones():
    """However many lanes read it as volatile: the plain read of lane 3 is the one that races."""
    source = f"""{K}k(int* word, int* out) {{
    int seen;
    if (threadIdx.x == 3) seen = *word;  // OTHER
    else seen = *(volatile int*)word;
    if (threadIdx.x == 9) atomicAdd(word, 1);  // FAULT
    out[threadIdx.x] = seen;
}}"""
    fault = found(source, zeros(1, np.int32), zeros(32, np.int32))
    assert (fault.kind, fault.line, fault.thread) == ("race", line_of(source), (9, 0, 0))
    assert (fault.other.line, fault.other.thread) == (line_of(source, "OTHER"), (3, 0, 0))


def test_lanes_meet_only_those_who_come():
    """Lanes 1 to 31 synchronise; lane 0, which wrote, does not."""
    source = f"""{K}k(float* out) {{
    __shared__ float value;
    if (threadIdx.x == 0) value = 1;
    if (threadIdx.x > 0) __syncwarp(0xfffffffe);
    if (threadIdx.x == 1) out[0] = value;  // FAULT
}}"""
    fault = found(source, zeros(1))
    assert fault.kind == "race" and fault.line == line_of(source)
    assert (
        found(source.replace("if (threadIdx.x > 0) __syncwarp(0xfffffffe)", "__syncwarp()"), zeros(1)) is None
    )


def test_the_last_block_resets_the_counter_in_every_phase():
    """Its plain store comes after the updates that its own has seen, and before those of the next phase."""
    source = f"""{K}k(int* data, int* out, int* count, int* go) {{
    for (int phase = 1; phase <= 3; phase++) {{
        if (threadIdx.x == 0) {{
            data[blockIdx.x] = phase;
            __threadfence();
            if (atomicAdd(count, 1) == gridDim.x - 1) {{
                __threadfence();
                for (int i = 0; i < gridDim.x; i++) out[phase] += data[i];
                *count = 0;
                __threadfence();
                atomicExch(go, phase);
            }} else while (*(volatile int*)go < phase) {{}}
            __threadfence();
        }}
        __syncthreads();
    }}
}}"""
    out = zeros(4, np.int32)
    assert found(source, zeros(4, np.int32), out, zeros(1, np.int32), zeros(1, np.int32), grid=4) is None
    assert out.get().tolist() == [0, 4, 8, 12]


def test_who_sees_the_last_of_several_stores_has_not_seen_the_others():
    source = f"""{K}k(int* word, int* out) {{
    if (threadIdx.x % 32 == 0) *(volatile int*)word = *(volatile int*)word + 1;
    if (threadIdx.x == 64) out[0] = *word;
}}"""
    fault = found(source, zeros(1, np.int32), zeros(1, np.int32), block=96)
    assert fault.kind == "race" and {fault.line, fault.other.line} == {2, 3}


def test_a_barrier_of_some_warps_orders_no_others_that_have_ended():
    source = f"""{K}k(float* out) {{
    __shared__ float value;
    if (threadIdx.x == 64) value = 1;  // OTHER
    if (threadIdx.x < 64) asm volatile("bar.sync 1, 64;" ::: "memory");
    if (threadIdx.x == 0) value = 2;  // FAULT
}}"""
    fault = found(source, zeros(1), block=96)
    assert fault.kind == "race"
    assert {fault.line, fault.other.line} == {line_of(source), line_of(source, "OTHER")}


_ARRIVE = {
    "bar.arrive": (
        "",
        'if (t < 32) asm volatile("bar.sync 1, 64;" ::: "memory"); else asm volatile("bar.arrive 1, 64;" ::: "memory");',
    ),
    "mbarrier": (
        "__shared__ unsigned long long bar; unsigned at = (unsigned)__cvta_generic_to_shared(&bar);\n"
        'if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(at) : "memory"); __syncthreads();',
        'unsigned long long state; asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(at) : "memory");\n'
        'for (int done = 0; t < 32 && !done;) asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2;'
        ' selp.s32 %0, 1, 0, p; }" : "=r"(done) : "r"(at), "l"(state) : "memory");',
    ),
}
_TURNED = f"""__device__ void other(int) {{ asm volatile("fence.acq_rel.gpu;" ::: "memory"); }}
{K}k(float* data, int* flag, float* out) {{
    int t = threadIdx.x;
    SETUP
    if (blockIdx.x == 0) {{
        data[t] = t;
        WRITERS
        MEET
        if (t == 0) {{ SIGNALLER atomicExch(flag, 1); }}
    }} else {{
        if (t == 40) {{ while (*(volatile int*)flag == 0) {{}} LOOKER }}
        MEET
        READERS
        if (t < 32) out[t] = data[63 - t];  // FAULT
    }}
}}"""


@pytest.mark.parametrize("how", _ARRIVE)
@pytest.mark.parametrize(
    "fences, ordered",
    [
        pytest.param(dict(WRITERS=_ALL, LOOKER=_ALL), True, id="all writers, before they arrive"),
        pytest.param(dict(SIGNALLER=_ALL, READERS=_ALL), True, id="all readers, after they have waited"),
        pytest.param(dict(WRITERS=_ALL, READERS=_ALL), True, id="all of both"),
        pytest.param(dict(WRITERS=_OTHER, LOOKER=_ALL), False, id="writers', not sc"),
        pytest.param(dict(SIGNALLER=_ALL, READERS=_OTHER), False, id="readers', not sc"),
        pytest.param(dict(WRITERS="if (t < 32) " + _ALL, LOOKER=_ALL), False, id="not those who arrive"),
        pytest.param(dict(WRITERS=_BLOCK, LOOKER=_ALL), False, id="writers', for their block"),
        pytest.param(dict(SIGNALLER=_ALL, READERS=""), False, id="no reader's"),
    ],
)
def test_fences_of_threads_that_arrive_without_waiting(how, fences, ordered):
    """As of threads that meet: see test_a_fence_of_many_and_the_signal_of_one."""
    source = _TURNED.replace("SETUP", _ARRIVE[how][0]).replace("MEET", _ARRIVE[how][1])
    for part in ("WRITERS", "SIGNALLER", "LOOKER", "READERS"):
        source = source.replace(part, fences.get(part, ""))
    fault = found(source, zeros(64), zeros(1, np.int32, name="flag"), zeros(64), block=64, grid=2)
    assert fault is None if ordered else fault.kind == "race" and fault.line == line_of(source)
