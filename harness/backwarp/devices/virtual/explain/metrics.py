"""Performance counters of a launch: their names, their meanings, and figures derived from them.

`launch.counters` of a device opened with `checks="count"` is a dict with the METRICS below, all numbers, and

    lines   source line -> the same for that line alone, without zeros (line 0: other files)
    split   entries that were added up early for lack of memory; if it is 0, all counts are exact

A request is one instruction of one warp: the lanes that execute it together. Lanes are together if they are
in the same iteration of the same loops, as on hardware where diverged lanes reconverge after each branch;
instructions on the path out of a loop count as after it. A sector is 32 aligned bytes. The counts are of PTX:
ptxas may still merge, move or drop instructions. Sources: Nsight Compute's Kernel Profiling Guide (metrics,
sectors, wavefronts); CUDA C++ Programming Guide, compute capability 5.x and later (banks of shared memory).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from math import prod

import numpy as np

from ..ptx.op import Op
from ..runtime.abi import WARP, WARPGROUP

SECTOR = 32  # bytes
SPACES = ("global", "shared", "local")


@dataclass(frozen=True)
class Metric:
    """unit: what is counted. ncu: Nsight Compute's metric for the same on a GPU, if there is one."""

    unit: str
    meaning: str
    ncu: str = ""


def _of_memory() -> dict[str, Metric]:
    """Of loads and stores."""
    found = {}
    for space in ("global", "local"):
        for name, op in (("load", "ld"), ("store", "st")):
            pipe = f"pipe_lsu_mem_{space}_op_{op}.sum"
            found |= {
                f"{space}_{name}_requests": Metric(
                    "warp instructions", f"{name}s", f"l1tex__t_requests_{pipe}"
                ),
                f"{space}_{name}_sectors": Metric("sectors", "moved", f"l1tex__t_sectors_{pipe}"),
                f"{space}_{name}_sectors_ideal": Metric(
                    "sectors", "had the bytes of each request been consecutive"
                ),
                f"{space}_{name}_bytes": Metric(
                    "bytes", "that the threads asked for, shared ones counted for each"
                ),
            }
    for name, op in (("load", "ld"), ("store", "st")):
        pipe = f"pipe_lsu_mem_shared_op_{op}.sum"
        found |= {
            f"shared_{name}_requests": Metric(
                "warp instructions", f"{name}s", f"smsp__inst_executed_op_shared_{op}.sum"
            ),
            f"shared_{name}_wavefronts": Metric(
                "wavefronts", "taken", f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum"
            ),
            f"shared_{name}_wavefronts_ideal": Metric(
                "wavefronts", "one for each 128 bytes that the lanes can ask for"
            ),
            f"shared_{name}_conflicts": Metric(
                "wavefronts", "more than ideal", f"l1tex__data_bank_conflicts_{pipe}"
            ),
            f"shared_{name}_bytes": Metric("bytes", "that the threads asked for"),
        }
    return found


