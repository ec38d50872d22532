"""What compiled kernels, the runtime and Python share: one declaration, three readers.

The structs are declared in state.h. The runtime sees them through `c_header()`, the emitter through
`offset()` and `llvm_field()`, Python through `DTYPES`.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

_STATE = Path(__file__).with_name("state.h").read_text(encoding="utf-8")
_RECORD_TYPES = {"u64": ctypes.c_uint64, "u32": ctypes.c_uint32}
_C_TYPES = {"u64": ("i64", "u8"), "u32": ("i32", "u4")}  # as LLVM and NumPy have them


def _fields(body: str) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """(type, name, shape) of the fields of a struct."""
    for kind, names in re.findall(r"^ +(\w+) (.*?);", body, re.MULTILINE):
        for name, size in re.findall(r"(\w+)(?:\[(\d+)\])?", names):
            yield kind, name, (int(size),) if size else ()


_STRUCTS = {
    name: list(_fields(body))
    for name, body in re.findall(r"^struct (\w+) \{$(.*?)^\};$", _STATE, re.M | re.S)
}
DTYPES = {
    name: np.dtype([(field, _C_TYPES[kind][1], shape) for kind, field, shape in fields], align=True)
    for name, fields in _STRUCTS.items()
}
_LLVM = {(name, field): _C_TYPES[kind][0] for name, fields in _STRUCTS.items() for kind, field, _ in fields}
WAYS = 32  # exits of a kernel that are distinguished
LOOPS = DTYPES["Extra"]["turns"].shape[0]  # loops around them that are distinguished

#: of an array that is an argument: where it begins, where it ends, where what may be written ends. Behind the parameters
#: of a kernel whose threads are lanes there is one for each
BOUNDS = struct.Struct("<QQQ")

CACHE_LINE = 64
WARP = 32  # threads
MAX_THREADS = 1024  # of a block
PARAM_BYTES = 4352  # of a kernel's parameters
WHOLE = (1 << 32) - 1  # threads in a piece of a block that is not split
ALL = (1 << 64) - 1  # blocks, of a launch that does not pause
MAX_COPIES = 64  # of a thread that are pending; beyond that, the oldest arrive
MAX_BULKS = 1 << 10  # copies of a block that are under way; beyond that, the oldest arrive
MAX_FLIGHTS = 64  # products of a warpgroup that are looked at when they are waited for
WARPGROUP = 128  # threads
MAX_CHAIN = 8  # products of a warpgroup that are computed together
SUMS, MOST_SUMS = 2, 128  # lists of its sums that are kept for it; registers in one
MAX_AGENTS = 1 << 10  # copies and products of a block that racecheck tells apart
LAST_ARRIVALS = 64  # at barriers in memory, that are remembered
MAX_RECORDS = 64  # faults kept
MOST_CLUSTER = 16  # blocks of a cluster
STOP_AFTER = 4096  # faults after which no further block starts
SLICE = 1 << 12  # back edges between two checks of the watchdog
SHARERS = 64  # threads that take turns; if there are more, each has a shorter slice
GIVEN_UP = 2  # the value of `stop` in a launch whose threads are ended early
SPIN_SLICE = 64  # the same in a loop in which a thread may wait for memory to change: after it, others run
TURN_SLICE = 2  # the same where it lets others run after every look at memory: most of its looks are in vain
FEW_LOOKS = (
    2  # threads that look first at memory for whose change many wait; in each further round twice as many
)
PATIENCE = 1 << 6  # rounds after which a thread looks anyway
PATIENT = 1  # of a thread that waits for memory to change: it has not looked in vain
TURNS = 1 << 14  # each of this many first loads is followed by a turn; then every second one, and so on
COUNT_SLICE = 63  # when counting: then the other lanes of the warp catch up
MAX_DEPTH = 1024  # nesting depth of recursive device functions
STACK_BYTES = 48 << 20  # of a worker's stack that such calls may take
SLOT_BYTES = 64 << 20  # bytes of address space of a slot: its shared window, a gap, its local memory
SHARED_WINDOW = 1 << 20  # bytes of address space for the shared memory of a block
LOCAL_START = 2 * SHARED_WINDOW  # in a slot
#: the part of a block's shared memory that CUDA reserves, by the names of PTX; cooperative groups use the second half
RESERVED_BYTES = 1024
_RESERVED_START = SHARED_WINDOW - 2 * RESERVED_BYTES
RESERVED = {
    "begin": _RESERVED_START,
    "0": _RESERVED_START,
    "1": _RESERVED_START + RESERVED_BYTES // 2,
    "end": _RESERVED_START + RESERVED_BYTES,
    "cap": RESERVED_BYTES,
}
SHARED_START = 1024  # device memory starts here, so that a null pointer belongs to no array
HEAP_LIMIT = 8 << 20  # bytes that kernels may have from malloc(): CUDA's default
HEAP_BYTES = 2 * HEAP_LIMIT  # with the unowned bytes after each block
HEAP_BLOCKS = 1 << 17  # at most, freed ones included
HEAP_GUARD = 32
LOCAL_GUARD = 256  # bytes after each local array
LOOKS = 1 << 11  # at a semaphore, before a thread sleeps
GRANULE = 4  # bytes of device memory per byte of shadow

FRAMES_FULL = 1 << 20  # of a stack overflow: what the threads of a block keep while they wait does not fit
#: why a thread unwinds
DEAD_FAULT, DEAD_EXIT = 1, 2
#: why a launch has timed out; 0: its time is up
TIMEOUT_SPENT, TIMEOUT_BLOCKS, TIMEOUT_WAITED, TIMEOUT_WAITING, TIMEOUT_CALLED = 1, 2, 3, 4, 5

#: a barrier as a thread names it: its number and, from bit AT_COUNT on, how many threads it counts, 0 if all of the block;
#: the thread has not waited, or takes part in a vote; AT_NONE: it is at none
AT_ARRIVED, AT_VOTES, AT_NONE, AT_COUNT = 16, 32, 64, 8

#: bits of a shadow byte; a byte of 0 is unowned memory
READ, WRITE = 1, 2  # allowed for the whole granule
INIT = 4  # something has been written to all of it; the upper half of the byte says which bytes, until then
# the last granule of an array, with 1 to 3 bytes of it: INIT says that they may be written, the upper half which of them
# have been; the highest bit set there marks the end of the array
PARTIAL = 8

#: bits of the `info` word of a checked access, beside its size
INFO_WRITE, INFO_ATOMIC, INFO_SHARED, INFO_VOLATILE, INFO_VALUE = 1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12
# it publishes what was done before; it takes over what was published
INFO_RELEASE, INFO_ACQUIRE = 1 << 15, 1 << 16
SCOPE_SHIFT = 17  # two bits: whom an atomic or volatile access, or a fence, reaches
INFO_BLIND = 1 << 20  # an atomic update whose result is not used
INFO_SEEN = 1 << 21  # what it reads is known to have been written
INFO_FINAL = 1 << 19  # the thread may end after it while others go on to a barrier

#: whom synchronisation reaches, beside the block
SCOPES = ("cta", "cluster", "gpu", "sys")
FENCE_SC = 4  # beside the scope of a fence: all of kind sc have one order
FENCE_PROXY = (
    8,
    16,
)  # what the thread has written in shared memory, in global memory, is known to asynchronous copies and products
#: threads are ordered alike: lanes by barriers and collectives of their whole warp only, warps by barriers of their whole
#: block only, blocks not at all
SYMMETRIC_LANES, SYMMETRIC_WARPS, SYMMETRIC_BLOCKS = 1, 2, 4
ASYNCHRONOUS = 8  # instead: it copies many bytes at a time, or multiplies with four warps
#: in the word of a granule, see epochs.cu: who has accessed it; how
WHO_WARP, WHO_SEVERAL = 1025, 2047
WORD_BEFORE, WORD_OTHERS, WORD_OF_WARP, WORD_UNSEEN, WORD_WRITTEN = 1, 2, 4, 8, 1 << 7
WORD_WROTE = WORD_BEFORE | WORD_OF_WARP | WORD_WRITTEN
# something unset was read; there may be a race; lanes are not sure; it stores where no launch of its kind was known to
SUSPECT_UNSET, SUSPECT_RACE, SUSPECT_LANES, SUSPECT_STORED = 1, 2, 3, 4
STOP_AFTER_RACES = 1 << 16  # bytes on which lines race after which no further block starts
HAZARDS = 1 << 18  # room for them
LATE = 1 << 31  # events after which racecheck's clock is reset
PLACES, PHASES = 1 << 16, 1 << 10  # entries of hash tables
#: of a launch of a Batch: it has faulted in the part whose number stands beside it; nothing is wrong
FAULTY, ALL_RIGHT = 1 << 31, (1 << 32) - 1

FAULTS = """
    none out-of-bounds misaligned read-only timeout assert trap stack-overflow barrier-divergence
    shuffle-mask exited-early uninitialised-read race warp-race same-write went-round missing-block
    lanes-differ invalid-free invalid-texture outside-surface stale-texel same-value invalid-map stuck-at-phase
    under-way unlanded overwritten refilled group-incomplete unfenced too-many descriptor registers made-again parity
    ended-block unstarted-block no-rank cluster-barrier
