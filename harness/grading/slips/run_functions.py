"""What a function of the file returns for given numbers, found by running its text: `windows_along(W, S, stride, pad)`.

Only integers are known: whatever else is met, and a function that takes many steps, has no value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from ...cuda.follow import value_of
from ...cuda.parts import sign_of
from ...cuda.pieces import Piece, last_name
from ...cuda.text import CudaText
from ...cuda.values import OPERATORS

MOST_STEPS = 5000
DEEPEST = 8  # calls in one another
TYPES = {"int", "bool", "long", "long long"}
LIMIT = 1 << 31


class Unknown(Exception):
    """A value that cannot be told."""


SIGNS = {sign: OPERATORS[sign] for sign in "+ - * / % < > <= >= == !=".split()}
UNARY: Mapping[str, Callable[[int], int]] = {"-": operator.neg, "+": operator.pos, "!": operator.not_}
CALLS: Mapping[str, Callable[..., int]] = {"min": min, "max": max}


def result(e: Piece, values: Mapping[str, int]) -> tuple[int, int] | None:
    """(the value of an expression, the line of the file's function that returns it, or 0); None if it cannot be told.
    values: of the parameters of the function that it stands in."""
    try:
        run = Run(e.file, values, [MOST_STEPS], DEEPEST)
        return run.value(e), run.line
    except (Unknown, ZeroDivisionError):
        return None


class Run:
    """The values of a function's variables as its statements are done. left: how many steps it may still take. line: of
    the last `return` of a function that it called."""

    def __init__(self, file: CudaText, values: Mapping[str, int], left: list[int], deep: int):
        self.file, self.values, self.left, self.deep, self.line = file, dict(values), left, deep, 0
        self.types: dict[str, str] = {}
        self.scopes: dict[str, Piece] = {}

    def called(self, call: Piece, name: str) -> int:
        """What a function of the file returns."""
        function, given = self.file.function(name), call.part("arguments")
        if not function or not self.deep or len(function.parameters) != len(given.parts):
            raise Unknown
        returns = function.whole.part("type")
        types = {returns.code if returns else "", *(v.type for v in function.parameters)}
        if not types <= TYPES or any(v.pointer or v.extents for v in function.parameters):
            raise Unknown
        inner = Run(self.file, {}, self.left, self.deep - 1)
        for v, part in zip(function.parameters, given.parts, strict=True):
            inner.scopes[v.name] = function.body
            inner.types[v.name] = v.type
            inner.set(v.name, self.value(part))
        if inner.done(function.body) != "return":
            raise Unknown
        self.line = inner.line
        worth = inner.values["return"]
        return int(bool(worth)) if returns.code == "bool" else worth

    def set(self, name: str, worth: int) -> int:
        if name not in self.types or abs(worth) >= LIMIT:
            raise Unknown
        self.values[name] = int(bool(worth)) if self.types[name] == "bool" else int(worth)
        return self.values[name]

    # -- statements ------------------------------------------------------------------------------------------

    def done(self, s: Piece) -> str:
        """Does a statement; "break", "continue" or "return" if that is how it ends."""
        self.left[0] -= 1
        do = getattr(self, f"do_{s.kind}", None)
        if self.left[0] < 0 or not do:
            raise Unknown
        return do(s) or ""

    def do_compound_statement(self, s: Piece) -> str:
        return next((end for part in s.parts if (end := self.done(part))), "")

    def do_declaration(self, s: Piece) -> None:
        kind = s.part("type").code
        for d in s.parts[s.parts.index(s.part("type")) + 1 :]:
            name = d.part("declarator") if d.kind == "init_declarator" else d
            around = self.scopes.get(name.code)
            if (
                kind not in TYPES
                or name.kind != "identifier"
                or around
                and around.holds(s)
                and around != s.outer
            ):
                raise Unknown
            self.scopes[name.code], self.types[name.code] = s.outer, kind
            self.values.pop(name.code, None)
            if d.kind == "init_declarator":
                self.set(name.code, self.value(d.part("value")))

    def do_expression_statement(self, s: Piece) -> None:
        for part in s.parts:
            self.value(part)

    def do_if_statement(self, s: Piece) -> str:
        taken = s.part("consequence" if self.value(s.part("condition")) else "alternative")
        if taken and taken.kind == "else_clause":
            taken = taken.parts[0]
        return self.done(taken) if taken else ""

    def do_while_statement(self, s: Piece) -> str:
        return self.loop(s, first=True)

    def do_do_statement(self, s: Piece) -> str:
        return self.loop(s, first=False)

    def do_for_statement(self, s: Piece) -> str:
        if start := s.part("initializer"):
            self.done(start) if start.kind == "declaration" else self.value(start)
        return self.loop(s, first=True)

    def loop(self, s: Piece, first: bool) -> str:
        test, update = s.part("condition"), s.part("update")
        while not first or not test or self.value(test):
            first = True
            end = self.done(s.part("body"))
            if end in ("break", "return"):
                return end.replace("break", "")
            if update:
                self.value(update)
        return ""

    def do_break_statement(self, s: Piece) -> str:
        return "break"

    def do_continue_statement(self, s: Piece) -> str:
        return "continue"

    def do_return_statement(self, s: Piece) -> str:
        if not s.parts:
            raise Unknown
        self.values["return"], self.line = self.value(s.parts[0]), s.line
        return "return"

    # -- expressions -----------------------------------------------------------------------------------------

    def value(self, e: Piece) -> int:
        """The value of an expression."""
        self.left[0] -= 1
        if self.left[0] < 0:
            raise Unknown
        match e.kind:
            case "number_literal" if e.code.lstrip("-").isdecimal():
                return int(e.code)
            case "true" | "false":
                return int(e.kind == "true")
            case "identifier":
                return self.named(e)
            case "parenthesized_expression" | "condition_clause" if len(e.parts) == 1:
                return self.value(e.parts[0])
            case "unary_expression" if e.part("operator").code in UNARY:
                return int(UNARY[e.part("operator").code](self.value(e.part("argument"))))
            case "binary_expression":
                return int(self.combined(e))
            case "conditional_expression":
                return self.value(e.part("consequence" if self.value(e.part("condition")) else "alternative"))
            case "assignment_expression":
                sign, right = e.part("operator").code[:-1], self.value(e.part("right"))
                if sign and sign not in SIGNS:
                    raise Unknown
                name = e.part("left").code
                return self.set(name, SIGNS[sign](self.value(e.part("left")), right) if sign else right)
            case "update_expression":
                name, before = e.part("argument").code, self.value(e.part("argument"))
                after = self.set(name, before + (1 if e.part("operator").code == "++" else -1))
                return after if e.code.startswith(("++", "--")) else before
            case "call_expression" if e.part("arguments"):
                name = last_name(e.part("function"))
                if name in CALLS and len(e.part("arguments").parts) == 2 and not self.file.function(name):
                    return CALLS[name](*map(self.value, e.part("arguments").parts))
                return self.called(e, name)
        raise Unknown

    def named(self, e: Piece) -> int:
        if e.code in self.values:
            return self.values[e.code]
        declared = self.file.variable_at(e.code, e.start) if e.code not in self.types else None
        origin = value_of(self.file, e.code, e.start) if declared and declared.type in TYPES else None
        if origin is None:
            raise Unknown
        return self.value(origin)

    def combined(self, e: Piece) -> int:
        sign, left = sign_of(e), self.value(e.part("left"))
        if sign in ("&&", "||"):
            return bool(left) if bool(left) == (sign == "||") else bool(self.value(e.part("right")))
        if sign not in SIGNS:
            raise Unknown
        worth = SIGNS[sign](left, self.value(e.part("right")))
        if abs(worth) >= LIMIT:
            raise Unknown
        return worth