_OTHERS = {
    "global_atomic_requests": Metric(
        "warp instructions",
        "atom and red",
        "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum + l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
    ),
    "global_atomic_operations": Metric("thread operations", "atomic updates"),
    "global_atomic_sectors": Metric(
        "sectors",
        "updated",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum + l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum",
    ),
    "global_atomic_serial": Metric("rounds", "per request, the most lanes that update one address"),
    "global_requests_busiest": Metric(
        "warp instructions", "of that warp of each block that makes most of them, all blocks together"
    ),
    "shared_atomic_requests": Metric(
        "warp instructions", "atom and red", "smsp__inst_executed_op_shared_atom.sum"
    ),
    "shared_atomic_operations": Metric("thread operations", "atomic updates"),
    "shared_atomic_serial": Metric("rounds", "per request, the most lanes that update one address"),
    "thread_instructions": Metric(
        "thread instructions", "all of PTX", "smsp__thread_inst_executed_pred_on.sum"
    ),
    "warp_instructions": Metric("warp instructions", "all of PTX", "smsp__inst_executed.sum"),
    "integer_instructions": Metric(
        "thread instructions",
        "integer arithmetic, logic and comparisons",
        "smsp__sass_thread_inst_executed_op_integer_pred_on.sum",
    ),
    "branches": Metric("warp instructions", "conditional branches", "smsp__sass_branch_targets.sum"),
    "divergent_branches": Metric(
        "warp instructions",
        "conditional branches whose lanes went both ways",
        "smsp__sass_branch_targets_threads_divergent.sum",
    ),
    "barriers": Metric("warp instructions", "__syncthreads() and its kin"),
    "texture_requests": Metric(
        "warp instructions", "texels fetched and filtered", "smsp__inst_executed_op_texture.sum"
    ),
    "surface_requests": Metric(
        "warp instructions",
        "loads and stores of surfaces",
        "smsp__inst_executed_op_surface_ld.sum + smsp__inst_executed_op_surface_st.sum",
    ),
    "async_copies": Metric(
        "warp instructions",
        "cp.async, which are global loads and shared stores as well",
        "smsp__inst_executed_op_ldgsts.sum",
    ),
    "async_copies_idle": Metric(
        "thread operations", "copies by cp.async of threads that computed nothing until they waited for them"
    ),
    "bulk_copies": Metric("thread operations", "copies of many bytes or of tensors (TMA)"),
    "bulk_bytes": Metric("bytes", "that such copies move"),
    "flops_tensor_overlapped": Metric(
        "FLOP", "of products of four warps that are not complete while such a copy is on its way to the block"
    ),
    "bulk_boxes": Metric("thread operations", "of these copies, those of boxes of tensors"),
    "phase_waits": Metric("thread operations", "waits at mbarriers: test_wait and try_wait"),
    "phase_waits_complete": Metric(
        "thread operations", "such waits that found the phase complete; copies land when they are waited for"
    ),
    "flops_overlapped": Metric("FLOP", "in threads that have copies by cp.async under way"),
    "integer_divisions": Metric(
        "thread instructions", "div and rem of integers, dozens of instructions each on a GPU"
    ),
    "warp_collectives": Metric("warp instructions", "shuffles, votes, match, redux, __syncwarp()"),
}


def _of_floats() -> dict[str, Metric]:
    """Of floating-point operations, by type."""
    found = {}
    for type_, letter in (("fp16", "h"), ("fp32", "f"), ("fp64", "d")):
        for op in ("add", "mul", "fma"):
            ncu = f"smsp__sass_thread_inst_executed_op_{letter}{op}_pred_on.sum"
            found[f"{type_}_{op}"] = Metric(
                "thread operations", f"{op}, of a packed pair two" if type_ == "fp16" else op, ncu
            )
        found[f"{type_}_other"] = Metric(
            "thread operations", "div, rcp, sqrt, rsqrt, sin, cos, ex2, lg2, tanh of PTX"
        )
        found[f"flops_{type_}"] = Metric("FLOP", "add + mul + 2 fma + other")
    found["flops_tensor"] = Metric("FLOP", "of mma, wmma and wgmma: 2 M N K each")
    return found


#: name -> what it counts, in display order
METRICS = _of_memory() | _OTHERS | _of_floats()
#: metrics that are not attributed to lines
OF_NO_LINE = {
    "global_requests_busiest",
    "async_copies_idle",
    "bulk_bytes",
    "flops_tensor_overlapped",
}


@dataclass
class Request:
    """One access of one warp. kind: "load" | "store" | "atomic"; space: one of SPACES; size: bytes per lane.

    addresses: one per lane, -1 if it took no part; in device memory, or in the block's shared memory.
    """

    line: int
    kind: str
    space: str
    size: int
    block: int
    warp: int
    addresses: object  # int64[32]


# -- what one instruction does ---------------------------------------------------------------------------

