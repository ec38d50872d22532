"""Slips in kernels whose threads cooperate: where blocks begin, indices of shared memory, and which thread
adds what."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ...course.declare import Kernel, Launch
from ...cuda.evaluate import MOST_TERMS, fingerprint, products
from ...cuda.follow import is_set, value_of
from ...cuda.parts import all_indices, index_of, shown, sign_of
from ...cuda.pieces import Function, Piece, Variable, remembered
from ...cuda.tree import LOOPS
from ...cuda.values import tunables
from ...devices.launching import triple
from ...errors import CourseError, KernelFault
from ..findings import Finding

AXES = "xyz"


def block_slips(
    kernel: Kernel, own: Function, failed: Sequence[tuple[Mapping[str, int], Launch]]
) -> Iterator[Finding]:
    """failed: the sizes and launches of the failing cases."""
    yield from overlapping_blocks(kernel, own, failed)
    yield from blocks_of_another_size(own, failed)
    yield from steps_into_other_blocks(own, failed)
    for e, name, index in places_in_the_grid(own):
        yield Finding.of("counts_all_blocks", e.line, name=name, index=shown(index))
        break


# -- where a block begins --------------------------------------------------------------------------------------


def overlapping_blocks(
    kernel: Kernel, own: Function, failed: Sequence[tuple[Mapping[str, int], Launch]]
) -> Iterator[Finding]:
    """`blockIdx.x + threadIdx.x`, where blocks have several threads in x and should not overlap."""
    for e, axis in sums_without_a_factor(own):
        i = AXES.index(axis)
        threads = 0
        for dims, launch in failed:
            blocks, own_threads = triple(launch.grid, "grid")[i], triple(launch.block, "block")[i]
            if blocks > 1 and own_threads > 1:
                if not any(-(-n // own_threads) == blocks for n in extents(kernel, dims)):
                    return
                threads = threads or own_threads
        if threads:
            yield Finding.of("overlapping_blocks", e.line, code=shown(e), threads=threads, axis=axis)
            return


def blocks_of_another_size(
    own: Function, failed: Sequence[tuple[Mapping[str, int], Launch]]
) -> Iterator[Finding]:
    """`blockIdx.x * 256 + threadIdx.x`, also with a name for 256, where no failing launch has blocks of that size."""
    for e in own.body.all("binary_expression"):
        terms = [names for sign, names in expanded(e) if sign > 0 and sign_of(e) == "+"]
        for i, axis in enumerate(AXES):
            blocks = [[n for n in t if n != f"blockIdx.{axis}"] for t in terms if f"blockIdx.{axis}" in t]
            if (f"threadIdx.{axis}",) not in terms or len(blocks) != 1 or len(blocks[0]) != 1:
                continue
            threads = [triple(t.block, "block")[i] for _, t in failed if triple(t.grid, "grid")[i] > 1]
            step = constant(own, blocks[0][0])
            each = {step / n for n in threads}  # a thread may have several elements, and blocks may overlap
            if step and each and 1 not in each and (len(each) > 1 or min(each) > 1 and min(each) % 1):
                facts = dict(step=step, axis=axis, code=shown(e), threads=threads[0])
                yield Finding.of("blocks_of_another_size", e.line, **facts)
                return


def steps_into_other_blocks(
    own: Function, failed: Sequence[tuple[Mapping[str, int], Launch]]
) -> Iterator[Finding]:
    """`for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x)`, where there are several blocks."""
    for loop in own.body.all("for_statement"):
        first, condition, update = (loop.part(name) for name in ("initializer", "condition", "update"))
        step = re.fullmatch(r"(\w+)\s*\+=\s*blockDim\.([xyz])", update.code) if update else None
        if not step or not first or not condition:
            continue
        name, axis = step.groups()
        begins = [d.part("value") for d in first.all("init_declarator") if d.part("declarator").code == name]
        terms = (names for b in begins for _, names in expanded(b))
        apart = any({f"blockIdx.{axis}", f"blockDim.{axis}"} <= {*names} for names in terms)
        bounds = [condition, *(value_of(own.file, p.code, p.start) for p in condition.all("identifier"))]
        several = any(triple(launch.grid, "grid")[AXES.index(axis)] > 1 for _, launch in failed)
        if apart and several and not any("blockIdx" in bound.code for bound in bounds if bound):
            yield Finding.of("steps_into_other_blocks", loop.line, name=name, axis=axis)


def constant(own: Function, text: str) -> int:
    """The value of a literal, a macro or another constant of the file; 0 for anything else."""
    if text.isdecimal():
        return int(text)
    try:
        return tunables(own.file.text)[text] if text.isidentifier() else 0
    except CourseError:
        return 0


def extents(kernel: Kernel, dims: Mapping[str, int]) -> set[int]:
    """The extents of the outputs, also of neighbouring axes together."""
    found = set()
    for shape in (a.shape(dims) for a in kernel.outputs):
        found |= {math.prod(shape[i:j]) for j in range(len(shape) + 1) for i in range(j)}
    return found


def sums_without_a_factor(function: Function) -> Iterator[tuple[Piece, str]]:
    """(sum, axis) of the sums of blockIdx and threadIdx of one axis, neither multiplied."""
    for e in function.body.all("binary_expression"):
        if sign_of(e) != "+" or e.outer.kind == "binary_expression" and sign_of(e.outer) in ("+", "-"):
            continue
        single = {names[0] for sign, names in expanded(e) if sign > 0 and len(names) == 1}
        for axis in AXES:
            if {f"blockIdx.{axis}", f"threadIdx.{axis}"} <= single:
                yield e, axis


@remembered
def expanded(e: Piece, depth: int = 3) -> list[tuple[int, tuple[str, ...]]]:
    """The products that an expression is the sum of, with its variables substituted; "" if it is no such sum."""
    found = []
    for sign, names in products(e):
        terms: list[tuple[int, tuple[str, ...]]] = [(sign, ())]
        for name in names:
            value = value_of(e.file, name, e.start) if depth and name.isidentifier() else None
            inner = expanded(value, depth - 1) if value else [(1, (name,))]
            inner = inner if all(all(n) for _, n in inner) else [(1, (name,))]
            terms = [(s * t, a + b) for s, a in terms for t, b in inner][:MOST_TERMS]
        found += terms
    return found[:MOST_TERMS]


# -- indices of shared memory ----------------------------------------------------------------------------------


def shared_accesses(function: Function) -> Iterator[tuple[Piece, Variable, Piece]]:
    """(access, array, index) for every index of an array in shared memory."""
    for access in function.body.all("subscript_expression"):
        array, index = function.file.variable_at(access.indexed.code, access.start), index_of(access)
        if array and index and "__shared__" in array.words:
            yield access, array, index


def places_in_the_grid(function: Function) -> Iterator[tuple[Piece, str, Piece]]:
    """(access, array, index) of the accesses with blockIdx in the index."""
    for access, array, index in shared_accesses(function):
        terms: Counter = Counter()
        for sign, names in expanded(index):
            terms[tuple(sorted(names))] += sign
        of_blocks = [n for names, n in terms.items() if n and any(x.startswith("blockIdx") for x in names)]
        if of_blocks and min(of_blocks) > 0:  # the start of the block is subtracted
            yield access, array.name, index


def same_in_block(e: Piece) -> bool:
    """Whether its value is the same in all threads of a block: made of constants, parameters, the block's index and size."""
    for p in e.all("identifier"):
        known, value = p.file.variable_at(p.code, p.start), value_of(p.file, p.code, p.start)
        if value is not None:
            if not same_in_block(value):
                return False
        elif known is None:
            if p.code not in ("blockIdx", "blockDim", "gridDim", "warpSize"):
                return False
        elif not is_parameter(known, p):
            return False
    return not any(e.all("call_expression"))


