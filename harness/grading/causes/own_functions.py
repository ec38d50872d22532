"""Calls of functions of the file that only return an expression: `at(b, c, h, w, C, H, W)`, `div_up(n, TILE)`."""

from __future__ import annotations

from collections.abc import Mapping

from ...course.cuda_pieces import Piece, last_name, remembered

#: functions of the file that are called in what a function returns, at most, and how deep such calls are nested
MOST_CALLS, DEEPEST = 4, 3


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
