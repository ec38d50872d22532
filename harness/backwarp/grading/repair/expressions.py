"""The sites of expressions: values, operators, conditions, arrays, and what is stored."""

from __future__ import annotations

import re
from collections.abc import Callable

from ...cuda.pieces import Piece, Variable
from . import edits
from .edits import Edit, Operation
from .sites import Choice, is_of_barrier
from .support import ARITHMETIC, ASSIGNMENTS, RELATIONS, asked
from .terms import are_counterparts


class Expressions:
    """Writes expressions; statements.py writes what is around them."""

    def _condition(self, p: Piece) -> str:
        """Of an `if` or a loop."""
        if p.kind in ("condition_clause", "parenthesized_expression"):
            inner = p.part("value") or (p.parts[0] if len(p.parts) == 1 else None)
            if inner is None or inner.kind == "declaration":
                return p.code
            return f"({self._condition(inner)})"
        text = self.write(p)
        here = self.pool.here(self.integers, p.start)
        number = self.schemata.add(p, edits.CONDITION, self.integers, here, order=is_of_barrier(p))
        if number is not None:
            text = f"backwarp_condition({number}, {text}, backwarp_p)"
        return self._in_both(p, text)

    def _in_both(self, p: Piece, plain: str) -> str:
        """`rows % 4 == 0`, which may have to hold for `columns` as well."""
        entries = (self.integers[i] for i in self.pool.here(self.integers, p.start))
        here = [e.text for e in entries if e.variable]
        names = {n.code: [t for t in here if are_counterparts(n.code, t)][:1] for n in p.all("identifier")}
        single = p.kind == "binary_expression" and p.part("operator").code not in ("&&", "||")
        if not single or not any(names.values()):
            return plain
        other = re.sub(r"[A-Za-z_]\w*", lambda m: (names.get(m[0]) or m)[0], p.code)

        def made(choice: Choice) -> Edit:
            return Edit(p.start, p.end, f"{p.code} {('&&', '||')[choice.operation]} {other}", "a condition")

        # likely, and not as slow as a condition that never holds
        operations = [Operation(sign, "a condition", -1, is_text=True) for sign in ("&&", "||")]
        if (number := self.schemata.add(p, operations, made=made)) is None:
            return plain
        others = f"backwarp_operation({number}) ? ({p.code} || {other}) : ({p.code} && {other})"
        return f"({asked(number)} ? ({others}) : {plain})"

    def _value(self, p: Piece, text: str) -> str:
        """An expression that another value may replace."""
        kind = self.pool.kind(p)
        if kind not in ("integer", "float"):
            return text
        pools = {"integer": (edits.INTEGER, self.integers), "float": (edits.FLOAT, self.floats)}
        operations, entries = pools[kind]
        number = self.schemata.add(p, operations, entries, self.pool.here(entries, p.start))
        return text if number is None else f"backwarp_value({number}, {text}, backwarp_p)"

    def _identifier(self, p: Piece) -> str:
        if p.code in self.schemata.fixed and p.code not in self.pool.constants:
            return p.code
        if self.pool.kind(p) == "pointer":
            return self._pointer(p)
        return self._value(p, p.code)

    def _number_literal(self, p: Piece) -> str:
        return self._value(p, p.code)

    def _field_expression(self, p: Piece) -> str:
        return self._value(p, p.code)

    def _cast_expression(self, p: Piece) -> str:
        return self._value(p, self._inside(p, type=self._leave))

    def _subscript_expression(self, p: Piece) -> str:
        return self._value(p, self._target(p))

    def _pointer(self, p: Piece) -> str:
        """An array or a pointer: another of the same type may have been meant."""
        own = self.schemata.file.named(p.code, p.start)
        if len(own) != 1:
            return p.code
        others = [v for v in self.pool.pointers if self._alike(own[0], v, p.start)]
        if not others:
            return p.code
        operations = [Operation(v.name, "another array", is_text=True) for v in others]

        def made(choice: Choice) -> Edit:
            return Edit(p.start, p.end, operations[choice.operation].code, "another array")

        number = self.schemata.add(p, operations, made=made)
        if number is None:
            return p.code
        text = p.code
        for i, v in enumerate(others):
            text = f"backwarp_operation({number}) == {i} ? {v.name} : {text}"
        return f"({asked(number)} ? ({text}) : {p.code})"

    def _alike(self, own: Variable, other: Variable, place: int) -> bool:
        same = [e and e.code for e in own.extents] == [e and e.code for e in other.extents]
        const = ("const" in own.words) == ("const" in other.words)
        seen = other.end <= place and self.pool._holds(other, place) and other.name != own.name
        return same and const and seen and own.type == other.type and own.pointer == other.pointer

    def _target(self, p: Piece) -> str:
        """The target of an assignment or of `&`: only the expressions inside it may be changed."""
        match p.kind:
            case "subscript_expression":
                array = p.part("argument")
                way = self._target if array.kind != "identifier" else self._identifier
                way = way if self.pool.kind(array) in ("pointer", "") else self._target
                return self._inside(p, argument=way)
            case "parenthesized_expression":
                return self._inside(p) if len(p.parts) != 1 else f"({self._target(p.parts[0])})"
            case "pointer_expression" if p.part("operator").code == "*":
                return self._inside(p)
        return p.code

    def _pointer_expression(self, p: Piece) -> str:
        if p.part("operator").code != "*":
            return self._inside(p, argument=self._target)
        return self._value(p, self._inside(p))

    def _unary_expression(self, p: Piece) -> str:
        text = self._inside(p)
        if p.part("operator").code == "-" and self.pool.kind(p):
            return self._value(p, text)
        return text

    def _conditional_expression(self, p: Piece) -> str:
        return self._value(p, "(" + self._inside(p, condition=self._condition) + ")")

    def _call_expression(self, p: Piece) -> str:
        name, arguments = p.part("function").code, p.part("arguments")
        if name == "asm" or not arguments or arguments.kind != "argument_list":
            return p.code
        own = self.schemata.file.function(name)
        known = self.pool.kind(p)
        if own and any("&" in v.file.text[v.outer.start : v.end] for v in own.parameters):
            return p.code
        given = self._inside(arguments)
        text = p.file.text[p.start : arguments.start] + given
        operations = edits.CALLED.get(name, ()) if not own else ()
        if operations and len(arguments.parts) == 2 and known in ("integer", "float"):
            operations = edits.FLOAT_CALL if known == "float" and operations is edits.CALL else operations
            if operations is not edits.FLOAT_CALL or name.startswith("f"):
                number = self.schemata.add(p, operations)
                if number is not None:
                    text = f"backwarp_call_{name}({number}, " + given[1:]
        return self._value(p, text) if known else text

    def _assignment_expression(self, p: Piece) -> str:
        left, right, sign = p.part("left"), p.part("right"), p.part("operator").code
        target, value = self._target(left), self.write(right)
        plain = f"{target} {sign} {value}"
        if sign not in ASSIGNMENTS or self.pool.kind(left) not in ("integer", "float"):
            return plain
        number = self.schemata.add(p, self.assign, made=self._stored(p))
        return plain if number is None else f"backwarp_{ASSIGNMENTS[sign]}({number}, {target}, {value})"

    def _stored(self, p: Piece) -> Callable[[Choice], Edit]:
        left, sign, right = p.part("left").code, p.part("operator"), p.part("right").code

        def made(choice: Choice) -> Edit:
            operation = self.assign[choice.operation]
            if operation in edits.ASSIGN:
                return Edit(sign.start, sign.end, operation.code.split()[1], operation.says)
            return Edit(p.start, p.end, f"atomicAdd(&{left}, {right})", operation.says)

        return made

    def _binary_expression(self, p: Piece) -> str:
        left, right, sign = p.part("left"), p.part("right"), p.part("operator").code
        kinds = {self.pool.kind(left), self.pool.kind(right)}
        if sign in ("&&", "||"):
            number = self.schemata.add(p, edits.LOGICAL)
            plain = f"{self.write(left)} {sign} {self.write(right)}"
            if number is None:
                return plain
            ways = (f"{left.code} && {right.code}", f"{left.code} || {right.code}", left.code, right.code)
            o = f"backwarp_operation({number})"
            text = f"{o} == 0 ? ({ways[0]}) : {o} == 1 ? ({ways[1]}) : {o} == 2 ? bool({ways[2]}) : bool({ways[3]})"
            return f"({asked(number)} ? ({text}) : ({plain}))"
        written = self.write(left), self.write(right)
        plain = f"{written[0]} {sign} {written[1]}"
        if not kinds <= {"integer", "float", "bool"}:
            return plain
        if sign in RELATIONS:
            number = self.schemata.add(p, edits.RELATION)
            return plain if number is None else f"backwarp_{RELATIONS[sign]}({number}, {', '.join(written)})"
        operations = edits.FLOAT_BINARY if "float" in kinds else edits.BINARY
        number = self.schemata.add(p, operations) if sign in ARITHMETIC else None
        if number is not None:
            plain = f"backwarp_{ARITHMETIC[sign]}({number}, {', '.join(written)})"
        return self._value(p, self._regrouped(p, plain))

    def _regrouped(self, p: Piece, plain: str) -> str:
        """`(x + y) * z` or `x + y * z` with the parentheses elsewhere."""
        if not (texts := _other_groups(p)):
            return plain
        operations = [Operation(text, "an order of operations", is_text=True) for text in texts]

        def made(choice: Choice) -> Edit:
            text = operations[choice.operation].code
            text = f"({text})" if p.outer.kind == "binary_expression" else text
            return Edit(p.start, p.end, text, "an order of operations")

        if (number := self.schemata.add(p, operations, made=made)) is None:
            return plain
        first, second = texts[0], texts[-1]
        others = f"backwarp_operation({number}) ? {second} : {first}"
        return f"({asked(number)} ? ({others}) : {plain})"