""".split()
#: the origin of an unset value is a number: an address, what lies there (ORIGINS), and the site of the first read
ORIGIN_KIND, ORIGIN_SITE = 36, 40
ORIGIN_ADDRESS = (1 << ORIGIN_KIND) - 1
#: memory that was never written; memory that a copy (cp.async) is to fill; a register; a lane that a shuffle asks for
ORIGINS = ("memory", "copying", "register", "lane")
#: how an unset value is used
USES = ("branch", "address", "atomic", "collective", "operand", "printf", "read", "output")
# of an Access; target: where an indexed branch goes
SPACES = ("global", "shared", "local", "generic", "target")
TEXTURES = 1 << 12  # texture and surface objects of a device at a time
TEXTURE_TAG = 0x7458 << 48  # of their handles, which are no addresses
# what is wrong with an object that a kernel was given; 0: nothing
MISFITS = "none unknown surface texture geometry memory fetch type gather".split()
GEOMETRIES = ("1d", "2d", "3d", "a1d", "a2d", "cube", "acube")
BOUNDARIES = ("trap", "clamp", "zero")
TEXELS = ("signed", "unsigned", "float")  # CUDA's numbers of channel formats
ADDRESSES = ("wrap", "clamp", "mirror", "border")  # likewise
WAITS = ("ready", "barrier", "warp", "exited", "turn", "change", "phase", "group", "cluster")
#: of barriers in memory; kinds of bulk copies; what reductions do; types of a tensor's elements, as the driver numbers them
MBARRIERS = ("init", "arrive", "arrive_drop", "test", "parity", "inval", "expect_tx", "complete_tx")
MB_LOOK = 16  # a thread that can wait looks at the phase: nothing arrives because of it
BULKS = ("load", "tile", "im2col", "send", "value", "store", "store_tile")
UPDATES = ("none", "add", "min", "max", "inc", "dec", "and", "or", "xor")
TENSOR_TYPES = (
    *("uint8", "uint16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64", "bfloat16"),
)
#: types of elements of a warpgroup's matrices
WG_TYPES = ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8", "f32", "s32")
TENSOR_MAGIC = 0x70614D726F736E54  # of a TensorMap
OPS = """
    barrier bar_warp shfl_up shfl_down shfl_bfly shfl_idx vote_all vote_any vote_uni vote_ballot match_any
    match_all redux_add redux_min_s redux_max_s redux_min_u redux_max_u redux_and redux_or redux_xor
    exchange matrix barrier_count barrier_and barrier_or barrier_popc elect wgmma
