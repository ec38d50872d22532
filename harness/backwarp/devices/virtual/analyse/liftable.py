"""Which instructions can run as vector lanes, and the facts needed for that: the arrays that pointers point
into, and the collectives of a warp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ptx import special
from ..ptx.ir import Function, Instruction, Label, Operand, Register, Symbol
from ..ptx.types import BITS
from ..runtime.abi import holds_bounds
from .anchors import MARKS
from .barriers import counts_threads
from .pointers import NUMBER, Origin, Origins
from .strides import LINEAR
from .warps import Warps

if TYPE_CHECKING:
    from .lanes import Lanes


_ELEMENT = 4  # bytes of an element of a local variable


class Refused(Exception):
    """The kernel cannot run as vector lanes, and why."""


def look(
    found: Lanes,
    function: Function,
    origins: dict[str, Origins],
    warps: Warps | None,
    alone: bool = False,
    full: bool = False,
) -> None:
    """Fills in `roots` and `exchanges`. warps: given if a vector is a warp. alone: single threads will run it. full: with full checks
    local variables may stay in memory, if all lanes access the same elements. Errors: Refused."""
    if any(v.space == "local" for v in function.variables.values()):
        if not full or found.rows > 1:
            raise Refused("a local variable that stays in memory")
        _local(function, origins)
    _Look(found, function, origins, warps, alone).run()


def _local(function: Function, origins: dict[str, Origins]) -> None:
    """Errors: Refused, where something else than loads and stores may see the address of a local variable, or a part of an
    element."""
    own = {name for name, v in function.variables.items() if v.space == "local"}

    def points(name: str) -> bool:
        return name in own or any(o.kind == "local" for o in origins.get(name, ()))

    for ins in (i for i in function.body if isinstance(i, Instruction)):
        if ins.base == "enter" and not own.isdisjoint(ins.expansion.variables):
            raise Refused("a local variable of a function that is called")
        if ins.base in (*MARKS, "apart", "hold"):
            continue
        at = ins.op.address if ins.op.memory in ("load", "store") and not ins.op.ordering else None
        for n, o in enumerate(ins.operands):
            seen = [name for name in (*o.registers, *o.names) if points(name)]
            if seen and (ins.op.nbytes != _ELEMENT if n == at else not any(map(points, ins.writes))):
                raise Refused("a local variable whose address is kept, or whose elements are not of 4 bytes")


class _Look:
    def __init__(
        self, found: Lanes, function: Function, origins: dict[str, Origins], warps: Warps | None, alone: bool
    ):
        self.found, self.function, self.origins, self.warps, self.alone = (
            found,
            function,
            origins,
            warps,
            alone,
        )

    def run(self) -> None:
        if not holds_bounds(p.size for p in self.function.params):
            raise Refused("many parameters")
        for ins in (i for i in self.function.body if isinstance(i, Instruction)):
            op = ins.op
            if ins.base in MARKS:
                continue
            alone = op.takes_carry or op.leaves_carry or op.own or op.geometry or op.orders
            if op.flow not in ("", "branch", "return") or alone or op.is_fence:
                raise Refused(_told(ins))
            if op.collective and not is_for_all(ins):
                known = self.warps.exchange(ins) if self.warps else None
                if known is None:
                    raise Refused(_told(ins))
                self.found.exchanges[ins] = known
            if not all(_is_known(name) for o in ins.operands for name in o.registers):
                raise Refused(_told(ins))
            if op.asynchronous:
                self._copy(ins)
            elif op.memory or op.address is not None:
                self._access(ins)

    def _copy(self, ins: Instruction) -> None:
        """cp.async: each group of lanes has its own queue, but rows do not."""
        op = ins.op
        ignored = ins.named.get("b")
        if op.is_mbarrier or op.operation == "arrive" or self.found.rows > 1 and not self.alone:
            raise Refused
        if ignored is not None and self.function.regs.get(ignored) == "pred":
            raise Refused
        for place in ins.operands[:2] if op.memory else ():
            self._root(place.base)

    def _access(self, ins: Instruction) -> None:
        op = ins.op
        if op.of_parameters and op.memory == "load" and type(ins.address.base) is Symbol:
            return
        if (
            op.memory not in ("load", "store")
            and not op.moved_rows
            or op.ordering
            or op.space not in ("global", "const", "generic", "shared", "local")
        ):
            raise Refused(_told(ins))
        self._root(ins.address.base)

    def _root(self, base: Operand) -> None:
        if type(base) is Symbol:
            variable = self.function.variables.get(base.name)
            kind = "local" if variable and variable.space == "local" else "symbol"
            self.found.roots[base] = Origin(kind, base.name)
            return
        found = self.origins.get(base, frozenset()) if type(base) is Register else frozenset()
        if (
            BITS.get(self.function.regs.get(base, "")) == 32
        ):  # an address in the shared window, of one that had 64 bits
            found -= {NUMBER}
        if len(found) != 1:
            raise Refused(f"an address of one of several arrays, {base}")
        (origin,) = found
        whole = any(p.name == origin.name and p.size == 8 for p in self.function.params)
        if not (origin.kind == "param" and origin.offset == 0 and whole or origin.is_variable):
            raise Refused
        self.found.roots[base] = origin


def _told(ins: Instruction) -> str:
    return f"{ins.opcode}, line {ins.at.line}"


def needs_all(item: Instruction | Label) -> bool:
    """Whether it needs lanes that may have left: for a matrix, or for their copies, which would never
    arrive."""
    return isinstance(item, Instruction) and (item.op.collective == "matrix" or item.op.asynchronous)


def is_for_all(ins: Instruction) -> bool:
    """Whether it is a barrier of the whole block, such as __syncthreads() or __syncthreads_count()."""
    return ins.op.collective == "block" and not counts_threads(ins)


def _is_known(name: str) -> bool:
    """Whether a register is ordinary, or a special register that is uniform or linear."""
    row = special.ROWS.get(name)
    return row is None or name in LINEAR or bool(row.value) and row.of_neighbours
