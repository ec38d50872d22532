"""The state shared by compiled kernels, the runtime and Python: one declaration, three readers.

`c_header()` is what runtime.cu sees, `offset()` is what the emitter uses, `DTYPES` is what Python reads.
A device address is an offset into the arena; a host address is a real pointer.
"""

from __future__ import annotations

import numpy as np

from ..ptx.types import FIELDS

_U64, _U32, _U16, _I32 = "unsigned long long", "unsigned", "unsigned short", "int"
WAYS, LOOPS = 32, 16  # ways out of a kernel, and loops around them, that are told apart

_STRUCTS = {
    # One per slot: the place of a block that is running. A worker (a CPU thread) has one slot or several.
    "Env": [
        (_U64, "arena"),  # host address of device address 0
        (_U64, "shadow"),  # host address of the shadow of device address 0
        (_U64, "shared_base"),  # device address of this slot's shared window
        (_U64, "local_base"),  # device address of this slot's local memory
        (_U64, "globals_base"),  # device address of the module's variables
        (_U64, "params"),  # device address of the kernel's parameters
        (_U64, "launch"),  # host address of the Launch
        (_U64, "threads"),  # host address of Thread[1024]
        (_U64, "frames"),  # host address of the pool of coroutine frames
        (_U64, "frames_used"),
        (_U64, "frames_size"),
        (_U64, "block_function"),  # host address: runs one block
        (_U64, "start_function"),  # host address: starts one thread as a coroutine
        (_U64, "arena_size"),
        (_U64, "extras"),  # host address of Extra[1024]
        (_U64, "tables"),  # host address of Table[32], one for each warp; 0 when nothing is counted
        (_U64, "counting"),  # host address of the Counting
        # host addresses of Cell, Cold of device address 0; 0 when races are not looked for
        (_U64, "cells"), (_U64, "colds"),
        # host address of a u64 for each granule: the interval and the instruction of which reads need no look
        (_U64, "quiet"),
        # host address of a byte for each of device memory: its unset bits; 0 when no values are followed
        (_U64, "unset"),
        (_U64, "traces"),  # host address of the Trace of device address 0
        (_U64, "block"),  # linear index of the current block
        (_U32, "ctaid_x"), (_U32, "ctaid_y"), (_U32, "ctaid_z"),
        (_U32, "worker"), (_U32, "slot"),
        (_U32, "bar"),  # time (Launch.now) of the last barrier of the block, or of its start
        # of cells of shared memory in this interval, of global memory
        (_U32, "shared_tag"), (_U32, "global_tag"),
        (_U32, "careful"),  # every access is checked in full: it is recorded, or fences order threads
        (_U32, "noted"),  # differs between quiet words of launches that note their steps down and others
        (_U32, "symmetric"),  # as in the Launch
        (_U32, "holes"),  # threads that have ended after an access that barriers since do not order
        # a thread knows of others by more than barriers of the block and collectives of its warp
        (_U32, "clocks"),
        (_U32, "dirty"),  # so many threads have such knowledge left of this block
        (_U32, "blind"),  # a call is under way whose result is not used
        (_U32, "final"),  # a call after which the thread may end while others go on to a barrier
        (_U32, "full", 32),  # time of the last collective of all lanes of each warp
        (_U64, "arrived_clock", 16),  # what bar.arrive has handed over, by barrier number
        (_U32, "arrived", 16),  # bar.arrive, by barrier number
        (_U32, "running"),  # the block has threads that have not ended
        (_U32, "start"),  # its threads have not started yet
        (_U32, "together"),  # all of them wait at one plain __syncthreads(), so all may go on
        (_U32, "faulted"),
        (_U32, "slice"),  # back edges left before the next look at the watchdog
        (_U32, "granted"),  # of which the slice was made
        (_U32, "calls"),  # calls of functions left before such a look
        (_U32, "moved"),  # in this round a thread has gone on that does not only look whether others have
        (_U32, "idle"),  # in the last round none has, in any block of the worker
    ],
    # One per CUDA thread of the block a worker runs.
    # What a barrier and a loop need lies in the first cache line.
    "Thread": [
        (_U64, "handle"),  # its coroutine
        (_U64, "steps"),  # back edges left before the watchdog barks
        (_U32, "wait"),  # what it waits for: Wait
        (_U32, "op"),  # the collective: Op
        (_U32, "mask"),  # member mask, or barrier number
        (_U32, "site"),
        (_U32, "dead"),  # it has faulted or executed `exit`: unwind
        (_U32, "linear"),
        (_U32, "tid_x"), (_U32, "tid_y"), (_U32, "tid_z"),
        (_U32, "clock"),  # time of its last synchronising event, if that was no barrier of the block
        (_U32, "depth"),  # of device function calls
        (_U32, "stack"),  # where on the worker's stack the first recursive function was called, in 16 bytes
        (_U64, "arg0"), (_U64, "arg1"), (_U64, "arg2"),  # operands of the collective it waits at
        (_U64, "result0"), (_U64, "result1"),
        (_U64, "local"),  # device address of its local memory
        (_U64, "local_top"),  # first free byte of its local stack
        (_U64, "local_end"),
    ],
    # What few kernels need of a thread: operands of matrix instructions, copies under way, what fences order, counting.
    "Extra": [
        (_U64, "cursor"),  # host address of the Entry that it is expected to come to next
        (_U64, "path"),  # of calls that led to the function it is in, as a hash
        (_U64, "data", 24),  # elements given to a matrix instruction, then its results
        (_U64, "unset", 24),  # which bits of `data` are unset; of the operand of a shuffle, the first
        (_U64, "from"),  # the origin of them
        (_U64, "given_unset"), (_U64, "given_from"),  # of what the thread gets
        (_U32, "copies"),
        (_U32, "group"),  # number of the group of copies that is not committed yet
        (_U64, "copy_to", 64), (_U64, "copy_from", 64),  # device addresses
        (_U32, "copy_size", 64), (_U32, "copy_bytes", 64),  # written; of these read, the rest is zero
        (_U32, "copy_site", 64), (_U32, "copy_group", 64),
        (_U32, "copy_work", 64),  # when counting: `work` as it was when a copy was started
        (_U32, "work"),  # grows with what the thread computes in floating point
        (_U64, "known"),  # host address of the Clock with what it knows of others; void unless Env.clocks
        (_U64, "fences", 8),  # two Fences: the last one, and the last one that reached other blocks
        (_U32, "pending"),  # what it has read of others' releases and not acquired: a place in the pool
        # where it has looked last at what others change (host address) and what was there; in_vain: the same as before, or
        # (2) something else, after it has waited
        (_U64, "watched"), (_U64, "seen"), (_U32, "watched_site"), (_U32, "watched_size"), (_U32, "in_vain"),
        (_U32, "patience"), (_U32, "waited_site"),  # rounds that it was to wait there the last time, and in which loop
        (_U64, "kept"), (_U32, "kept_key"), (_U32, "kept_stamp"),  # the calm access that it has made last (see races.cu)
        (_U32, "touched"),  # Env.bar when it made an access that may be the last before its end
        (_U32, "hole"),  # it has ended after one: what others know of it at most; 0: it has not
        (_U64, "out"),  # its way out of the kernel, and the loops around that (see leaving.py)
        (_U64, "behind"),  # where it waits: the ways out that lie behind, and the loops around the place
        (_U32, "polls"),  # the site at which it waits at the barrier of its grid, while it does
        (_U32, "turns", LOOPS),  # iterations it has begun of each numbered loop, since it came to the loop
    ],
    # Who touched a granule, for racecheck (see runtime/records.cu). Void when the tag is not that of the interval.
    "Cell": [
        (_U32, "tag"),
        (_U32, "more"),  # the granule's Cold is in use
        (_U32, "record", 8),
    ],
    # What few granules need beside their Cell.
    "Cold": [
        (_U32, "record", 8),
        (_U32, "launch"),  # Launch.tag of the launch that has made the chain
        (_U32, "chain"),  # more records: the place of a Chain in the launch's pool
        (_U32, "writer"), (_U32, "writer_place"),  # key of the last strong write
        # who has seen that one, and all before it
        (_U32, "seer_place"), (_U32, "seer_lane"), (_U32, "seer_stamp"),
        # of accesses no older than this; after a plain store, those of the next chain: writer_place
        (_U32, "since"),
    ],
    # Of a granule with an unset value in it: where that came from, and who stored it. `copy_site`: the last copy
    # (cp.async) into it.
    "Trace": [
        (_U64, "origin"), (_U64, "block"), (_U32, "site"), (_U32, "thread"), (_U32, "copy_site"), (_U32, "unused"),
    ],
    # Two instructions that race: on which bytes of a granule, in one barrier interval of a block (global memory: of the launch).
    "Hazard": [
        (_U64, "address"), (_U64, "block"), (_U32, "interval"),
        # kind: 1 writes, 2 strong, scope << 2
        (_U32, "site"), (_U32, "other_site"), (_U32, "kind"), (_U32, "other_kind"),
        (_U32, "bytes"), (_U32, "across"),  # a bit for each; across: those that different warps race on
    ],
    # One per launch, shared by all workers.
    "Launch": [
        (_U64, "next_block"),  # taken with an atomic add
        (_U64, "blocks"),
        (_U64, "block_multiplier"), (_U64, "block_offset"),  # the order of blocks: i -> (i * m + o) % blocks
        (_U64, "order"),  # host address of the linear thread ids of a block, in the order they start
        # host address of a number for each site's line, in their order; 0 when barriers need not match
        (_U64, "site_lines"),
        (_U64, "step_budget"),
        (_U64, "deadline"),  # nanoseconds of the monotonic clock
        (_U64, "faults"),  # faults seen, kept or not
        (_U64, "printf_lines"),  # lines not taken by Python
        (_U32, "grid_x"), (_U32, "grid_y"), (_U32, "grid_z"),
        (_U32, "block_x"), (_U32, "block_y"), (_U32, "block_z"),
        (_U32, "threads"),
        (_U32, "lanes"),  # threads that one coroutine stands for; it has the state of the first of them
        (_U32, "stop"),  # 1: no further block is started; GIVEN_UP: threads end at their next slice as well
        (_U32, "lock"),  # over `records`
        (_U32, "kept"),  # records in use
        (_U32, "printf_open"),
        (_U32, "shared_bytes"),  # of a block, guards included
        (_U32, "shared_static"),  # as CUDA counts it, without guards
        (_U32, "shared_dynamic"),
        (_U32, "check_sync"),
        # it has read something unset, and must run again in code that follows such values
        (_U32, "suspect"),
        (_U64, "unset_argument"),  # device address of one of printf's
        (_U32, "slots"),  # blocks that a worker runs in turns
        (_U32, "grid_sync"),  # blocks wait for one another at the barrier of their grid, and threads say so
        (_U64, "grid_workspace"),  # device address of what cooperative groups synchronise a grid with
        (_U32, "now"),  # time: the number of synchronising events so far, for racecheck
        (_U32, "tag"),  # of cells of global memory in this launch
        (_U32, "symmetric"),  # SYMMETRIC bits: which events order threads alike
        (_U32, "ordered"),  # the kernel has fences, releases or acquires
        (_U32, "finals"),  # it has accesses that may be the last of a thread while others go on to a barrier
        (_U32, "silent"),  # the pool is used up: races are not told any more
        (_U32, "races"), (_U32, "hazard_count"),
        (_U32, "serial"),  # strong writes so far
        (_U64, "pool"), (_U64, "pool_used"), (_U64, "pool_size"),  # host address; bytes
        (_U32, "nodes"), (_U32, "nodes_left"),  # room for records in the pool
        (_U64, "hazards"), (_U64, "places"),  # host addresses of tables at the pool's start
        (_U32, "looks"), (_U32, "most_looks"),  # at memory that has changed, in this round: those left, and how many at first
        (_U64, "turns"),  # loads after which a thread lets others come between, so far
        (_U64, "ticks"),  # what clocks show
        (_U64, "chance"),  # random bits, for who waits how long
        (_U64, "steps"), (_U64, "steps_end"),  # host addresses: where the next Step goes, if there is room
    ],
    # Something that racecheck looked at: an access, or what threads synchronise by, one step for each that takes part.
    "Step": [
        (_U64, "address"),  # of a barrier: its number
        (_U64, "value"), (_U64, "block"), (_U32, "site"), (_U32, "thread"),
        (_U32, "what"), (_U32, "info"),
        # of the event that several threads take part in; of an arrival: the barrier's number
        (_U32, "serial"),
        (_U32, "interval"),  # Env.bar
    ],
    # What is counted in a launch (see runtime/counters.cu).
    "Counting": [
        (_U64, "segments"), (_U64, "accesses"),  # host addresses of Segment[], Access[]
        (_U64, "totals"),  # host address of Total[], three for each access: global, shared, local
        (_U64, "split"),  # entries that had to be added up before every lane had passed them
        (_U64, "idle_copies"),  # waited for by threads that had computed nothing since they started them
        (_U64, "busiest"),  # requests to global memory by that warp of each block that makes most
        (_U64, "kept"), (_U64, "kept_end"),  # host addresses: where the next Request goes, if there is room
    ],
    # Code without a branch, a call or a wait in it: all of it is executed, or none.
    "Segment": [
        (_U32, "first"), (_U32, "accesses"),  # its accesses
        (_U32, "bytes"),  # of an Entry for it
        (_U32, "unused"),
        (_U64, "warps"), (_U64, "threads"),  # how often it was executed
        (_U64, "divergent"),  # executions in which the branch at its end went both ways
        (_U64, "overlapped"),  # of `threads`, those that had copies (cp.async) under way
    ],
    # One access of one warp, for who wants to look at single ones.
    "Request": [(_U32, "access"), (_U32, "space"), (_U32, "block"), (_U32, "warp"), (_U32, "addresses", 32)],
    "Access": [(_U32, "size"), (_U32, "space"), (_U32, "atomic"), (_U32, "unused")],
    "Total": [
        (_U64, "requests"), (_U64, "lanes"), (_U64, "sectors"), (_U64, "sectors_ideal"),
        (_U64, "wavefronts"), (_U64, "wavefronts_ideal"), (_U64, "serial"),
    ],
    # One execution of a segment by the lanes of a warp; u32[32] for each access follow, the addresses of the lanes.
    "Entry": [
        (_U64, "key"),
        (_U32, "mask"),  # lanes that have been here
        (_U32, "bytes"),
        (_U32, "taken"),  # lanes that took the branch at its end
        (_U32, "segment"), (_U32, "creator"),
        (_U32, "copying"),  # lanes that came with copies (cp.async) under way
    ],
    # Entries of one warp that more lanes may come to.
    "Table": [
        (_U64, "base"), (_U64, "top"), (_U64, "end"),  # host addresses of the entries
        (_U64, "index"),  # host address of offsets of entries + 1, by hash
        (_U32, "index_size"),  # 0: there is none
        (_U32, "entries"),
        (_U32, "creators"),  # lanes that made them
        (_U32, "requests"),  # to global memory, of the warp in this block
        (_U32, "most"),  # in the first table of a block: the most requests of a warp
        (_U32, "unused"),
    ],
    "Fault": [
        (_U64, "address"), (_U64, "block"), (_U64, "extra"), (_U64, "other_block"),
        (_U32, "kind"), (_U32, "site"), (_U32, "thread"), (_U32, "other_site"), (_U32, "other_thread"),
        (_U32, "count"),
        (_U32, "slot"),
    ],
}  # fmt: skip