""".split()
FAULT = {name: i for i, name in enumerate(FAULTS)}
WAIT = {name: i for i, name in enumerate(WAITS)}
OP = {name: i for i, name in enumerate(OPS)}
NO_ADDRESS = 0xFFFFFFFF  # of a lane that took no part in an access
SPACE = {name: i for i, name in enumerate(SPACES)}
ORIGIN = {name: i for i, name in enumerate(ORIGINS)}
USE = {name: i for i, name in enumerate(USES)}


def _structure(struct: str) -> type[ctypes.Structure]:
    """One whose fields Python reads and writes several times faster than those of a NumPy record."""
    fields = []
    for kind, name, shape in _STRUCTS[struct]:
        type_ = _RECORD_TYPES[kind]
        fields.append((name, type_ * shape[0] if shape else type_))
    return type(struct, (ctypes.Structure,), {"_fields_": fields})


Launch, Team, Member, Graph, GraphNode = map(_structure, "Launch Team Member Graph GraphNode".split())


def array(struct: str, n: int) -> np.ndarray:
    """Zeros, for the runtime: at least one, so that there is an address."""
    return np.zeros(max(n, 1), DTYPES[struct])


def offset(struct: str, field: str) -> int:
    return DTYPES[struct].fields[field][1]


def llvm_field(struct: str, field: str) -> str:
    return _LLVM[struct, field]


_FOR_CUDA = """
    MAX_RECORDS STOP_AFTER SLICE SPIN_SLICE GIVEN_UP SHARERS TURNS TURN_SLICE FEW_LOOKS PATIENCE PATIENT
    CACHE_LINE MAX_THREADS MAX_COPIES MAX_DEPTH STACK_BYTES READ WRITE INIT PARTIAL INFO_WRITE
    INFO_ATOMIC INFO_SHARED INFO_VOLATILE INFO_VALUE ORIGIN_KIND ORIGIN_SITE INFO_RELEASE INFO_ACQUIRE
    INFO_FINAL INFO_BLIND INFO_SEEN SCOPE_SHIFT FENCE_SC MAX_AGENTS ASYNCHRONOUS SYMMETRIC_LANES SYMMETRIC_WARPS SYMMETRIC_BLOCKS STOP_AFTER_RACES
    HAZARDS PLACES PHASES DEAD_FAULT TIMEOUT_SPENT TIMEOUT_BLOCKS TIMEOUT_WAITED
    TIMEOUT_WAITING TIMEOUT_CALLED SHARED_WINDOW SLOT_BYTES LOCAL_START SHARED_START LOCAL_GUARD FRAMES_FULL
    HEAP_LIMIT HEAP_BYTES HEAP_BLOCKS HEAP_GUARD TEXTURES FAULTY ALL_RIGHT LOOKS WHO_WARP WHO_SEVERAL WORD_BEFORE WORD_OTHERS WORD_OF_WARP WORD_UNSEEN WORD_WRITTEN WORD_WROTE SUSPECT_UNSET SUSPECT_RACE
    MOST_CLUSTER WARPGROUP MOST_SUMS MAX_FLIGHTS MB_LOOK MAX_BULKS LAST_ARRIVALS SUSPECT_LANES SUSPECT_STORED AT_ARRIVED AT_VOTES AT_NONE AT_COUNT
