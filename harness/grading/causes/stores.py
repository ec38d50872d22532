"""All stores into an array: through its own name, through local pointers, and through the parameters of the functions
that are called with a pointer into it."""

from __future__ import annotations

from ...course.cuda_pieces import Piece, Variable, last_name
from ...course.cuda_text import CudaText, read
from ...course.declare import Kernel
from .array_steps import by_name
from .findings import shown, sign_of
from .noting import value_of

_SAME = ("parenthesized_expression", "cast_expression", "binary_expression", "conditional_expression")
_CASTS = ("reinterpret_cast", "static_cast", "const_cast")
_MOVES = ("expression_statement", "for_statement", "comma_expression")


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


def stores_a_comparison(kernel: Kernel, source: str) -> str:
    """`y[i] = g[i] * x[i] > 0;`: what is stored in an output is 0 or 1. "" if there is no such store."""
    own = read(source).function(kernel.name)
    outputs = {p.name for p in kernel.outputs}
    arrays = {name for name, a in by_name(kernel, own).items() if a.name in outputs} if own else ()
    for e in own.body.all("assignment_expression") if own else ():
        left, value = e.part("left"), e.part("right")
        if (
            left.kind != "subscript_expression"
            or left.indexed.code not in arrays
            or e.part("operator").code != "="
        ):
            continue
        if value.kind == "identifier":
            value = value_of(own.file, value.code, e.start) or value
        value = value.bare
        if sign_of(value) in ("<", ">", "<=", ">=", "==", "!=", "&&", "||"):
            return f"Line {e.line} stores 0 or 1 in {left.indexed.code}: whether {shown(value)} holds."
    return ""