CACHE_LINE = 64
MAX_THREADS = 1024  # of a block
PARAM_BYTES = 4352  # of a kernel's parameters
MAX_COPIES = 64  # of a thread under way; more, and the oldest arrive
MAX_RECORDS = 64  # faults kept
STOP_AFTER = 4096  # faults after which no further block starts
SLICE = 1 << 12  # back edges between two looks at the watchdog
SHARERS = 64  # threads that take turns: with more, each has less of a slice
GIVEN_UP = 2  # the value of `stop` in a launch whose threads are ended before their time
SPIN_SLICE = 64  # in a loop in which a thread may wait for memory to change: then others run
TURN_SLICE = 2  # where it lets others run after every look at memory: then most looks are in vain
FEW_LOOKS = 2  # of those who wait for memory to change, as many look first when it has, twice as many in the next round
PATIENCE = 1 << 6  # rounds after which a thread looks anyway
TURNS = 1 << 14  # so many loads are all followed by a turn; then every second is, and so on
COUNT_SLICE = 63  # when counting: then the other lanes of the warp catch up
MAX_DEPTH = 1024  # nested calls of recursive device functions
STACK_BYTES = 48 << 20  # of a worker's stack that such calls may take
SLOT_BYTES = 64 << 20  # bytes of address space of a slot: its shared window, a gap, its local memory
SHARED_WINDOW = 1 << 20  # bytes of address space for the shared memory of a block
LOCAL_START = 2 * SHARED_WINDOW  # in a slot
#: the part of a block's shared memory that is not the kernel's, by the names of PTX: cooperative groups use the second half
RESERVED_BYTES = 1024
_RESERVED_START = SHARED_WINDOW - 2 * RESERVED_BYTES
RESERVED = {"begin": _RESERVED_START, "0": _RESERVED_START, "1": _RESERVED_START + RESERVED_BYTES // 2,
            "end": _RESERVED_START + RESERVED_BYTES, "cap": RESERVED_BYTES}  # fmt: skip
