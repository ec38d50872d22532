"""Which variables determine an access of a kernel, and the kernel's text with code that records their values
before it.

`A[row * K + k]` becomes `A[(at[1] = row, at[2] = K, at[3] = k, row * K + k)]`, for one thread only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from ...course.cuda_pieces import Function, Piece, Variable, remembered
from ...course.cuda_text import CudaText, edited
from ...course.cuda_tree import LOOPS
from ...errors import KernelFault

MOST_NOTES = 32
_INTEGERS = set(
    "int unsigned signed long short char bool size_t auto ptrdiff_t int8_t int16_t int32_t int64_t".split()
)
_INTEGERS |= {f"u{name}" for name in _INTEGERS}
_JUMPS = ("return_statement", "continue_statement", "break_statement")
_AROUND = (*LOOPS, "if_statement", "conditional_expression")


@dataclass(frozen=True)
class Probe:
    """What is recorded where. indices: the pieces of the line that are instrumented. own: the integer
    variables of the index; behind: those that they were computed from; others: those of enclosing loops and
    guards. calls: of the function, if it is not a kernel."""

    function: Function
    indices: list[Piece]
    own: list[str]
    behind: list[str]
    others: list[str]
    guards: list[Piece]
    calls: list[Piece]
    element: str = ""  # a condition: that the access is of this element

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys((*self.own, *self.behind, *self.others)))[:MOST_NOTES]


def probe_of(file: CudaText, line: int, array: str) -> Probe | None:
    function = file.function_at(line)
    if function is None:
        return None
    inside = [
        access
        for access in function.body.all("subscript_expression", "pointer_expression")
        if access.line <= line <= access.last_line and index_of(access)
    ]
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
    loops = [
        u for loop in file.around(place, *LOOPS) if loop.start > function.start and (u := loop.part("update"))
    ]
    others = _unique(names_in(file, piece, place) for piece in (*loops, *around))
    probe = Probe(function, indices, own, behind, others, around, calls)
    return probe if probe.names or calls else None


def macro_accesses(file: CudaText, function: Function, line: int) -> Iterator[Piece]:
    """The uses in a line of macros that index something: `#define AT(x, i) x[i]`."""
    names = {m.name for m in file.macros if m.parameters is not None and ("[" in m.value or "*(" in m.value)}
    return (
        call for name, call in function.body.calls() if name in names and call.line <= line <= call.last_line
    )


def index_of(access: Piece) -> Piece | None:
    """The index of `a[index]`, the address of `*address`, or all of `MACRO(a, i)`."""
    if access.kind == "call_expression":
        return access
    if access.kind == "pointer_expression":
        star = access.part("operator")
        return access.part("argument") if star and star.code == "*" else None
    inside = next((p for p in access.parts if p.kind == "subscript_argument_list"), None)
    return inside.parts[0] if inside and len(inside.parts) == 1 else None


def element_of(file: CudaText, fault: KernelFault) -> str:
    """The condition that an access is to the element of a fault; "" if it cannot be written."""
    access, at = access_of(file, fault), re.findall(r"\d+", fault.index)
    shape = [int(n) for n in re.findall(r"\d+", fault.shape)]
    flat = (
        [str(sum(int(n) * prod(shape[i + 1 :]) for i, n in enumerate(at)))] if len(shape) == len(at) else []
    )
    if not access or not at:
        return ""
    indices = all_indices(access)
    if access.indexed.code != fault.array:
        return f"&{access.code} == &{fault.array}[{flat[0]}]" if flat and not _changes(access) else ""
    if len(indices) == 1 < len(at):  # of a multidimensional array, in memory
        at = flat
    if len(indices) != len(at) or not all(indices) or any(_changes(index) for index in indices):
        return ""
    return " && ".join(f"({i.code}) == {n}" for i, n in zip(indices, at, strict=True))


def access_of(file: CudaText, fault: KernelFault) -> Piece | None:
    """The only access on its line that a fault can be about: to the array, or through a pointer into a
    parameter."""
    if found := file.subscripts(fault.array, fault.line):
        return found[0] if len(found) == 1 else None
    function = file.function_at(fault.line)
    if not function or not any(v.name == fault.array and v.pointer for v in function.parameters):
        return None
    kinds = "subscript_expression", "pointer_expression"
    found = [a for a in function.body.all(*kinds) if a.line == fault.line and index_of(a)]
    if "Write" in fault.headline:
        found = [a for a in found if a.outer.kind == "assignment_expression" and a.outer.part("left") == a]
    return found[0] if len(found) == 1 and not is_set(function.body, fault.array) else None


def all_indices(access: Piece) -> list[Piece | None]:
    """`i` and `j` of `a[i][j]`."""
    found: list[Piece | None] = []
    while access.kind == "subscript_expression":
        found.append(index_of(access))
        access = access.parts[0]
    return found[::-1]


def _changes(index: Piece) -> bool:
    return any(index.all("update_expression", "assignment_expression", "call_expression"))


def named(access: Piece) -> str:
    """The first name of an access: `a` of `a[i][j]` and of `*(a + i)`."""
    return next((p.code for p in access.all("identifier")), "")


def _unique(found: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(name for names in found for name in names))


def names_in(file: CudaText, piece: Piece, place: int) -> Iterator[str]:
    """The integer variables, and members of variables, that a piece reads and that can be named at a place."""
    for p in piece.all("identifier"):
        known = file.variable_at(p.code, place)
        if known and _is_integer(known):
            yield p.code
        elif known and p.outer.kind == "field_expression" and p.outer.parts[0] == p:
            members = file.members(p.outer.parts[-1].code)
            if members and all(map(_is_integer, members)):
                yield p.outer.code


def _is_integer(variable: Variable) -> bool:
    words = variable.type.replace("std::", "").split()
    plain = not variable.pointer and not variable.extents and bool(words) and set(words) <= _INTEGERS
    constant = {"const", "constexpr"} & set(variable.words) and variable.scope.type == "translation_unit"
    return plain and not constant and "__shared__" not in variable.words


def value_of(file: CudaText, name: str, place: int) -> Piece | None:
    """The initializer of a local variable; None if it is changed later, or cannot be followed."""
    declared = file.variable_at(name, place)
    if not declared or not declared.value or declared.scope.type == "for_statement":
        return None
    if not file.is_followed(declared):
        return None
    return None if is_set(file.piece(declared.scope), name) else declared.value


def is_set(scope: Piece, name: str) -> bool:
    """Whether a name is assigned anywhere in a scope after its declaration."""
    return name in _set_in(scope)


@remembered
def _set_in(scope: Piece) -> frozenset[str]:
    return frozenset(p.code for p in scope.all("identifier") if sets(p))


def begun(file: CudaText, name: str, place: int) -> Piece | None:
    """The initializer of a local pointer, even if it has moved since."""
    declared = file.variable_at(name, place)
    return declared.value if declared and declared.pointer else value_of(file, name, place)


def pointer_values(file: CudaText, name: str, place: int) -> Iterator[Piece]:
    """What a local pointer was set to where it is declared, and the pointers in that: `row`, then `image` of `image + h * W`."""
    value = begun(file, name, place)
    while value:
        yield value
        pointer = next((p.code for p in value.all("identifier") if p.code != name), "")
        declared = file.variable_at(pointer, value.start)
        name, value = pointer, begun(file, pointer, value.start) if declared and declared.pointer else None


def begins_in(file: CudaText, access: Piece, array: str) -> bool:
    """Whether an access is of an array, or behind a local pointer that begins in it."""
    name = named(access)
    return name == array or any(
        p.code == array for value in pointer_values(file, name, access.start) for p in value.all("identifier")
    )


def addends_of(file: CudaText, access: Piece) -> list[Piece]:
    """The expressions whose sum is the place in a parameter: of `row[w]`, `w` and, where `row` is `x + h * W`, `h * W`. Empty
    where that cannot be told, as of a pointer that moves."""
    index, base = index_of(access), access.indexed
    found = [index] if index and access.kind == "subscript_expression" else []
    while found and base:
        match base.kind:
            case "parenthesized_expression" if len(base.parts) == 1:
                base = base.parts[0]
            case "cast_expression":
                base = base.part("value")
            case "binary_expression" if base.part("operator").code == "+":
                found.append(base.part("right"))
                base = base.part("left")
            case "pointer_expression" if base.code[0] == "&" and base.parts[0].kind == "subscript_expression":
                inner = index_of(base.parts[0])
                found = [*found, inner] if inner else []
                base = base.parts[0].indexed
            case "identifier":
                declared = file.variable_at(base.code, access.start)
                if not declared or not declared.pointer:
                    return []
                if not declared.value:
                    return found
                base = value_of(file, base.code, access.start)
            case _:
                return []
    return []


def added_in(e: Piece, depth: int) -> set[str] | None:
    """The components of threadIdx and blockIdx that an expression is computed from, other than as a divisor; None if
    that cannot be told."""
    if e.kind == "field_expression" and e.parts[0].code in ("threadIdx", "blockIdx"):
        return {e.code}
    if e.kind == "identifier":
        declared = e.file.variable_at(e.code, e.start)
        if declared is None or declared.value is None:
            own = e.file.function_at(e.line)
            given = declared is None or (own and declared in own.parameters and not is_set(own.body, e.code))
            return set() if given else None
        if declared.scope.type == "translation_unit" or declared.pointer:
            return set()
        value = value_of(e.file, e.code, e.start)
        if declared.scope.type == "for_statement":
            value = declared.value if depth else None
        return added_in(value, depth - 1) if value and depth else None
    sign = e.part("operator") if e.kind == "binary_expression" else None
    inner = e.parts[:1] if sign and sign.code in ("/", "%") else e.parts
    found = [added_in(p, depth) for p in inner]
    return None if None in found else set().union(*found)


def sets(name: Piece) -> bool:
    """Whether a variable is set there, or may be, as its address is taken."""
    outer = name.outer
    if outer.kind == "assignment_expression":
        return outer.part("left") == name
    return outer.kind == "update_expression" or outer.kind == "pointer_expression"


def guards(file: CudaText, function: Function, access: Piece) -> Iterator[Piece]:
    """The conditions that guard an access, nearest first: of the enclosing loops and `if`s, of `&&` before
    it, and of earlier `if`s that leave."""
    inner = access
    while (outer := inner.outer) and inner.start > function.start:
        if outer.kind in _AROUND and (condition := outer.part("condition")) and not condition.holds(inner):
            yield meant(file, condition)
        if outer.kind == "binary_expression" and outer.part("operator").code == "&&":
            if not outer.part("left").holds(inner):
                yield meant(file, outer.part("left"))
        if outer.kind == "compound_statement":
            for before in reversed(outer.parts):
                if before.end <= inner.start and before.kind == "if_statement" and _leaves(before):
                    yield meant(file, before.part("condition"))
        inner = outer


def meant(file: CudaText, condition: Piece) -> Piece:
    """The condition that a variable stands for: `if (!inside)` after `bool inside = x < W && y < H;`."""
    inner = condition
    while inner.kind in ("condition_clause", "parenthesized_expression", "unary_expression"):
        if len(inner.parts) != 1:
            return condition
        inner = inner.parts[0]
    value = value_of(file, inner.code, condition.start) if inner.kind == "identifier" else None
    return value if value and value.kind in ("binary_expression", "parenthesized_expression") else condition


def _leaves(statement: Piece) -> bool:
    body = statement.part("consequence")
    last = body.parts[-1] if body and body.kind == "compound_statement" and body.parts else body
    return bool(last) and last.kind in _JUMPS and not statement.part("alternative")


def noting(source: str, probe: Probe, address: int, fault: KernelFault) -> str:
    """The instrumented source. address: of an array of 64-bit integers: whether anything was recorded, the
    line of the call, the values."""
    here = " && ".join(
        f"{builtin}.{axis} == {at}"
        for builtin, point in (("threadIdx", fault.thread), ("blockIdx", fault.block))
        for axis, at in zip("xyz", point, strict=True)
    )
    at = f"((volatile long long*){address}ull)"
    if probe.element:
        here = f"{at}[0] == 0 && {here}"  # the first time

    def note(values: Iterable[tuple[int, str]]) -> str:
        return (
            f"(({here}) ? (void)({', '.join(f'{at}[{i}] = (long long)({v})' for i, v in values)}) : (void)0)"
        )

    seen = note([*((2 + i, name) for i, name in enumerate(probe.names)), (0, probe.element or "1")])
    edits = [(index, f"({seen}, ({index.code}))") for index in outermost(probe.indices)]
    edits += [(call, f"({note([(1, str(call.line))])}, {call.code})") for call in outermost(probe.calls)]
    return edited(source, edits)


def outermost(pieces: Iterable[Piece]) -> list[Piece]:
    """The pieces that lie in no other: edits must not overlap."""
    found: list[Piece] = []
    for piece in sorted(pieces, key=lambda p: (p.start, -p.end)):
        if not found or piece.start >= found[-1].end:
            found.append(piece)
    return found