def is_parameter(known: Variable, p: Piece) -> bool:
    """Whether it is a parameter of the kernel around p that is never changed."""
    own = p.file.function_at(p.line)
    return bool(own and own.is_kernel and known in own.parameters) and not is_set(own.body, p.code)


# -- which thread adds what ------------------------------------------------------------------------------------


def takes_what_changes(fault: KernelFault, own: Function) -> Finding | None:
    """For a race within `part[i] += part[j]` in a loop with a barrier per iteration: the wrong threads do the adding."""
    if fault.kind != "race" or fault.other is None or fault.other.line != fault.line:
        return None
    for e in own.body.all("assignment_expression"):
        left, right = e.part("left"), e.part("right")
        if e.line != fault.line or left.kind != "subscript_expression" or sign_of(right) not in ("", "+"):
            continue
        others = [p for p in right.all("subscript_expression") if p.parts[0].code == left.parts[0].code]
        others = [p for p in others if p.code.split() != left.code.split()]
        loops = own.file.around(e.start, *LOOPS)
        if len(others) != 1 or not loops or not waits(loops[0]):
            continue
        this, other = fault.thread, fault.other.thread
        match fault.other.access, fault.access:
            case "write", "read":
                takes, adds = this, other
            case "read", "write":
                takes, adds = other, this
            case _:
                continue
        element = f"{fault.array}[{fault.index}]"
        asked = [i.part("condition") for i in own.file.around(e.start, "if_statement") if loops[0].holds(i)]
        kind, test = ("takes_what_changes", shown(asked[0])) if asked else ("adds_what_changes", "")
        facts = dict(adds=named(adds), takes=named(takes), element=element, test=test)
        return Finding.of(kind, loops[0].line, **facts)
    return None


def same_slot(fault: KernelFault, own: Function) -> Finding | None:
    """For a race between a copy and a read in one iteration of a loop: both use the same slot of a ring buffer."""
    lines = sorted({fault.line, fault.other.line}) if fault.other else []
    if fault.kind != "race" or len(lines) != 2:
        return None
    both = [own.file.subscripts(fault.array, line) for line in lines]
    slots = [all_indices(found[0])[0] for found in both if len(found) == 1]
    loops = [own.file.around(found[0].start, *LOOPS)[-1:] for found in both if found]
    if len(slots) < 2 or None in slots or loops[0] != loops[1] or not all(map(goes_round, slots)):
        return None
    known = [fingerprint(slot) for slot in slots]
    if known[0] != known[1] or None in known[0]:
        return None
    return Finding.of("same_slot", *lines, array=fault.array, slots=[shown(slot) for slot in slots])


def goes_round(slot: Piece) -> bool:
    """Whether a slot is a remainder: `step % STAGES`."""
    value = value_of(slot.file, slot.code, slot.start) if slot.kind == "identifier" else slot
    return value is not None and any(sign_of(e) == "%" for e in value.all("binary_expression"))


def named(thread: Sequence[int]) -> str:
    return str(thread[0]) if not any(thread[1:]) else f"({','.join(map(str, thread))})"


def waits(loop: Piece) -> bool:
    """Whether every iteration of a loop begins or ends with a barrier."""
    body = loop.part("body")
    parts = body.parts if body and body.kind == "compound_statement" else []
    return any(p.kind == "expression_statement" and p.code.startswith("__syncthreads") for p in parts)