SHARED_START = 1024  # device memory starts here, so that a null pointer belongs to no array
LOCAL_GUARD = 256  # bytes after each local array
GRANULE = 4  # bytes of device memory per byte of shadow

#: why a thread unwinds
DEAD_FAULT, DEAD_EXIT = 1, 2
#: why a launch has timed out; 0: its time is up
TIMEOUT_SPENT, TIMEOUT_BLOCKS, TIMEOUT_WAITED, TIMEOUT_WAITING, TIMEOUT_CALLED = 1, 2, 3, 4, 5

#: bits of a shadow byte; a byte of 0 is unowned memory
READ, WRITE = 1, 2  # allowed for the whole granule
INIT = 4  # something has been written to all of it; the upper half of the byte says which bytes, until then
# the last granule of an array, of 1 to 3 bytes: INIT says that they may be written, the upper half which
PARTIAL = 8
#              of them are; its highest bit that is set stands behind the last of them

LANES_OF_A_RECORD = 4  # records.cu's Record: `lanes` is its fifth word

#: bits of the `info` word of a checked access, beside its size
INFO_WRITE, INFO_ATOMIC, INFO_SHARED, INFO_VOLATILE, INFO_VALUE = 1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12
# it hands on what was done before; takes over what was handed on
INFO_RELEASE, INFO_ACQUIRE = 1 << 15, 1 << 16
SCOPE_SHIFT = 17  # two bits: whom an atomic or volatile access, or a fence, reaches
INFO_BLIND = 1 << 20  # an atomic update whose result is not used
INFO_FINAL = 1 << 19  # the thread may end after it while others go on to a barrier