CONDITIONAL = "branches"  # a kind that the opcode does not show
#: kinds counted once per warp instruction
_PER_WARP = {"barriers", "warp_collectives", "async_copies", "texture_requests", "surface_requests"}
_COLLECTIVES = {"warp": "warp_collectives", "block": "barriers"}
_FLOAT_TYPES = {
    "f16": ("fp16", 1),
    "bf16": ("fp16", 1),
    "f16x2": ("fp16", 2),
    "bf16x2": ("fp16", 2),
    "f32": ("fp32", 1),
    "f64": ("fp64", 1),
}
#: FLOP per operation of a kind
FLOPS = {
    f"{type_}_{op}": 1 + (op == "fma")
    for type_ in ("fp16", "fp32", "fp64")
    for op in ("add", "mul", "fma", "other")
}
FLOPS["flops_tensor"] = 1


@cache
def kinds(op: Op) -> dict[str, int]:
    """What one thread does when it executes an instruction: kind -> count. Kinds are METRICS per thread."""
    found = {"instructions": 1}
    if op.counts in ("integer", "division"):
        found["integer_instructions"] = 1
        if op.counts == "division":
            found["integer_divisions"] = 1
    elif op.counts == "tensor":
        found["flops_tensor"] = 2 * prod(op.shape) // (WARPGROUP if op.collective == "group" else WARP)
    elif op.counts and op.counts != "minmax":
        type_, width = _FLOAT_TYPES[op.type]
        found[f"{type_}_{op.counts}"] = width
    elif op.collective in _COLLECTIVES:
        found[_COLLECTIVES[op.collective]] = 1
    elif op.memory == "copy" and op.base == "cp":
        found["bulk_copies" if op.bulk else "async_copies"] = 1
        if op.rank:
            found["bulk_boxes"] = 1
    elif op.is_mbarrier and op.waits:
        found["phase_waits"] = 1
    elif op.texture or op.surface:
        found["texture_requests" if op.texture else "surface_requests"] = 1
    return found


# -- from what was counted to METRICS --------------------------------------------------------------------


