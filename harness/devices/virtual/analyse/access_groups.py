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
        if (access := _access(item)) and not item.pred:
            key, offset = access
            groups = open_.setdefault(key, [])
            near = [g for g in groups if g.reaches(offset)]
            group = min(near, key=lambda g: g.distance(offset), default=None)  # so that no two overlap
            if group is None:
                groups.append(group := Group(*key[:4], offset, offset))
            group.add(position, item, offset)
        if written := item.writes:
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