#: whom synchronisation reaches, beside the block
SCOPES = ("cta", "cluster", "gpu", "sys")
#: nothing but barriers and collectives of whole warps orders the lanes of a warp, or but barriers of whole blocks the warps
#: of a block; and nothing at all the blocks
SYMMETRIC_LANES, SYMMETRIC_WARPS, SYMMETRIC_BLOCKS = 1, 2, 4
STOP_AFTER_RACES = 1 << 16  # bytes on which lines race after which no further block starts
HAZARDS = 1 << 18  # room for them
LATE = 1 << 31  # events after which racecheck's time starts over
PLACES, PHASES = 1 << 16, 1 << 10  # entries of hash tables

FAULTS = (
    "none", "out-of-bounds", "misaligned", "read-only", "timeout", "assert", "trap", "stack-overflow",
    "barrier-divergence", "shuffle-mask", "exited-early", "uninitialised-read", "race",
    "warp-race", "same-write", "went-round", "missing-block",
)  # fmt: skip
#: the origin of an unset value is a number: an address, what lies there (Origin), and the site of who read it first
ORIGIN_KIND, ORIGIN_SITE = 36, 40
ORIGIN_ADDRESS = (1 << ORIGIN_KIND) - 1
#: memory that nothing has written; that a copy (cp.async) is to fill; a register; a lane that a shuffle asks for
ORIGINS = ("memory", "copying", "register", "lane")
#: how an unset value is used
USES = ("branch", "address", "atomic", "collective", "operand", "printf", "read", "output")
# of an Access; target: where an indexed branch goes
SPACES = ("global", "shared", "local", "generic", "target")
STEPS = ("access", "start", "barrier", "collective", "arrive", "fence")
NO_THREAD = 0xFFFF
WAITS = ("ready", "barrier", "warp", "exited", "turn", "change")
OPS = (
    "barrier", "bar_warp", "shfl_up", "shfl_down", "shfl_bfly", "shfl_idx",
    "vote_all", "vote_any", "vote_uni", "vote_ballot", "match_any", "match_all",
    "redux_add", "redux_min_s", "redux_max_s", "redux_min_u", "redux_max_u", "redux_and", "redux_or", "redux_xor",
    "exchange", "matrix", "barrier_count", "barrier_and", "barrier_or", "barrier_popc",
)  # fmt: skip
FAULT = {name: i for i, name in enumerate(FAULTS)}
WAIT = {name: i for i, name in enumerate(WAITS)}
OP = {name: i for i, name in enumerate(OPS)}
NO_ADDRESS = 0xFFFFFFFF  # of a lane that took no part in an access
SPACE = {name: i for i, name in enumerate(SPACES)}
ORIGIN = {name: i for i, name in enumerate(ORIGINS)}
USE = {name: i for i, name in enumerate(USES)}