def collect(
    segments, counted, totals, known, split: int = 0, more: dict[str, int] | None = None, complete=()
) -> dict:
    """`launch.counters`.

    segments: counting.CountedSegment, indexed like `counted` (abi: Segment). totals (abi: Total): three per
    access, by SPACES, in segment order. known: all lines of the segments. more: the metrics OF_NO_LINE. complete: (line, waits that found
    their phase complete).
    """
    lines: dict[int, Counter] = {}
    for i in np.flatnonzero(counted["threads"][: len(segments)]).tolist():  # few, in a file of many kernels
        segment, row = segments[i], counted[i]
        warps, threads, overlapped = (int(row[name]) for name in ("warps", "threads", "overlapped"))
        for (line, kind), amount in segment.kinds.items():
            into = lines.setdefault(line, Counter())
            if kind == "instructions":
                into["thread_instructions"] += amount * threads
                into["warp_instructions"] += amount * warps
            else:
                into[kind] += amount * (warps if kind in _PER_WARP or kind == CONDITIONAL else threads)
                into["flops_overlapped"] += amount * FLOPS.get(kind, 0) * overlapped
            if kind == CONDITIONAL:
                into["divergent_branches"] += int(row["divergent"])
        first = 3 * int(row["first"])
        requests = totals["requests"][first : first + 3 * len(segment.accesses)]
        for at in np.flatnonzero(requests).tolist():
            access, space = segment.accesses[at // 3], SPACES[at % 3]
            lines.setdefault(access.line, Counter()).update(_of_access(access, space, totals[first + at]))
    for at, number in complete:
        lines.setdefault(at, Counter())["phase_waits_complete"] += number
    whole = Counter()
    for line in lines.values():
        _add_flops(line)
        whole.update(line)
    result = {name: whole[name] for name in METRICS} | (more or {})
    result["split"] = split
    result["lines"] = {
        line: {name: lines[line][name] for name in METRICS if lines[line][name]} if line in lines else {}
        for line in sorted(lines.keys() | known)
    }
    return result


def _of_access(access, space: str, total) -> dict[str, int]:
    name = f"{space}_{access.kind}"
    requests, lanes = int(total["requests"]), int(total["lanes"])
    if access.kind == "atomic":
        found = {
            f"{name}_requests": requests,
            f"{name}_operations": lanes,
            f"{name}_serial": int(total["serial"]),
        }
        return found | {f"{name}_sectors": int(total["sectors"])} if space == "global" else found
    found = {f"{name}_requests": requests, f"{name}_bytes": lanes * access.size}
    for what in ("wavefronts",) if space == "shared" else ("sectors",):
        found |= {f"{name}_{what}": int(total[what]), f"{name}_{what}_ideal": int(total[f"{what}_ideal"])}
    if space == "shared":
        found[f"{name}_conflicts"] = int(total["wavefronts"]) - int(total["wavefronts_ideal"])
    return found


def _add_flops(counts: Counter) -> None:
    for type_ in ("fp16", "fp32", "fp64"):
        counts[f"flops_{type_}"] = sum(
            n * counts[kind] for kind, n in FLOPS.items() if kind.startswith(type_)
        )


def add(*launches: dict) -> dict:
    """The counters of several launches together."""
    result = {name: sum(c.get(name, 0) for c in launches) for name in (*METRICS, "split")}
    lines: dict[int, Counter] = {}
    for counters in launches:
        for line, counts in counters["lines"].items():
            lines.setdefault(line, Counter()).update(counts)
    result["lines"] = {line: dict(counts) for line, counts in sorted(lines.items())}
    return result


# -- derived figures: every function takes a launch's counters, or those of one line -------------


def _sum(counters: dict, *names: str) -> int:
    return sum(counters.get(name, 0) for name in names)


def flops(counters: dict) -> int:
    """Floating-point operations of all types, tensor cores included; a fused multiply-add is two."""
    return _sum(counters, "flops_fp16", "flops_fp32", "flops_fp64", "flops_tensor")


def global_requests(counters: dict) -> int:
    """Warp instructions that load, store or update global memory."""
    return _sum(counters, "global_load_requests", "global_store_requests", "global_atomic_requests")


def global_sectors(counters: dict) -> int:
    """Sectors that the requests to global memory touch, before any cache."""
    return _sum(counters, "global_load_sectors", "global_store_sectors", "global_atomic_sectors")


def global_bytes(counters: dict) -> int:
    """Bytes moved between the SMs' L1 caches and global memory if every request missed, 32 per sector; and by TMA."""
    return SECTOR * global_sectors(counters) + counters.get("bulk_bytes", 0)


def sectors_per_request(counters: dict, kind: str = "load") -> float:
    """Sectors per request to global memory, kind "load" or "store": 4.0 for consecutive floats; nan without any."""
    return _ratio(_sum(counters, f"global_{kind}_sectors"), _sum(counters, f"global_{kind}_requests"))


def ideal_sectors_per_request(counters: dict, kind: str = "load") -> float:
    """What `sectors_per_request` would be if the bytes of each request were consecutive."""
    return _ratio(_sum(counters, f"global_{kind}_sectors_ideal"), _sum(counters, f"global_{kind}_requests"))


def shared_conflicts(counters: dict) -> int:
    """Wavefronts of shared memory loads and stores that bank conflicts cost."""
    return _sum(counters, "shared_load_conflicts", "shared_store_conflicts")


def conflicts_per_request(counters: dict, kind: str = "load") -> float:
    """Wavefronts beyond the ideal per request to shared memory, kind "load" or "store": 0.0 without bank conflicts."""
    return _ratio(_sum(counters, f"shared_{kind}_conflicts"), _sum(counters, f"shared_{kind}_requests"))


def arithmetic_intensity(counters: dict) -> float:
    """FLOP per byte of `global_bytes`; infinite if nothing is moved."""
    moved = global_bytes(counters)
    return flops(counters) / moved if moved else float("inf")


def branch_efficiency(counters: dict) -> float:
    """Share of the conditional branches at which all lanes of the warp went the same way; 1.0 without branches."""
    branches = _sum(counters, "branches")
    return 1 - _sum(counters, "divergent_branches") / branches if branches else 1.0


def lanes_per_instruction(counters: dict) -> float:
    """Lanes of a warp that take part in an instruction, on average: 32.0 when none is ever idle."""
    return _ratio(_sum(counters, "thread_instructions"), _sum(counters, "warp_instructions"))


def _ratio(a: int, b: int) -> float:
    return a / b if b else float("nan")
