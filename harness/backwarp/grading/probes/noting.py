"""Which variables determine an access of a kernel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...cuda.follow import begins_in, guards, is_set, names_in, pointer_values, value_of
from ...cuda.parts import index_of, named
from ...cuda.pieces import Function, Piece
from ...cuda.text import CudaText
from ...cuda.tree import LOOPS
from ...errors import KernelFault

MOST_NOTES = 32


@dataclass(frozen=True)
class Probe:
    """What is looked at. indices: those of the line. own: the integer
    variables of the index; behind: those that they were computed from; others: those of enclosing loops and
    guards. calls: of the function, if it is not a kernel."""

    function: Function
    indices: list[Piece]
    own: list[str]
    behind: list[str]
    others: list[str]
    guards: list[Piece]
    calls: list[Piece]

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys((*self.own, *self.behind, *self.others)))[:MOST_NOTES]


def probe_of(file: CudaText, line: int, array: str) -> Probe | None:
    function = file.function_at(line)
    if function is None:
        return None
    accesses = function.body.all("subscript_expression", "pointer_expression")
    inside = [a for a in accesses if a.line <= line <= a.last_line and index_of(a)]
    inside = [access for access in inside if begins_in(file, access, array)] or inside
    calls = [] if function.is_kernel else [call for name, call in file.whole.calls() if name == function.name]
    inside = inside or list(macro_accesses(file, function, line))
    if not inside:
        return None
    place = inside[0].start
    indices = [index_of(access) for access in inside]
    own = _unique(names_in(file, index, place) for index in indices)
    origins = [v for name in own if (v := value_of(file, name, place))]
    origins += [v for access in inside for v in pointer_values(file, named(access), place)]
    behind = _unique(names_in(file, value, place) for value in origins)
    around = list(guards(file, function, inside[0]))
    loops = (loop.part("update") for loop in file.around(place, *LOOPS) if loop.start > function.start)
    others = _unique(names_in(file, piece, place) for piece in (*filter(None, loops), *around))
    probe = Probe(function, indices, own, behind, others, around, calls)
    return probe if probe.names or calls else None


def macro_accesses(file: CudaText, function: Function, line: int) -> Iterator[Piece]:
    """The uses in a line of macros that index something: `#define AT(x, i) x[i]`."""
    names = {m.name for m in file.macros if m.parameters is not None and ("[" in m.value or "*(" in m.value)}
    calls = (call for name, call in function.body.calls() if name in names)
    return (call for call in calls if call.line <= line <= call.last_line)


def access_of(file: CudaText, fault: KernelFault) -> Piece | None:
    """The only access on its line that a fault can be about: to the array, or through a pointer into a parameter."""
    if found := file.subscripts(fault.array, fault.line):
        return found[0] if len({access.code for access in found}) == 1 else None
    function = file.function_at(fault.line)
    if not function or not any(v.name == fault.array and v.pointer for v in function.parameters):
        return None
    kinds = "subscript_expression", "pointer_expression"
    found = [a for a in function.body.all(*kinds) if a.line == fault.line and index_of(a)]
    if fault.access == "write":
        found = [a for a in found if a.outer.kind == "assignment_expression" and a.outer.part("left") == a]
    return found[0] if len(found) == 1 and not is_set(function.body, fault.array) else None


def _unique(found: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(name for names in found for name in names))
