"""Separates local arrays: each variable of an unoptimised function gets its own memory, followed by a red
zone.

The compiler lays out all local variables of a function in one `.local` depot, so an index past the end of one
lands in the next. It computes the address of a variable as `%SP + constant`, and its debug information says
where each is; so the depot can be split. A function where this is unclear is left unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..analyse.debuginfo import Declared, variables
from ..ptx.ir import Address, Function, Immediate, Instruction, Module, Operand, Variable, operand

_POINTERS = {"%SP", "%SPL"}


@dataclass(frozen=True)
class Piece:
    """Bytes [start, end) of a depot. declared: the variable there; None for a temporary."""

    name: str
    start: int
    end: int
    widest: int  # alignment of the depot
    declared: Declared | None = None

    @property
    def align(self) -> int:
        """What keeps the alignment that its place in the depot gives it."""
        return max(
            16, min(self.start & -self.start or self.widest, self.widest) if self.declared else self.widest
        )

    @property
    def pad(self) -> int:
        """Bytes before a temporary, which may begin with a gap so that what follows keeps its alignment."""
        return 0 if self.declared else self.start % self.align


def run(module: Module) -> dict[str, Declared]:
    """Split the depots of a module, in place. Returns the variables in the pieces, by name."""
    found: dict[str, Declared] = {}
    for function in module.functions.values():
        depots = [v for v in function.variables.values() if v.space == "local" and "." not in v.name]
        if function.body is None or len(depots) != 1:
            continue
        (depot,) = depots
        declared = [d for d in variables(module.debug) if d.symbol == depot.name]
        padding = (replace(p, offset=d.offset + p.offset) for d in declared for p in d.padding)
        function.variables[depot.name] = replace(depot, padding=tuple(padding))
        accesses = _accesses(function, depot)
        bases = {at for position, at in (accesses or {}).items() if _is_sum(function.body[position])}
        if not accesses or any(o >= depot.size for o in accesses.values()):
            continue
        pieces = _pieces(depot, declared, bases)
        if len(pieces) > 1:
            _rewrite(function, depot, pieces, accesses)
            found |= {p.name: p.declared for p in pieces if p.declared}
    return found


def _accesses(function: Function, depot: Variable) -> dict[int, int] | None:
    """Position -> offset in the depot, -1 for setting up its pointers; None if a use is unclear."""
    found = {}
    for position, ins in enumerate(function.body):
        if not isinstance(ins, Instruction):
            continue
        used = [name for o in ins.operands for name in o.names]
        if depot.name not in used and _POINTERS.isdisjoint(used):
            continue
        addresses = [o for o in ins.operands if isinstance(o, Address) and o.base in _POINTERS]
        if ins.op.formula == "a" and ins.operands[0] in _POINTERS:
            found[position] = -1
        elif _is_sum(ins) and ins.operands[1] in _POINTERS and _is_offset(ins.operands[2]):
            found[position] = ins.operands[2].value
        elif len(addresses) == 1 and sum(name in _POINTERS for name in used) == 1:
            if addresses[0].offset < 0:
                return None
            found[position] = addresses[0].offset
        else:
            return None
    return found


def _is_sum(ins: Instruction) -> bool:
    return ins.op.formula == "a+b"


def _is_offset(operand: Operand) -> bool:
    return isinstance(operand, Immediate) and operand.value >= 0


def _pieces(depot: Variable, declared: list[Declared], bases: set[int]) -> list[Piece]:
    """The variables of a depot, and the temporaries between them, which begin where an address is taken.

    Empty if variables overlap, or the address of a part of one is taken.
    """
    pieces, top = [], 0

    def add(start: int, end: int, d: Declared | None = None) -> None:
        if end > start:
            pieces.append(Piece(f"{depot.name}.{len(pieces)}", start, end, depot.align, d))

    def temporaries(start: int, end: int) -> None:
        starts = sorted({start} | {b for b in bases if start <= b < end})
        for a, b in zip(starts, [*starts[1:], end], strict=True):
            add(a, b)

    for d in sorted(declared, key=lambda d: d.offset):
        if d.offset < top or d.nbytes <= 0 or any(d.offset < b < d.offset + d.nbytes for b in bases):
            return []
        temporaries(top, d.offset)
        top = d.offset + d.nbytes
        add(d.offset, top, d)
    temporaries(top, depot.size)
    return [] if top > depot.size else pieces


def _rewrite(function: Function, depot: Variable, pieces: list[Piece], accesses: dict[int, int]) -> None:
    body = []
    for position, item in enumerate(function.body):
        offset = accesses.get(position)
        if offset is None:
            body.append(item)
        elif offset >= 0:
            piece = next(p for p in pieces if p.start <= offset < p.end)
            place = f"{piece.name}+{offset - piece.start + piece.pad}"
            if _is_sum(item):
                body.append(replace(item, opcode="mov.u64", operands=(item.operands[0], operand(place))))
            else:
                operands = tuple(
                    operand(f"[{place}]") if isinstance(o, Address) else o for o in item.operands
                )
                body.append(replace(item, operands=operands))
    function.body = body
    del function.variables[depot.name]
    for p in pieces:
        padding = p.declared.padding if p.declared else ()
        size = p.end - p.start + p.pad
        of = dict(padding=padding, depot=depot.name, start=p.start - p.pad)
        function.variables[p.name] = Variable("local", "b8", p.name, size, p.align, True, **of)