DTYPES = {
    name: np.dtype([(field, FIELDS[c][1], tuple(n)) for c, field, *n in fields], align=True)
    for name, fields in _STRUCTS.items()
}
_LLVM = {(name, field): FIELDS[c][0] for name, fields in _STRUCTS.items() for c, field, *_ in fields}


def array(struct: str, n: int) -> np.ndarray:
    """Zeros, for the runtime: at least one, so that there is an address."""
    return np.zeros(max(n, 1), DTYPES[struct])


def offset(struct: str, field: str) -> int:
    return DTYPES[struct].fields[field][1]


def llvm_field(struct: str, field: str) -> str:
    return _LLVM[struct, field]


def c_header() -> str:
    """The declarations at the head of runtime.cu."""
    lines = []
    for name, fields in _STRUCTS.items():
        members = (f"{c} {field}{f'[{n[0]}]' if n else ''};" for c, field, *n in fields)
        lines.append(f"struct {name} {{ " + " ".join(members) + " };")
    for prefix, names in (("FAULT", FAULTS), ("WAIT", WAITS), ("OP", OPS), ("SPACE", SPACES), ("STEP", STEPS),
                          ("SCOPE", SCOPES), ("ORIGIN", ORIGINS), ("USE", USES)):  # fmt: skip
        values = ", ".join(f"{prefix}_{n.upper().replace('-', '_')}" for n in names)
        lines.append(f"enum {{ {values} }};")
    constants = {
        "MAX_RECORDS": MAX_RECORDS, "STOP_AFTER": STOP_AFTER, "SLICE": SLICE, "SPIN_SLICE": SPIN_SLICE, "GIVEN_UP": GIVEN_UP, "SHARERS": SHARERS, "TURNS": TURNS, "TURN_SLICE": TURN_SLICE,
        "FEW_LOOKS": FEW_LOOKS, "PATIENCE": PATIENCE,
        "CACHE_LINE": CACHE_LINE, "MAX_THREADS": MAX_THREADS, "MAX_COPIES": MAX_COPIES, "MAX_DEPTH": MAX_DEPTH, "STACK_BYTES": STACK_BYTES,
        "READ": READ, "WRITE": WRITE, "INIT": INIT, "PARTIAL": PARTIAL,
        "INFO_WRITE": INFO_WRITE, "INFO_ATOMIC": INFO_ATOMIC, "INFO_SHARED": INFO_SHARED,
        "INFO_VOLATILE": INFO_VOLATILE, "INFO_VALUE": INFO_VALUE, "ORIGIN_KIND": ORIGIN_KIND, "ORIGIN_SITE": ORIGIN_SITE,
        "INFO_RELEASE": INFO_RELEASE, "INFO_ACQUIRE": INFO_ACQUIRE, "INFO_FINAL": INFO_FINAL, "INFO_BLIND": INFO_BLIND, "SCOPE_SHIFT": SCOPE_SHIFT,
        "SYMMETRIC_LANES": SYMMETRIC_LANES, "SYMMETRIC_WARPS": SYMMETRIC_WARPS, "SYMMETRIC_BLOCKS": SYMMETRIC_BLOCKS,
        "STOP_AFTER_RACES": STOP_AFTER_RACES, "HAZARDS": HAZARDS, "PLACES": PLACES, "PHASES": PHASES, "NO_THREAD": NO_THREAD,
        "DEAD_FAULT": DEAD_FAULT, "TIMEOUT_SPENT": TIMEOUT_SPENT, "TIMEOUT_BLOCKS": TIMEOUT_BLOCKS,
        "TIMEOUT_WAITED": TIMEOUT_WAITED, "TIMEOUT_WAITING": TIMEOUT_WAITING, "TIMEOUT_CALLED": TIMEOUT_CALLED, "SHARED_WINDOW": SHARED_WINDOW, "SLOT_BYTES": SLOT_BYTES, "LOCAL_START": LOCAL_START, "SHARED_START": SHARED_START, "LOCAL_GUARD": LOCAL_GUARD,
    }  # fmt: skip
    lines.append("enum { " + ", ".join(f"{k} = {v}" for k, v in constants.items()) + " };")
    lines.append(f"constexpr unsigned long long ORIGIN_ADDRESS = {ORIGIN_ADDRESS:#x};")
    return "\n".join(lines) + "\n"


