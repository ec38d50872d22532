"""What a repair may change, and how the change looks in the file.

An operation is a C++ expression over the operands of the edited place: `e`, the original expression, or its
two sides `l` and `r`, and the inserted variables `a` and `b`. The same text is compiled (schemata.py) and
shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache, cached_property

from ...cuda.pieces import Piece

#: binary operators from the loosest to the tightest
_LEVELS = ("||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<< >>", "+ -", "* / %")
PRECEDENCE = {op: level for level, ops in enumerate(_LEVELS, 1) for op in ops.split()} | {"?": 0.5, ":": 0.5}
UNARY, ATOM = 11, 12
LEVEL = 0.6  # what an operation of the next level costs more
_UNARY_KINDS = ("unary_expression", "cast_expression", "pointer_expression", "update_expression")
_WORD = re.compile(r"\b[eablr]\b")


@dataclass(frozen=True)
class Operation:
    """code: see above. says: the kind of change. level: higher ones come later. is_text: `a` in it is a name of the file."""

    code: str
    says: str
    level: int = 0
    is_text: bool = False

    @property
    def cost(self) -> float:
        return 1 + LEVEL * self.level

    @cached_property
    def operands(self) -> frozenset[str]:
        return frozenset(() if self.is_text else _WORD.findall(self.code))


def _operations(*rows: tuple) -> tuple[Operation, ...]:
    """Of rows of a level, a kind of change, and codes."""
    return tuple(Operation(code, says, level) for level, says, *codes in rows for code in codes)


INTEGER = _operations(
    (0, "another value", "a"),
    (1, "a term", "e + a", "e - a", "a * b + e"),
    (1, "a factor", "e * a"),
    (1, "a bound", "min(e, a)"),
    (2, "a term", "a - e", "a - 1 - e"),
    (2, "a factor", "e / a"),
    (2, "a bound", "max(e, a)"),
    (3, "a factor", "e % a"),
    (3, "a term", "e * a + b"),
    (4, "a term", "a - b - e", "e - a * b"),
    (4, "another value", "a * b", "a + b", "a - b"),
)
FLOAT = _operations(
    (0, "another value", "a"),
    (1, "another value", "-e"),
    (2, "a term", "e + a", "e - a"),
    (2, "a factor", "e * a", "e / a"),
)
BINARY = _operations(
    (0, "an operator", "l + r", "l - r", "l * r", "l / r", "l % r", "(l + r - 1) / r"),
    (0, "a term or factor", "l", "r"),
    (2, "an operator", "l & r", "l | r", "l ^ r", "l << r", "l >> r"),
)
FLOAT_BINARY = tuple(o for o in BINARY if not re.search(r"[%&|^<>]|1", o.code))
RELATION = _operations((0, "a comparison", "l < r", "l <= r", "l > r", "l >= r", "l == r", "l != r"))
LOGICAL = _operations((0, "a logical operator", "l && r", "l || r"), (1, "a condition", "l", "r"))
CONDITION = _operations(
    (0, "a condition", "!e", "true", "false"),
    (3, "a condition", "e && a < b", "e || a >= b", "e && a >= b", "e || a < b"),
    (3, "a condition", "e && a == b", "e || a != b", "e && a != b", "e || a == b"),
    (3, "a condition", "e || a < 0 || a >= b", "e && a >= 0 && a < b", "a < b", "a >= b"),
)
TOO_MANY = Operation("false", "a statement too many")
CALL = _operations((0, "a function", "min(l, r)", "max(l, r)", "l", "r", "l + r", "l - r", "l * r"))
FLOAT_CALL = tuple(replace(o, code=o.code.replace("min", "fminf").replace("max", "fmaxf")) for o in CALL)
CALLED = dict(min=CALL, max=CALL, fminf=FLOAT_CALL, fmaxf=FLOAT_CALL)  # functions of two arguments
ASSIGN = _operations((0, "how it is stored", "l = r", "l += r", "l -= r", "l *= r", "l /= r"))
MOVED = Operation("moved", "a statement elsewhere", -1)
EXCHANGE = Operation("exchanged", "two that are exchanged")  # the names of two declarations
ELSE_ZERO = Operation("zero", "a choice", 1)  # stored where a condition does not hold
ATOMIC = Operation("atomicAdd(&l, L(r))", "how it is stored", 1)
BARRIERS = Operation("__syncthreads();", "a barrier"), Operation("__syncwarp();", "a barrier", 1)


@dataclass(frozen=True)
class Edit:
    """`text[start:end]` replaced by `after`. says: the kind of change."""

    start: int
    end: int
    after: str
    says: str

    def apply(self, text: str) -> str:
        return text[: self.start] + self.after + text[self.end :]


def replaced(piece: Piece, operation: Operation, *names: str) -> Edit:
    """The edit that replaces an expression by an operation. names: what a, b and c are."""
    operands = {letter: (name, strength_of(name)) for letter, name in zip("ab", names)}
    operands["e"] = _operand(piece)
    if sides := sides_of(piece):
        operands |= dict(zip("lr", map(_operand, sides)))
    text, strength = filled(operation.code, operands)
    if operation.code == "-e" and piece.kind == "unary_expression":  # the sign was superfluous
        text, strength = _operand(piece.part("argument"))
    doubled = text[0] in "-+" and piece.file.text[: piece.start].endswith(text[0])
    if strength < _needed(piece) or doubled:
        text = f"({text})"
    return Edit(piece.start, piece.end, text, operation.says)


def filled(code: str, operands: dict[str, tuple[str, int]]) -> tuple[str, int]:
    """(the code with its operands, in parentheses if needed; its precedence)."""
    parts = re.split(r"(\b[eablr]\b)", code)
    strengths = [PRECEDENCE[sign] for sign in code.split() if sign in PRECEDENCE]
    for i in range(1, len(parts), 2):
        text, strength = operands[parts[i]]
        before, after = parts[i - 1].split()[-1:], parts[i + 1].split()[:1]
        before, after = (PRECEDENCE.get("".join(sign), 0) for sign in (before, after))
        if parts[i - 1].endswith(("-", "!")) and not before:
            before = UNARY
        wrong = strength < max(before, after) or strength == before and before < UNARY
        parts[i] = f"({text})" if wrong else text
    weakest = min(strengths, default=UNARY if code[0] in "-!" else ATOM)
    return "".join(parts), operands[code][1] if code in operands else weakest


def sides_of(piece: Piece) -> tuple[Piece, ...]:
    """The two operands of an operator, or the arguments of a call."""
    if left := piece.part("left"):
        return left, piece.part("right")
    arguments = piece.part("arguments")
    return tuple(arguments.parts) if arguments and arguments.kind == "argument_list" else ()


@cache
def strength_of(text: str) -> float:
    """The precedence of inserted code, by its operators outside all brackets."""
    depth, strength = 0, UNARY if text.startswith("-") else ATOM
    for word in re.findall(r"[\[\](){}]|\s\S+\s", text):
        depth += word in "([{"
        depth -= word in ")]}"
        if not depth and word.strip() in PRECEDENCE:
            strength = min(strength, PRECEDENCE[word.strip()])
    return strength


def _operand(piece: Piece) -> tuple[str, int]:
    return piece.code, _strength(piece)


def _strength(piece: Piece) -> int:
    """The precedence of an expression."""
    if piece.kind == "binary_expression":
        return PRECEDENCE.get(piece.part("operator").code, 0)
    if piece.kind in ("conditional_expression", "assignment_expression", "comma_expression"):
        return 0
    return UNARY if piece.kind in _UNARY_KINDS else ATOM


def _needed(piece: Piece) -> int:
    """The precedence that an expression needs to replace this one without parentheses."""
    outer = piece.outer
    if outer is None:
        return 0
    if outer.kind == "binary_expression":
        return PRECEDENCE.get(outer.part("operator").code, 0) + (outer.part("right") == piece)
    if outer.kind in _UNARY_KINDS:
        return UNARY
    if outer.kind == "conditional_expression":
        return 1
    return ATOM if outer.kind in ("field_expression", "subscript_expression", "call_expression") else 0