""".split()


def bounds_offset(nbytes: int) -> int:
    """Where the first bounds are, after parameters of this many bytes."""
    return -(-nbytes // 8) * 8


def holds_bounds(sizes: Iterable[int]) -> bool:
    """Whether there is room for them after parameters of these sizes, however aligned."""
    return sum(size + 8 + BOUNDS.size for size in sizes) <= PARAM_BYTES


def c_header() -> str:
    """The declarations at the head of the runtime."""
    lines = [_STATE]
    enums = {
        "FAULT": FAULTS,
        "WAIT": WAITS,
        "OP": OPS,
        "SPACE": SPACES,
        "SCOPE": SCOPES,
        "ORIGIN": ORIGINS,
        "USE": USES,
        "MISFIT": MISFITS,
        "GEOMETRY": [f"OF_{name}" for name in GEOMETRIES],
        "BOUNDARY": BOUNDARIES,
        "TEXEL": TEXELS,
        "ADDRESS": ADDRESSES,
        "MBARRIER": MBARRIERS,
        "BULK": BULKS,
        "UPDATE": UPDATES,
        "TENSOR": TENSOR_TYPES,
        "WG": WG_TYPES,
    }
    for prefix, names in enums.items():
        values = ", ".join(f"{prefix}_{n.upper().replace('-', '_')}" for n in names)
        lines.append(f"enum {{ {values} }};")
    lines.append("enum { " + ", ".join(f"{name} = {globals()[name]}" for name in _FOR_CUDA) + " };")
    for name in ("ORIGIN_ADDRESS", "TENSOR_MAGIC"):
        lines.append(f"constexpr unsigned long long {name} = {globals()[name]:#x};")
    return "\n".join(lines) + "\n"


#: runtime functions that compiled code calls: name -> (result type, argument types), in LLVM
_CHECK = "i64 i64 i32"  # env, thr, site: the first arguments of most
FUNCTIONS = {
    name: (returns, tuple(arguments.split()))
    for name, returns, arguments in (
        ("rt_arrive", "i32", f"{_CHECK} i64 i64"),
        ("rt_assert", "i32", f"{_CHECK} i64 i64"),
        ("rt_block", "void", "i64"),
        ("rt_bulk", "i32", f"{_CHECK} i64 i64 i64 i64 i64"),
        ("rt_bulk_commit", "i32", _CHECK),
        ("rt_bulk_wait", "i32", f"{_CHECK} i64 i64"),
        ("rt_check", "i32", "i64 i64 i64 i32 i32 i64"),
        ("rt_cluster_arrive", "i32", f"{_CHECK} i64"),
        ("rt_cluster_wait", "i32", _CHECK),
        ("rt_copy", "i32", f"{_CHECK} i64 i64 i64 i64"),
        ("rt_copy_check", "i32", f"{_CHECK} i64 i64 i64 i64"),
        ("rt_copy_commit", "i32", _CHECK),
        ("rt_copy_reset", "i32", _CHECK),
        ("rt_copy_wait", "i32", f"{_CHECK} i64"),
        ("rt_count", "i64", f"{_CHECK} i64"),
        ("rt_enter", "i32", _CHECK),
        ("rt_fault", "i32", f"{_CHECK} i64 i64 i64"),
        ("rt_fence", "i32", f"{_CHECK} i64"),
        ("rt_frame", "i64", "i64 i64 i64"),
        ("rt_free", "i32", f"{_CHECK} i64"),
        ("rt_local", "i64", f"{_CHECK} i64 i64 i64"),
        ("rt_local_free", "i32", f"{_CHECK} i64 i64"),
        ("rt_local_reset", "i32", _CHECK),
        ("rt_look", "i32", f"{_CHECK} i64 i64 i64 i64 i64"),
        ("rt_look_copies", "i32", f"{_CHECK} i64 i64 i64 i64 i64"),
        ("rt_malloc", "i64", f"{_CHECK} i64"),
        ("rt_mbarrier", "i64", f"{_CHECK} i64 i64 i64"),
        ("rt_meet", "i32", _CHECK),
        ("rt_outside", "i32", f"{_CHECK} i64 i64"),
        ("rt_pause", "i32", f"{_CHECK} i64"),
        ("rt_printf", "i32", f"{_CHECK} i64 i64"),
        ("rt_race", "i32", f"{_CHECK} i64 i64 i64"),
        ("rt_record", "i32", f"{_CHECK} i64"),
        ("rt_registers", "i32", f"{_CHECK} i64"),
        ("rt_slice", "i32", f"{_CHECK} i64 i64"),
        ("rt_suspect", "i32", _CHECK),
        ("rt_surface", "i64", f"{_CHECK} i64 i64 i64 i64"),
        ("rt_texture", "i32", f"{_CHECK} i64 i64"),
        ("rt_ticks", "i64", "i64"),
        ("rt_turn", "i32", _CHECK),
        ("rt_unset_loaded", "i64", f"{_CHECK} i64 i64 i64"),
        ("rt_unset_stored", "i32", f"{_CHECK} i64 i64 i64"),
        ("rt_unset_used", "i32", f"{_CHECK} i64 i64"),
        ("rt_wgmma_commit", "i32", _CHECK),
        ("rt_wgmma_wait", "i32", f"{_CHECK} i64"),
        ("rt_written", "i32", f"{_CHECK} i64 i64"),
    )
}
#: those that write nothing that a kernel's code reads later, except as volatile
ASIDE = frozenset({"rt_check", "rt_outside", "rt_race", "rt_slice", "rt_suspect"})