def _other_groups(p: Piece) -> list[str]:
    left, sign, right = p.part("left"), p.part("operator").code, p.part("right")
    if sign == "&" and (power := re.fullmatch(r"\(\s*([\w.]+)\s*-\s*1\s*\)", right.code)):
        return [f"{left.code} % {power[1]}"]  # a mask is right for powers of 2 only
    inner = left.bare
    if sign in "*/" and inner != left and inner.kind == "binary_expression":
        x, plus, y = (inner.part(name).code for name in ("left", "operator", "right"))
        others = [f"{x} {sign} {right.code} {plus} {y}", f"{x} {plus} {y} {sign} {right.code}"]
        return others if plus in "+-" else []
    last = left.part("right") if left.kind == "binary_expression" and sign in "+-" else left
    if last.kind == "call_expression" and len(last.part("arguments").parts) == 1 and right.kind != last.kind:
        return [f"{left.code.removesuffix(')')} {sign} {right.code})"]  # f(x - y) for f(x) - y
    if sign == "+" and left.kind == "binary_expression" and left.part("operator").code == "+":
        x, y = left.part("left").code, left.part("right").code
        return [f"{x} + {y} * {right.code}"] if right.kind != "binary_expression" else []
    if sign in "+-" and right.kind == "binary_expression" and right.part("operator").code in "*/":
        y, times, z = (right.part(name).code for name in ("left", "operator", "right"))
        return [f"({left.code} {sign} {y}) {times} {z}"]
    inner = right.bare
    if inner != right and inner.kind == "binary_expression" and sign in ("-", "*", "/", "%"):
        return [f"{left.code} {sign} {inner.code}"]
    return []
