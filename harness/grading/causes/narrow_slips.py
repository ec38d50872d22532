"""Floats that are kept in integers on their way: a tile, a variable or a parameter that is declared as int."""

from __future__ import annotations

from collections.abc import Iterator

from ...course.cuda_pieces import Function, Piece, Variable
from ...course.cuda_text import read
from ...course.cuda_types import FLOAT, INTEGER, kind_of
from ...course.declare import Kernel
from .array_steps import by_name
from .findings import Slip, shown, sign_of
from .noting import value_of

ADDS = ("+=", "-=", "*=")


def stored_as_an_integer(function: Function) -> Iterator[Slip]:
    """`__shared__ int a[16]; a[t] = A[i]; ... sum += a[k] * b[k];`"""
    told = set()
    for e in function.body.all("assignment_expression"):
        left, value = e.part("left"), e.part("right")
        if e.part("operator").code != "=" or kind_of(left) != INTEGER or not holds_a_float(value):
            continue
        known = function.file.variable_at(left.indexed.code, left.start)
        if not known or known.start in told or known.name in {v.name for v in function.parameters}:
            continue
        if any(map(among_floats, elements(function, known))):
            told.add(known.start)
            yield Slip(
                known.line,
                f"Line {known.line} declares {known.name} as {known.type}, so that line {e.line} drops the fraction of what it "
                "stores there. Declare it as float.",
            )


def passed_as_an_integer(function: Function) -> Iterator[Slip]:
    """`float f(int v)`, which is called with a float and gives one back."""
    for name, call in function.body.calls():
        called = function.file.function(name)
        for p, value in zip(called.parameters, call.part("arguments").parts, strict=False) if called else ():
            plain = value.kind in ("identifier", "subscript_expression") and kind_of(value) == FLOAT
            if (
                plain
                and not p.pointer
                and p.type in ("int", "unsigned", "long", "short")
                and becomes_a_float(call)
            ):
                yield Slip(
                    p.line,
                    f"Line {p.line} declares the parameter {p.name} as {p.type}, and line {call.line} passes the float {value.code}: "
                    "its fraction is dropped.",
                )


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


def holds_a_float(value: Piece) -> bool:
    """Whether it is a float that was read, as it is or where a condition holds."""
    value = value.bare
    if value.kind == "conditional_expression":
        return any(holds_a_float(value.part(side)) for side in ("consequence", "alternative"))
    return value.kind in ("identifier", "subscript_expression") and kind_of(value) == FLOAT


def elements(function: Function, array: Variable) -> Iterator[Piece]:
    """Where a variable, or an element of an array, is named."""
    for p in function.body.all("identifier"):
        if p.code == array.name and function.file.variable_at(p.code, p.start) == array:
            while p.outer.kind == "subscript_expression" and p.outer.parts[0] == p:
                p = p.outer
            yield p


def among_floats(e: Piece) -> bool:
    """Whether it is multiplied by a float, or added to one."""
    outer = e.outer
    if outer.kind == "assignment_expression":
        adds = outer.part("operator").code in ADDS
        return adds and outer.part("right") == e and kind_of(outer.part("left")) == FLOAT
    if outer.kind == "argument_list" and outer.outer.part("function").code in ("fmaf", "fma", "__fmaf_rn"):
        return True
    return sign_of(outer) in ("*", "+", "-") and FLOAT in (
        kind_of(outer.part("left")),
        kind_of(outer.part("right")),
    )


def becomes_a_float(call: Piece) -> bool:
    outer = call.outer
    if outer.kind == "assignment_expression":
        return outer.part("right") == call and kind_of(outer.part("left")) == FLOAT
    known = [v for v in call.file.variables if outer.kind == "init_declarator" and v.start == outer.start]
    return any(v.type in ("float", "double") and not v.pointer for v in known)