#: what compiled code calls of the runtime: name -> (the type of its result, those of its arguments), as LLVM has them
_CHECK = "i64 i64 i32"  # env, thr, site: what most of them begin with
FUNCTIONS = {
    name: (returns, tuple(arguments.split()))
    for name, returns, arguments in (
        ("rt_arrive", "i32", f"{_CHECK} i64 i64"),
        ("rt_assert", "i32", f"{_CHECK} i64 i64"),
        ("rt_block", "void", "i64"),
        ("rt_check", "i32", "i64 i64 i64 i32 i32 i64"),
        ("rt_copy", "i32", f"{_CHECK} i64 i64 i64 i64"),
        ("rt_copy_commit", "i32", _CHECK),
        ("rt_copy_reset", "i32", _CHECK),
        ("rt_copy_wait", "i32", f"{_CHECK} i64"),
        ("rt_count", "i64", f"{_CHECK} i64"),
        ("rt_enter", "i32", _CHECK),
        ("rt_fault", "i32", f"{_CHECK} i64 i64 i64"),
        ("rt_fence", "i32", f"{_CHECK} i64"),
        ("rt_frame", "i64", "i64 i64 i64"),
        ("rt_local", "i64", f"{_CHECK} i64"),
        ("rt_local_free", "i32", f"{_CHECK} i64 i64"),
        ("rt_local_reset", "i32", _CHECK),
        ("rt_mbarrier", "i64", f"{_CHECK} i64 i64 i64"),
        ("rt_outside", "i32", f"{_CHECK} i64 i64"),
        ("rt_printf", "i32", f"{_CHECK} i64 i64"),
        ("rt_race", "i32", f"{_CHECK} i64 i64 i64"),
        ("rt_slice", "i32", f"{_CHECK} i64 i64"),
        ("rt_suspect", "i32", _CHECK),
        ("rt_ticks", "i64", "i64"),
        ("rt_turn", "i32", _CHECK),
        ("rt_unset_loaded", "i64", f"{_CHECK} i64 i64 i64"),
        ("rt_unset_stored", "i32", f"{_CHECK} i64 i64 i64"),
        ("rt_unset_used", "i32", f"{_CHECK} i64 i64"),
        ("rt_written", "i32", f"{_CHECK} i64 i64"),
    )
}
#: those that write to nothing that a kernel's code reads later, but for what it reads as volatile
ASIDE = frozenset({"rt_check", "rt_outside", "rt_race", "rt_slice", "rt_suspect"})
