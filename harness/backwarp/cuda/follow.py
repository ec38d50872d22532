"""What the names of an expression stand for: the values of local variables and pointers, what calls of the
file's own functions return, and the conditions that guard a place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .parts import index_of, named
from .pieces import Function, Piece, Variable, last_name, remembered
from .text import CudaText
from .tree import LOOPS

_INTEGERS = set(
    "int unsigned signed long short char bool size_t auto ptrdiff_t int8_t int16_t int32_t int64_t".split()
)
_INTEGERS |= {f"u{name}" for name in _INTEGERS}

_JUMPS = ("return_statement", "continue_statement", "break_statement")

_AROUND = (*LOOPS, "if_statement", "conditional_expression")
#: functions of the file that are called in what a function returns, at most, and how deep such calls are nested
MOST_CALLS, DEEPEST = 4, 3


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


def sets(name: Piece) -> bool:
    """Whether a variable is set there, or may be, as its address is taken."""
    outer = name.outer
    if outer.kind == "assignment_expression":
        return outer.part("left") == name
    return outer.kind == "update_expression" or outer.kind == "pointer_expression"


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


def guards(file: CudaText, function: Function, access: Piece) -> Iterator[Piece]:
    """The conditions that guard an access, nearest first: of the enclosing loops and `if`s, of `&&` before
    it, and of earlier `if`s that leave."""
    inner = access
    while (outer := inner.outer) and inner.start > function.start:
        if outer.kind in _AROUND and (condition := outer.part("condition")) and not condition.holds(inner):
            yield written_out(file, condition)
        if outer.kind == "binary_expression" and outer.part("operator").code == "&&":
            if not outer.part("left").holds(inner):
                yield written_out(file, outer.part("left"))
        if outer.kind == "compound_statement":
            for before in reversed(outer.parts):
                if before.end <= inner.start and before.kind == "if_statement" and _leaves(before):
                    yield written_out(file, before.part("condition"))
        inner = outer


def written_out(file: CudaText, condition: Piece) -> Piece:
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


def test_names(test: Piece) -> set[str]:
    """The names in a condition and in the values of its variables."""
    names, pending = set(), [test]
    while pending:
        for p in pending.pop().all("identifier"):
            if p.code not in names:
                names.add(p.code)
                pending += [v] if (v := value_of(p.file, p.code, p.start)) else []
    return names


# -- calls of functions of the file that only return an expression: `at(b, c, h, w, C, H, W)`, `div_up(n, TILE)` ------


class Passed(dict):
    """The values of a function's parameters; other names have those that they have elsewhere."""

    def __init__(self, values: Mapping[str, int], known: Mapping[str, int | None]):
        super().__init__(values)
        self.known, self.whole = known, getattr(known, "whole", frozenset())

    def __missing__(self, name: str) -> int | None:
        return self.known[name]


@remembered
def returned(call: Piece) -> tuple[Piece, dict[str, Piece]] | None:
    """(what the called function returns, the argument for each parameter); None if it does anything else, or calls many
    functions of the file, which would take too long to follow."""
    value, names = _result(call)
    given = call.part("arguments")
    if value is None or len(names) != len(given.parts) or not _is_followed(value):
        return None
    return value, dict(zip(names, given.parts, strict=True))


def _result(call: Piece) -> tuple[Piece | None, list[str]]:
    """(all that the called function does is to return this, the names of its parameters)"""
    name = call.part("function")
    if call.kind != "call_expression" or not name or not call.part("arguments"):
        return None, []
    called = last_name(name)
    declared = call.file.variable_at(called, call.start)
    if declared and declared.value and declared.value.kind == "lambda_expression":
        body, head = declared.value.part("body"), declared.value.part("declarator")
        inside = head.part("parameters") if head else None
        names = [p.part("declarator").code for p in inside.parts if p.part("declarator")] if inside else []
    elif function := call.file.function(called):
        body, names = function.body, [v.name for v in function.parameters]
    else:
        return None, []
    only = body.parts[0] if len(body.parts) == 1 and body.parts[0].kind == "return_statement" else None
    value = only.parts[0] if only and len(only.parts) == 1 else None
    if value is not None and called in [n for n, _ in value.calls()]:
        value = None
    return value, names


def _is_followed(value: Piece, deepest: int = DEEPEST) -> bool:
    """Whether few functions of the file are called there, and in these."""
    inside = [found for _, call in value.calls() if (found := _result(call)[0]) is not None]
    if len(inside) > MOST_CALLS or inside and not deepest:
        return False
    return all(_is_followed(found, deepest - 1) for found in inside)
