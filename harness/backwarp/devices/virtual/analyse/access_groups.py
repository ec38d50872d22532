"""Accesses of one basic block that one check can cover: the same base register, constant offsets.

NVRTC unrolls loops, so a block often reads `[%rd1]`, `[%rd1+4]`, `[%rd1+8]` ... Between two allocations there
is a red zone of at least GAP bytes (SHARED_GUARD in shared memory), so if two words closer than that are
valid, everything between them belongs to the same array. Accesses further apart each get their own check.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ptx.ir import Instruction, Label, Register

GAP = 252  # bytes; every red zone outside shared memory is longer
SHARED_GAP = 2044


@dataclass
class Group:
    """Accesses of `nbytes` each at base + offset, offsets congruent modulo nbytes, from `first` to `last`."""

    base: str
    space: str
    nbytes: int
    write: bool
    first: int
    last: int
    # (position, instruction, offset)
    members: list[tuple[int, Instruction, int]] = field(default_factory=list)

    @property
    def span(self) -> int:
        """Bytes from the start of the first to the end of the last."""
        return self.last + self.nbytes - self.first

    def distance(self, offset: int) -> int:
        """Of an access at this offset from the others."""
        return max(self.first - offset, offset - self.last, 0)

    def reaches(self, offset: int) -> bool:
        """Whether an access at this offset is within a red zone's length of the others."""
        return self.distance(offset) <= (SHARED_GAP if self.space == "shared" else GAP)

    def add(self, position: int, ins: Instruction, offset: int) -> None:
        self.first, self.last = min(self.first, offset), max(self.last, offset)
        self.members.append((position, ins, offset))


def access_groups(body) -> dict[int, Group]:
    """Position in the body -> group, for every access that shares a check with another."""
    found: dict[int, Group] = {}
    open_: dict[tuple, list[Group]] = {}

    def close(keys) -> None:
        for key in list(keys):
            for group in open_.pop(key):
                if len(group.members) > 1:
                    found.update((position, group) for position, _, _ in group.members)

    for position, item in enumerate(body):
        if isinstance(item, Label) or _parts(item):
            close(open_)
            continue
        if item.op.memory and (access := _access(item)):
            key, offset = access
            groups = open_.setdefault(key, [])
            near = [g for g in groups if g.reaches(offset)]
            group = min(near, key=lambda g: g.distance(offset), default=None)  # so that no two overlap
            if group is None:
                groups.append(group := Group(*key[:4], offset, offset))
            group.add(position, item, offset)
        if open_ and (written := item.writes):
            close([key for key in open_ if key[0] in written])
    close(open_)
    return found


def _parts(ins: Instruction) -> bool:
    """Whether accesses before and after an instruction cannot share a check."""
    return bool(ins.op.flow) or ins.op.collective in ("block", "warp") or ins.op.memory == "atomic"


def _access(ins: Instruction):
    """((base, space, nbytes, write, residue), offset) of a plain load or store, or None."""
    op = ins.op
    if op.memory not in ("load", "store") or op.ordering == "volatile" or op.space == "param":
        return None
    address, nbytes = ins.operands[op.address], op.nbytes * op.vector
    if type(address.base) is not Register or nbytes < 4:
        return None
    return (address.base, op.space, nbytes, op.memory == "store", address.offset % nbytes), address.offset


Loads = dict[Instruction, list[Instruction]]


def together(body) -> tuple[Loads, Loads]:
    """(the first of several loads at constant distances from one address -> all of them, the same -> what computes their
    conditions in between). No store and no arrival of a copy comes in between.
    """
    found: Loads = {}
    conditions: Loads = {}
    stores = [
        p
        for p, i in enumerate(body)
        if isinstance(i, Instruction) and (i.op.writes_memory or i.op.asynchronous)
    ]
    for group in {id(g): g for g in access_groups(body).values()}.values():
        if group.write:
            continue
        run: list[tuple[int, Instruction]] = []
        needed: list[Instruction] | None = []
        for position, ins, _ in group.members:
            like = run and _kind(run[0][1]) == _kind(ins)
            if like and ins.pred:
                needed = _computing([ins.pred, *(i.pred for _, i in run)], body[run[0][0] : position])
            if run and (not like or needed is None or any(run[0][0] < p < position for p in stores)):
                found[run[0][1]], run, needed = [i for _, i in run], [], []
            run.append((position, ins))
            conditions[run[0][1]] = needed
        found[run[0][1]] = [i for _, i in run]
    return found, conditions


def _kind(load: Instruction) -> tuple:
    return load.op.type, load.op.vector, bool(load.pred)


def _computing(registers: list[str], between: list[Instruction]) -> list[Instruction] | None:
    """The instructions that compute these registers' values, if they may be executed before the others; else None."""
    wanted, found = set(registers), []
    for ins in reversed(between):
        if not wanted.isdisjoint(ins.writes):
            found.append(ins)
            wanted |= ins.reads
    written, read = set(), set()  # written: by the others
    for ins in between:
        read |= ins.reads
        if ins in found:
            alone = ins.op.memory or ins.op.collective or ins.op.takes_carry or ins.op.leaves_carry
            if alone or not (written.isdisjoint(ins.reads) and read.isdisjoint(ins.writes)):
                return None
        else:
            written |= ins.writes
    return None if not written.isdisjoint(registers) else found[::-1]
