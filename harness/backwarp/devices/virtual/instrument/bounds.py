"""Bounds checks: one before each access, or one for several accesses at constant distances.

                                        check.bounds.global 4, [%rd1], [%rd1+4];
    ld.global.f32 %f1, [%rd1];          ld.global.f32 %f1, [%rd1];
    ld.global.f32 %f2, [%rd1+4];  ->    ld.global.f32 %f2, [%rd1+4];
                                        check.bounds.shared 1288, [%r1];
    st.shared.f64 [%r1], %fd1;          st.shared.f64 [%r1], %fd1;

The number describes the access (abi.INFO_...), with the size in its lowest byte. Builds with all checks use
another pass, `accesses`, because the three checks of an access share most of their work.
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.access_groups import access_groups
from ..analyse.facts import Facts
from ..ptx.ir import Function, Instruction, Label, Symbol
from ..ptx.op import Op
from ..runtime.abi import (
    INFO_ACQUIRE,
    INFO_ATOMIC,
    INFO_RELEASE,
    INFO_SHARED,
    INFO_VOLATILE,
    INFO_WRITE,
    SCOPE_SHIFT,
    SCOPES,
)
from .insert import Inserts, mark


def run(function: Function, facts: Facts) -> None:
    """In place. The last pass: nothing may come between an access and its check."""
    inserts, placed = Inserts(function), {}
    groups, done = access_groups(function.body), set()
    ahead = _loads_ahead(function.body) if facts.phased else {}
    for position, ins in enumerate(function.body):
        if not (isinstance(ins, Instruction) and is_checked(ins)):
            continue
        group = groups.get(position)
        if group is None:
            covered = (ins,)
        elif id(group) in done:
            continue
        else:
            done.add(id(group))
            covered = tuple(member for _, member, _ in group.members)
        addresses = [each.address for each in covered]
        check = mark(f"check.bounds.{ins.op.space}", info(ins), *addresses, at=ins)
        placed[ins] = replace(check, about=covered)
        inserts.before(ahead.get(ins, ins), *of_rows(function, ins, placed[ins]))
    inserts.done()
    facts.put_before(placed)


def _loads_ahead(body) -> dict[Instruction, Instruction]:
    """Loads that may be checked before others that come before them, and the first of these: then they are in one block of
    LLVM's, and what is loaded need not be kept over a check."""
    found, first, written = {}, None, set()
    for item in body:
        op = None if isinstance(item, Label) else item.op
        if (
            op is None
            or op.flow
            or op.collective
            or op.memory not in ("", "load")
            or op.ordering
            or op.asynchronous
        ):
            first = None
            continue
        if op.memory and is_checked(item) and not item.pred:
            if first is None:
                first, written = item, set()
            if item.address.base not in written:
                found[item] = first
        written |= item.writes
    return found


def is_checked(ins: Instruction) -> bool:
    """Whether compiled code accesses memory for it at an address that is not known to be valid.

    Accesses to named parameters have been verified. Asynchronous copies are made by the runtime, which checks
    them.
    """
    op = ins.op
    if not op.accesses or op.memory == "copy":
        return False
    return not (op.space == "param" and type(ins.address.base) is Symbol)


def info(ins: Instruction) -> int:
    """The description of an access for the runtime."""
    op = ins.op
    found = op.width | INFO_SHARED * (op.space == "shared")
    if not op.memory:  # a row of a matrix, or a barrier in memory
        if op.base == "stmatrix":
            found |= INFO_WRITE
        if op.asynchronous:
            found |= INFO_WRITE
            if op.operation != "init":  # by any thread of the cluster
                found |= INFO_ATOMIC | SCOPES.index("cluster") << SCOPE_SHIFT
        return found
    if op.memory != "load":
        found |= INFO_WRITE
    if op.memory in ("atomic", "reduction"):
        return found | INFO_ATOMIC | order(op)
    return found | order(op) if op.ordering else found


def order(op: Op) -> int:
    """The memory order and scope of an access that is not a plain one."""
    found = INFO_VOLATILE | SCOPES.index(op.scope) << SCOPE_SHIFT
    return found | INFO_ACQUIRE * op.acquires | INFO_RELEASE * op.releases


def of_rows(function: Function, ins: Instruction, check: Instruction) -> list[Instruction]:
    """A check for lanes that supply an address: in ldmatrix and stmatrix, each of the first lanes gives the
    address of a row."""
    if not ins.op.moved_rows:
        return [check]
    holds = f"%check.row.{sum(name.startswith('%check.row.') for name in function.regs)}"
    function.regs[holds] = "pred"
    return [
        mark("setp.lt.u32", holds, "%laneid", ins.op.moved_rows, at=ins),
        replace(check, pred=holds),
    ]
