"""The accesses of an array, whatever the file calls it: by the array's name, through a local pointer into it, or through a
parameter of a function of the file that is called with one."""

from __future__ import annotations

from .follow import begins_in, pointer_values, test_names
from .parts import index_of, named
from .pieces import Piece, Variable, last_name, remembered
from .text import CudaText, read

_SAME = ("parenthesized_expression", "cast_expression", "binary_expression", "conditional_expression")
_CASTS = ("reinterpret_cast", "static_cast", "const_cast")
_MOVES = ("expression_statement", "for_statement", "comma_expression")
DEEP = 3  # helpers that pass a pointer on


def access_at(file: CudaText, line: int, array: str, how: str = "") -> Piece | None:
    """The only access on a line that can be of an array; None if there are several. array: its name in the file;
    how: "read" or "write", if known."""
    function, found = file.function_at(line), accesses_on(file, line)
    fit = [
        a
        for a in found
        if is_stored(a) and (how == "write" or a.is_updated) or how == "read" and not is_stored(a)
    ]
    found = fit or found
    into = [a for a in found if (reaches(a, array) if function else named(a) == array)]
    chosen = into or [a for a in found if not is_elsewhere(file, a)]
    return chosen[0] if len(chosen) == 1 else None


def accesses_on(file: CudaText, line: int) -> list[Piece]:
    """`a[i][j]` and `*p` on a line; of `a[i][j]`, not `a[i]` as well."""
    found = [
        a
        for a in file.whole.all("subscript_expression", "pointer_expression")
        if a.line == line and index_of(a)
    ]
    return [a for a in found if not (a.outer.kind == "subscript_expression" and a.outer.parts[0] == a)]


@remembered
def reaches(access: Piece, array: str, deep: int = DEEP) -> bool:
    """Whether an access, or a pointer that a helper is called with, leads into an array of the kernel."""
    file = access.file
    if not (function := file.function_at(access.line)):
        return False
    mine = [v.name for v in function.parameters]
    if function.is_kernel or array not in mine:  # a helper may call another array by this name
        if begins_in(file, access, array):
            return True
    if function.is_kernel or not deep:
        return False
    name = named(access)
    names = {
        name,
        *(p.code for value in pointer_values(file, name, access.start) for p in value.all("identifier")),
    }
    for i in (i for i, own in enumerate(mine) if own in names and function.parameters[i].pointer):
        for called, call in file.whole.calls():
            given = call.part("arguments").parts if called == function.name else ()
            within = file.function_at(call.line)
            if i < len(given) and within and within.name != function.name:
                if reaches(given[i], array, deep - 1):
                    return True
    return False


def is_elsewhere(file: CudaText, access: Piece) -> bool:
    """Whether an access is of an array that is declared in the function: shared or a thread's own."""
    known = file.variable_at(named(access), access.start)
    return bool(known and known.extents)


def is_divided(array: str, source: str) -> bool:
    """Whether an array is the dynamic shared memory, with other pointers of the file derived from it."""
    file = read(source)
    dynamic = {"extern", "__shared__"}
    if not any(v.name == array and dynamic <= set(v.words) for v in file.variables):
        return False
    values = [v.value for v in file.variables if v.pointer]
    values += [e.part("right") for e in file.whole.all("assignment_expression")]
    return any(
        value and starts_from(array, value) and "threadIdx" not in test_names(value) for value in values
    )


def starts_from(array: str, value: Piece) -> bool:
    """Whether an expression is `array + ...` or `&array[...]`, in a cast or not."""
    while value.kind in ("cast_expression", "parenthesized_expression"):
        value = value.parts[-1]
    if value.kind == "pointer_expression":
        value = value.parts[0]
        return value.kind == "subscript_expression" and value.parts[0].code == array
    first = value
    while first.kind == "binary_expression" and first.part("operator").code == "+":
        first = first.part("left")
    return first is not value and first.code == array


