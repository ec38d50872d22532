"""Calls of functions of the file that only return an expression: `at(b, c, h, w, C, H, W)`, `div_up(n, TILE)`."""

from __future__ import annotations

from collections.abc import Mapping

from ...course.cuda_pieces import Piece, last_name, remembered


class Passed(dict):
    """The values of a function's parameters; other names have those that they have elsewhere."""

    def __init__(self, values: Mapping[str, int], known: Mapping[str, int | None]):
        super().__init__(values)
        self.known, self.whole = known, getattr(known, "whole", frozenset())

    def __missing__(self, name: str) -> int | None:
        return self.known[name]


@remembered
def returned(call: Piece) -> tuple[Piece, dict[str, Piece]] | None:
    """(what the called function returns, the argument for each parameter); None if it does anything else."""
    name, given = call.part("function"), call.part("arguments")
    if call.kind != "call_expression" or not name or not given:
        return None
    called = last_name(name)
    declared = call.file.variable_at(called, call.start)
    if declared and declared.value and declared.value.kind == "lambda_expression":
        body, head = declared.value.part("body"), declared.value.part("declarator")
        inside = head.part("parameters") if head else None
        names = [p.part("declarator").code for p in inside.parts if p.part("declarator")] if inside else []
    elif function := call.file.function(called):
        body, names = function.body, [v.name for v in function.parameters]
    else:
        return None
    only = body.parts[0] if len(body.parts) == 1 and body.parts[0].kind == "return_statement" else None
    value = only.parts[0] if only and len(only.parts) == 1 else None
    if value is None or len(names) != len(given.parts) or called in [n for n, _ in value.calls()]:
        return None
    return value, dict(zip(names, given.parts, strict=True))
