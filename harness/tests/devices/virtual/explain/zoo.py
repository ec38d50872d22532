"""The expected faults of the kernels in kernels/zoo.cu, which each do one thing wrong."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.devices.virtual.launches import FLAVOURS

FULL, MEMORY = ("full",), ("memory",)


@dataclass
class Case:
    """How a kernel is launched, and what is expected of its first fault. says: the end of the explanation."""

    says: str
    kind: str = "out-of-bounds"
    headline: str = ""
    thread: tuple | None = (0, 0, 0)
    block_index: tuple | None = (0, 0, 0)
    array: str = ""
    index: str = ""
    shape: str = ""
    args: str = "a b n"
    grid: object = 1
    block: object = 32
    shared: int = 0
    flavours: tuple = FLAVOURS
    more: tuple = ()  # kinds of the faults after the first
    count: int | None = None
    settings: dict = field(default_factory=dict)


A = dict(array="a", shape="i = 10")
B = dict(array="b", shape="i = 10")
FOUR_D = dict(array="input", shape="b x c x h x w = 2 x 3 x 4 x 5", args="input b n")

ZOO = {
    # -- the edges of an array -------------------------------------------------------------------------------
    "before_the_first": Case(
        "This reads a, 1 element before its start; a has 10 elements.",
        headline="Invalid __global__ read of size 4 bytes", index="i=-1", count=1, **A,
    ),
    "after_the_last": Case(
        "This reads a[i=10], just past its end; a has 10 elements.",
        thread=(9, 0, 0), index="i=10", **A,
    ),
    "no_bounds_check": Case(
        "This writes b[i=10], just past its end; b has 10 elements. 54 threads do this.",
        headline="Invalid __global__ write of size 4 bytes", thread=(2, 0, 0), block_index=(1, 0, 0),
        index="i=10", grid=8, block=8, count=54, **B,
    ),
    "far_away": Case(
        "This reads a[i=50000000], 49999991 past its last element; a has 10 elements. 10 threads do this.",
        index="i=50000000", **A,
    ),
    "far_before": Case(
        "This writes b, 70000000 elements before its start; b has 10 elements. 10 threads do this.",
        index="i=-70000000", **B,
    ),
    "index_overflows": Case(
        "This reads a, 1294967275 elements before its start; a has 10 elements.",
        thread=(3, 0, 0), index="i=-1294967275", **A,
    ),
    "into_the_red_zone": Case(
        "This writes b, 20 elements before its start; b has 10 elements.",
        thread=(1, 0, 0), index="i=-20", **B,
    ),
    "next_batch": Case(
        "This reads input[b=2,c=0,h=0,w=0], just past its end; input has 120 elements, shape b x c x h x"
        " w = 2 x 3 x 4 x 5.",
        thread=(4, 0, 0), index="b=2,c=0,h=0,w=0", block=5, **FOUR_D,
    ),
    "channel_below": Case(
        "This reads input, 7 elements before its start; input has 120 elements, shape b x c x h x w = 2"
        " x 3 x 4 x 5.",
        index="b=-1,c=2,h=2,w=3", **FOUR_D,
    ),
    "three_dimensions": Case(
        "This writes b[i=10], just past its end; b has 10 elements. 22 threads do this.",
        thread=(0, 1, 0), block_index=(1, 0, 0), index="i=10", grid=(2, 1, 2), block=(2, 2, 2), count=22, **B,
    ),
    "byte_past_the_end": Case(
        "This writes bytes[10], just past its end; bytes has 10 elements.",
        headline="Invalid __global__ write of size 1 bytes", thread=(10, 0, 0), array="bytes", index="10",
        shape="10", args="bytes",
    ),
    "past_a_local_array_of_bytes": Case(
        "This reads c[6], just past its end; c has 6 elements.",
        thread=(3, 0, 0), array="c", index="6", shape="6", flavours=FULL, block=6,
    ),
    "word_over_the_end_of_bytes": Case(
        "This writes 4 bytes from bytes[8] to bytes[11]; bytes has 10 elements.",
        array="bytes", index="10", shape="10", args="bytes",
    ),
    "vector_over_the_end": Case(
        "This writes 16 bytes from b[i=8] to b[i=11]; b has 10 elements.",
        headline="Invalid __global__ write of size 16 bytes", thread=(2, 0, 0), index="i=10", flavours=MEMORY,
        **B,
    ),
    "vector_one_element_over": Case(
        "This writes b[i=10], just past its end; b has 10 elements.",
        thread=(2, 0, 0), index="i=10", **B,
    ),
    "freed_row": Case(
        "This reads d[5], just past its end; d has 5 elements.",
        headline="Invalid __global__ read of size 8 bytes", array="d", index="5", shape="5", args="d b n",
    ),
    "pointer_walks_off": Case(
        "This reads a[i=10], just past its end; a has 10 elements.",
        index="i=10", block=1, count=1, **A,
    ),
    "pointer_in_a_struct": Case(
        "This writes b, 2999998 elements before its start; b has 10 elements.",
        thread=(2, 0, 0), index="i=-2999998", args="pair", **B,
    ),
    "pointer_in_memory": Case(
        "This writes b[i=12], 3 past its last element; b has 10 elements.",
        index="i=12", args="pointers n", **B,
    ),
    "one_of_two_arrays": Case(
        "This reads a[i=10], just past its end; a has 10 elements.",
        thread=(3, 0, 0), index="i=10", **A,
    ),
    # -- no array at all -------------------------------------------------------------------------------------
    "null_pointer": Case(
        "This writes at address 0x0, a null pointer: was the pointer ever set? 2 threads do this.",
        kind="invalid-address", args="null",
    ),
    "null_plus_index": Case(
        "This reads at address 0x28, a null pointer plus an index: was the pointer ever set?",
        kind="invalid-address", thread=(10, 0, 0), args="null b",
    ),
    "wild_pointer": Case(
        "This writes at address 0x123456789ab8, where there is no array: where does the pointer come from?",
        kind="invalid-address", args="wild",
    ),
    "function_pointer_never_set": Case(
        "The pointer called here does not point to a function with these parameters: was it ever"
        " set? 3 threads do this.",
        kind="invalid-address", headline="an illegal instruction was encountered", thread=(2, 0, 0),
    ),
    # -- alignment -------------------------------------------------------------------------------------------
    "misaligned_float2": Case(
        "at once starting at b[i=3], whose address is 4 past a multiple of 8.",
        kind="misaligned", headline="Invalid __global__ write of size 8 bytes: misaligned address",
        index="i=3", flavours=MEMORY, **B,
    ),
    "misaligned_float4": Case(
        "This reads 16 bytes at once starting at a[i=2], whose address is 8 past a multiple of 16.",
        kind="misaligned", thread=(1, 0, 0), index="i=2", **A,
    ),
    "misaligned_double": Case(
        "This writes 8 bytes at once starting at b[i=1], whose address is 4 past a multiple of 8.",
        kind="misaligned", index="i=1", **B,
    ),
    "misaligned_int_in_bytes": Case(
        "This writes 4 bytes at once starting at bytes[7], whose address is 3 past a multiple of 4.",
        kind="misaligned", array="bytes", index="7", shape="10", args="bytes",  # its last byte is past the end
    ),
    # -- what may only be read -------------------------------------------------------------------------------
    "writes_its_input": Case(
        "This writes a[i=0], but a is an input (const): kernels may only read it. 4 threads do this.",
        kind="read-only", headline="Invalid __global__ write of size 4 bytes", index="i=0", **A,
    ),
    "atomic_on_input": Case(
        "This changes a[i=5], but a is an input (const): kernels may only read it.",
        kind="read-only", headline="Invalid __global__ atomic of size 4 bytes", thread=(5, 0, 0), index="i=5",
        **A,
    ),
    "writes_constant": Case(
        "This writes a_constant[2], but a_constant is __constant__ memory: kernels may only read it.",
        kind="read-only", headline="Invalid __constant__ write of size 4 bytes", thread=(2, 0, 0),
        array="a_constant", index="2", shape="4", flavours=FULL,
    ),
    # -- atomics ---------------------------------------------------------------------------------------------
    "atomic_past_the_end": Case(
        "This changes b[i=10], just past its end; b has 10 elements.",
        headline="Invalid __global__ atomic of size 4 bytes", thread=(10, 0, 0), index="i=10", **B,
    ),
    "atomic_far_away": Case(
        "This changes b[i=1000000000], 999999991 past its last element; b has 10 elements.",
        index="i=1000000000", **B,
    ),
    # -- variables of the module -----------------------------------------------------------------------------
    "constant_overflow": Case(
        "This reads weights[9], just past its end; weights has 9 elements.",
        headline="Invalid __constant__ read of size 4 bytes", thread=(9, 0, 0), array="weights", index="9",
        shape="9",
    ),
    "device_variable_overflow": Case(
        "This writes table[3,0], just past its end; table has 12 elements, shape 3 x 4.",
        thread=(12, 0, 0), array="table", index="3,0", shape="3 x 4",
    ),
    "between_variables": Case(
        "This writes second, 50 elements before its start; second has 7 elements.",
        array="second", index="-50", shape="7",
    ),
    # -- shared memory ---------------------------------------------------------------------------------------
    "shared_overflow": Case(
        "This writes tile[8], just past its end; tile has 8 elements.",
        headline="Invalid __shared__ write of size 4 bytes", thread=(8, 0, 0), array="tile", index="8",
        shape="8",
    ),
    "shared_negative": Case(
        "This writes ring, 1 element before its start; ring has 32 elements.",
        array="ring", index="-1", shape="32",
    ),
    "shared_far_away": Case(
        "This writes far[100000000], 99999969 past its last element; far has 32 elements.",
        thread=(1, 0, 0), array="far", index="100000000", shape="32",
    ),
    "shared_far_before": Case(
        "This writes low, 100000000 elements before its start; low has 32 elements.",
        thread=(1, 0, 0), array="low", index="-100000000", shape="32",
    ),
    "shared_two_dimensions": Case(
        "This writes square[4,0], just past its end; square has 20 elements, shape 4 x 5. 4 threads do this.",
        array="square", index="4,0", shape="4 x 5", block=4,
    ),
    "dynamic_shared_overflow": Case(
        "This writes pool[16], just past its end; pool has 16 elements: the launch asks for 64 bytes of"
        " dynamic shared memory. 16 threads do this.",
        thread=(16, 0, 0), array="pool", index="16", shared=64,
    ),
    "dynamic_shared_forgotten": Case(
        "This writes pool[0], the launch asks for no dynamic shared memory.",
        array="pool", index="0",
    ),
    # -- local memory ----------------------------------------------------------------------------------------
    "local_overflow": Case(
        "This writes window[4], just past its end; window has 4 elements. 2 threads do this.",
        headline="Invalid __local__ write of size 4 bytes", array="window", index="4", shape="4", block=2,
    ),
    "local_overflow_in_a_function": Case(
        "This reads taps[3], just past its end; taps has 3 elements.",
        array="taps", index="3", shape="3", block=1,
    ),
    "local_overflow_beside_what_needs_no_memory": Case(
        "This reads weights[3], just past its end; weights has 3 elements.",
        array="weights", index="3", shape="3", block=1, flavours=FULL,
    ),
    "local_overflow_into_the_next": Case(
        "This writes head[4], just past its end; head has 4 elements.",
        thread=(1, 0, 0), array="head", index="4", shape="4", block=2, flavours=FULL,
    ),
    "local_negative": Case(
        "This writes high, 2 elements before its start; high has 2 elements.",
        headline="Invalid __local__ write of size 8 bytes", array="high", index="-2", shape="2", block=1,
        flavours=FULL,
    ),
    "local_struct": Case(
        "This writes taps[6], 3 past its last element; taps has 4 elements.",
        array="taps", index="6", block=1, flavours=FULL,
    ),
    # -- calls -----------------------------------------------------------------------------------------------
    "recursion": Case(
        "Calls are nested more than 1024 deep: does the recursion end?",
        kind="stack-overflow", headline="Stack overflow", block=4,
    ),
    "local_memory_full": Case(
        "The local arrays of this thread do not fit into its local memory.",
        kind="stack-overflow", block=1,
    ),
    "fault_in_a_function": Case(
        "This reads a[i=10], just past its end; a has 10 elements.",
        thread=(10, 0, 0), index="i=10", block=11, **A,
    ),
    "fault_in_an_inline_function": Case(
        "This reads a[i=10], just past its end; a has 10 elements. 2 threads do this.",
        thread=(8, 0, 0), index="i=10", **A,
    ),
    "fault_in_a_template": Case(
        "This reads a[i=10], just past its end; a has 10 elements.",
        index="i=10", flavours=FULL, **A,
    ),
    # -- loops that never end --------------------------------------------------------------------------------
    "while_true": Case(
        "A thread ran this loop, or one around it, more than 100 million times: does its condition"
        " ever become false?",
        kind="timeout", headline="the launch timed out and was terminated", thread=None, block=1,
    ),
    "condition_never_changes": Case(
        "does its condition ever become false?",
        kind="timeout", block=1, settings={"step_budget": 1 << 18},
    ),
    "huge_count": Case(
        "does its condition ever become false?",
        kind="timeout", block=1, settings={"step_budget": 1 << 18},
    ),
    "flag_that_nobody_sets": Case(
        "Threads wait in this loop for memory to change, and no thread ever changes it.",
        kind="timeout", block=2, settings={"step_budget": 1 << 18}, flavours=FULL,
    ),
    "volatile_of_its_own": Case(
        "does its condition ever become false?",
        kind="timeout", block=1, settings={"step_budget": 1 << 18},
    ),
    "changes_for_ever": Case(
        "A thread was in this loop: does it wait for memory that no thread ever changes?",
        kind="timeout", thread=None, block=2, settings={"step_budget": 1 << 18},
    ),
    "time_is_up": Case(
        "The launch took too long; when it was stopped, a thread was in this loop.",
        kind="timeout", thread=None, block=1, settings={"time_limit": 0.0},
    ),
    # -- barriers --------------------------------------------------------------------------------------------
    "barrier_in_one_branch": Case(
        "16 threads of the block wait at this barrier; thread (16,0,0) waits at line {other}. Every"
        " thread of the block must reach the same __syncthreads().",
        kind="barrier-divergence", headline="Barrier error detected. Divergent thread(s) in block",
        flavours=FULL,
    ),
    "two_barriers": Case(
        "16 threads of the block wait at this barrier; thread (1,0,0) waits at line {other}. Every"
        " thread of the block must reach the same __syncthreads().",
        kind="barrier-divergence", flavours=FULL,
    ),
    "barrier_for_more_threads": Case(
        "32 threads of the block wait at this barrier, which needs 64 threads: the others never arrive.",
        kind="barrier-divergence",
    ),
    "barrier_of_another_number": Case(
        "32 threads of the block wait at barrier 1 of 64 threads; thread (32,0,0) waits at line {other},"
        " barrier 2 of 64 threads: number and count must be the same.",
        kind="barrier-divergence", block=64,
    ),
    "barrier_of_another_count": Case(
        "barrier 1 of 96 threads; thread (32,0,0) waits at line {other}, barrier 1 of 64 threads: number and count must"
        " be the same.",
        kind="barrier-divergence", block=64, flavours=FULL,
    ),
    "arrival_of_another_count": Case(
        "barrier 1 of 64 threads; thread (0,0,0) has arrived at line {other}, barrier 1 of 96 threads: number and count"
        " must be the same.",
        kind="barrier-divergence", thread=(32, 0, 0), block=64, flavours=FULL,
    ),
    "arrivals_of_two_counts": Case(
        "This thread arrives at barrier 1 of 128 threads; thread (0,0,0) has arrived at line {other}, barrier 1 of 96"
        " threads: number and count must be the same.",
        kind="barrier-divergence", thread=(32, 0, 0), block=96, flavours=FULL,
    ),
    "barrier_of_each_warp": Case(
        "This writes b[i=10], just past its end; b has 10 elements. 54 threads do this.",
        thread=(10, 0, 0), index="i=10", block=64, **B,
    ),
    "barrier_of_too_many": Case(
        "96 threads have arrived at this barrier, which opens after 64: the rest wait for ever, or open it too early the"
        " next time.",
        kind="barrier-divergence", block=96, flavours=FULL,
    ),
    "barrier_of_half_a_warp": Case(
        "This barrier counts 48 threads: it must be a multiple of 32, since whole warps are counted.",
        kind="barrier-divergence", block=48, flavours=FULL,
    ),
    "barrier_that_also_votes": Case(
        "barrier 1 of 64 threads: bar.red cannot be mixed with bar.sync or bar.arrive.",
        kind="barrier-divergence", block=64, flavours=FULL,
    ),
    "two_barriers_that_count": Case(
        "32 threads of the block wait at this barrier; thread (32,0,0) waits at line {other}. Every thread of the block"
        " must reach the same __syncthreads().",
        kind="barrier-divergence", block=64, flavours=FULL,
    ),
    "fault_before_a_barrier": Case(
        "This writes b[i=10], just past its end; b has 10 elements.",
        thread=(3, 0, 0), index="i=10", **B,
    ),
    "fault_before_two_barriers": Case(
        "This writes b[i=10], just past its end; b has 10 elements.",
        thread=(40, 0, 0), index="i=10", block=64, **B,
    ),
    # -- masks -----------------------------------------------------------------------------------------------
    "syncwarp_leaves_out_its_caller": Case(
        "The mask 0x00000001 leaves out lane 1, although it makes this call.",
        kind="shuffle-mask", headline="Barrier error detected. Invalid arguments", thread=(1, 0, 0),
    ),
    "shuffle_leaves_out_its_caller": Case(
        "The mask 0x0000ffff leaves out lane 16, although it makes this call.",
        kind="shuffle-mask", thread=(16, 0, 0),
    ),
    "shuffle_names_returned_lanes": Case(
        "The mask 0xffffffff names lanes 10-31, which have returned before this call.",
        kind="shuffle-mask", headline="Barrier error detected. Divergent thread(s) in warp", flavours=FULL,
    ),
    "shuffle_names_a_returned_lane": Case(
        "The mask 0xffffffff names lane 5, which has returned before this call.",
        kind="shuffle-mask", flavours=FULL,
    ),
    "shuffle_names_diverged_lanes": Case(
        "The mask 0xffffffff names lanes 16-31, which never make this call: thread (16,0,0) waits at"
        " line {other}.",
        kind="shuffle-mask",
    ),
    "syncwarp_names_diverged_lanes": Case(
        "The mask 0xffffffff names 16 lanes, which take no part in this call.",
        kind="shuffle-mask", thread=(1, 0, 0), flavours=FULL,
    ),
    # -- the kernel itself says so ---------------------------------------------------------------------------
    "assertion": Case(
        'assert(i < 3 && "at most three") is false here. 29 threads do this.',
        kind="assert", headline='Assertion `i < 3 && "at most three"` failed', thread=(3, 0, 0), count=29,
    ),
    "trap": Case(
        "The kernel called __trap().",
        kind="assert", headline="an illegal instruction was encountered", thread=(7, 0, 0),
    ),
    # -- several at once -------------------------------------------------------------------------------------
    "two_faults": Case(
        "This writes a[i=0], but a is an input (const): kernels may only read it.",
        kind="read-only", thread=(2, 0, 0), index="i=0", more=('misaligned', 'out-of-bounds'), **A,
    ),
    "first_in_the_grid": Case(
        "This writes b[i=100], 91 past its last element; b has 10 elements. 28 threads do this.",
        thread=(4, 0, 0), block_index=(3, 0, 0), index="i=100", grid=4, count=28, settings={"schedule": 5},
        **B,
    ),
    "more_than_are_counted": Case(
        "Many threads do this.",
        thread=None, block_index=None, index=None, grid=64, block=256, **B,
    ),
}  # fmt: skip