def stores_into(file: CudaText, array: Variable) -> list[Piece] | None:
    """The accesses that store; None if there may be others. array: a parameter of the kernel."""
    found: dict[int, Piece] = {}
    pointers, seen = [array], set()
    while pointers:
        pointer = pointers.pop()
        if pointer.start in seen:
            continue
        seen.add(pointer.start)
        if any(pointer.name in m.value for m in file.macros):
            return None
        for p in file.whole.all("identifier"):
            if p.code != pointer.name or file.variable_at(p.code, p.start) != pointer:
                continue
            access, also = use_of(file, p)
            if access is None and also is None:
                return None
            if access and is_stored(access):
                found[access.start] = access
            elif access and may_be_referred_to(file, access):
                return None
            pointers += also or []
    return list(found.values())


def use_of(file: CudaText, name: Piece) -> tuple[Piece | None, list[Variable] | None]:
    """(the access that a use of a pointer is part of, the pointers that get its value); None, None if it cannot be
    told."""
    inner = name
    while outer := inner.outer:
        first = bool(outer.parts) and outer.parts[0] == inner
        match outer.kind:
            case "subscript_expression" if first:
                if not is_address(outer.outer):
                    return outer, []
            case "pointer_expression":
                if not is_address(outer):
                    return (outer, []) if not is_address(outer.outer) else (None, None)
            case "init_declarator" if outer.part("value") == inner:
                return None, set_by(file, outer)
            case "assignment_expression" if outer.part("left") == inner:
                return None, []
            case "assignment_expression" if outer.part("left").kind == "identifier":
                to = file.variable_at(outer.part("left").code, outer.start)
                return None, [to] if to else None
            case "update_expression":
                if outer.outer.kind in _MOVES:
                    return None, []
            case "argument_list":
                called = last_name(outer.outer.part("function")) if outer.outer.part("function") else ""
                if called in _CASTS:
                    outer = outer.outer
                else:
                    function, i = file.function(called), outer.parts.index(inner)
                    if not function or i >= len(function.parameters) or is_reference(function.parameters[i]):
                        return None, None
                    return None, [function.parameters[i]]
            case kind if kind not in _SAME or kind == "conditional_expression" and first:
                return None, None
            case "binary_expression" if outer.part("operator").code not in ("+", "-"):
                return None, None
        inner = outer
    return None, None


def set_by(file: CudaText, declarator: Piece) -> list[Variable] | None:
    """The pointer that a declaration sets."""
    to = next((v for v in file.variables if v.node == declarator.node), None)
    return None if to is None or is_reference(to) or to.extents else [to]


def is_reference(variable: Variable) -> bool:
    return "&" in variable.code.split("=")[0]


def is_address(e: Piece | None) -> bool:
    return bool(e) and e.kind == "pointer_expression" and e.part("operator").code == "&"


def is_stored(access: Piece) -> bool:
    """Whether it is assigned to, or one of its members is: `a[i].x = 1`."""
    inner = access
    while inner.outer.kind in ("field_expression", "parenthesized_expression", "subscript_expression"):
        if inner.outer.parts[0] != inner:
            return False
        inner = inner.outer
    outer = inner.outer
    return (
        outer.kind == "assignment_expression"
        and outer.part("left") == inner
        or outer.kind == "update_expression"
    )


def may_be_referred_to(file: CudaText, access: Piece) -> bool:
    """Whether a reference may be made to an element: by a declaration, or by a call of something in the file."""
    outer = access.outer
    if outer.kind == "init_declarator":
        to = next((v for v in file.variables if v.node == outer.node), None)
        return to is None or is_reference(to)
    if outer.kind != "argument_list" or not outer.outer.part("function"):
        return False
    called = last_name(outer.outer.part("function"))
    function, i = file.function(called), outer.parts.index(access)
    if function:
        return i >= len(function.parameters) or is_reference(function.parameters[i])
    return file.variable_at(called, access.start) is not None
