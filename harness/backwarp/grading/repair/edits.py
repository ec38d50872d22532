"""What a repair may change, and how the change looks in the file.

An operation is a C++ expression over the operands of the edited place: `e`, the original expression, or its
two sides `l` and `r`, and the inserted variables `a` and `b`. The same text is compiled (schemata.py) and
shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from os.path import commonprefix

from ...cuda.pieces import Piece

#: binary operators from the loosest to the tightest
_LEVELS = ("||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<< >>", "+ -", "* / %")
PRECEDENCE = {op: level for level, ops in enumerate(_LEVELS, 1) for op in ops.split()} | {"?": 0.5, ":": 0.5}
UNARY, ATOM = 11, 12
_UNARY_KINDS = ("unary_expression", "cast_expression", "pointer_expression", "update_expression")
_GUARD = re.compile(r"if \((.*)\) ((?:return; |continue; |break; )?)")
_WORD = re.compile(r"\b[eablr]\b")


@dataclass(frozen=True)
class Operation:
    """code: see above. says: the kind of change. cost: smaller ones are tried sooner. is_text: the code is
    text of the file, in which `a` is a variable of that name."""

    code: str
    says: str
    cost: float
    is_text: bool = False

    @cached_property
    def operands(self) -> frozenset[str]:
        return frozenset(() if self.is_text else _WORD.findall(self.code))


def _operations(says: str, *pairs: tuple[str, float]) -> tuple[Operation, ...]:
    return tuple(Operation(code, says, cost) for code, cost in pairs)


ROUNDED_UP = "(e + a - 1) / a"  # how many tiles or blocks there are
INTEGER = (
    *_operations("another value", ("a", 1.0)),
    *_operations("a term", ("e + a", 1.5), ("e - a", 1.5), ("a - e", 2.2)),
    *_operations("a factor", ("e * a", 1.7), ("e / a", 2.0), ("e % a", 2.9)),
    *_operations("a term", ("a * b + e", 1.7), ("e * a + b", 2.8), ("a - b - e", 3.4), ("e - a * b", 3.6)),
    *_operations("another value", ("a * b", 3.5), ("a + b", 3.5), ("a - b", 3.6)),
    *_operations("a factor", ("e * a * b", 1.7)),
    *_operations("a term", ("a - 1 - e", 2.2)),
    *_operations("a bound", ("min(e, a)", 2.4), ("max(e, a)", 1.7)),
    *_operations("a factor", (ROUNDED_UP, 1.6)),
)
FLOAT = (
    *_operations("another value", ("a", 1.2), ("-e", 1.5)),
    *_operations("a term", ("e + a", 2.0), ("e - a", 2.0)),
    *_operations("a factor", ("e * a", 2.0), ("e / a", 2.2)),
)
BINARY = (
    *_operations(
        "an operator", ("l + r", 1.0), ("l - r", 1.0), ("l * r", 1.0), ("l / r", 1.2), ("l % r", 1.2)
    ),
    *_operations(
        "an operator", ("l & r", 2.0), ("l | r", 2.0), ("l ^ r", 2.0), ("l << r", 2.0), ("l >> r", 2.0)
    ),
    *_operations("a term or factor", ("l", 0.9), ("r", 0.9)),
    *_operations("an operator", ("(l + r - 1) / r", 1.2)),
)
FLOAT_BINARY = tuple(o for o in BINARY if not re.search(r"[%&|^<>]|1", o.code))
RELATION = (
    *_operations("a comparison", ("l < r", 0.9), ("l <= r", 0.9), ("l > r", 0.9), ("l >= r", 0.9)),
    *_operations("a comparison", ("l == r", 1.0), ("l != r", 1.0)),
)
FLOAT_RELATION = (
    *RELATION,
    *_operations("a comparison", ("l > r || isnan(l)", 1.8), ("l < r || isnan(l)", 1.9)),
)
LOGICAL = (
    *_operations("a logical operator", ("l && r", 1.0), ("l || r", 1.0)),
    *_operations("a condition", ("l", 1.5), ("r", 1.5)),
)
CONDITION = (
    *_operations("a condition", ("!e", 1.3), ("true", 2.4), ("false", 2.4)),
    *_operations("a condition", ("e && a < b", 2.6), ("e || a >= b", 2.6), ("e && a >= b", 2.8)),
    *_operations("a condition", ("e || a < b", 2.8), ("e && a == b", 3.0), ("e || a != b", 3.0)),
    *_operations("a condition", ("e && a != b", 3.0), ("e || a == b", 3.0)),
    *_operations("a condition", ("a < b", 2.9), ("a >= b", 3.0)),
    *_operations("a condition", ("e || a < 0 || a >= b", 2.7), ("e && a >= 0 && a < b", 2.7)),
)
#: of a condition that reads memory: asked before it is evaluated
BEFORE = _operations("a condition", ("a < b && e", 2.6), ("a >= 0 && a < b && e", 2.7))
GUARD = (
    *_operations("a statement too many", ("false", 0.95)),
    *_operations("a guard", ("a < b", 2.6), ("a >= b", 2.8), ("a == b", 2.8), ("a != b", 3.0)),
    *_operations("a guard", ("a >= 0 && a < b", 2.9), ("a < 0 || a >= b", 2.9)),
)
CHOSEN = _operations("a choice", ("a < b", 2.4), ("a >= 0 && a < b", 2.6), ("a >= b", 2.8))  # or else 0
CALL = (  # of functions with two arguments
    *_operations("a function", ("min(l, r)", 1.1), ("max(l, r)", 1.1), ("l", 1.2), ("r", 1.2)),
    *_operations("a function", ("l + r", 1.2), ("l - r", 1.3), ("l * r", 1.3)),
)
CALLED = {"min": CALL, "max": CALL}
FLOAT_CALL = tuple(replace(o, code=o.code.replace("min", "fminf").replace("max", "fmaxf")) for o in CALL)
CALLED |= {"fminf": FLOAT_CALL, "fmaxf": FLOAT_CALL}
ASSIGN = (
    *_operations("how it is stored", ("l = r", 1.0), ("l += r", 1.0), ("l -= r", 1.1), ("l *= r", 1.2)),
    *_operations("how it is stored", ("l /= r", 1.2)),
)
EXCHANGE = Operation("exchanged", "two that are exchanged", 0.8)  # the names of two declarations
PARAMETERS = Operation("exchanged", EXCHANGE.says, 0.85)  # of a kernel
ELSE_ZERO = Operation("zero", "a choice", 1.6)  # stored where a condition does not hold
STORE = Operation("to[a] = b", "a store", 1.2)
LEAVE = 0.8  # the cost of another way to leave
ATOMIC = Operation("atomicAdd(&l, L(r))", "how it is stored", 1.3)
BARRIERS = (Operation("__syncthreads();", "a barrier", 1.0), Operation("__syncwarp();", "a barrier", 1.4))


@dataclass(frozen=True)
class Edit:
    """`text[start:end]` replaced by `after`. says: the kind of change."""

    start: int
    end: int
    after: str
    says: str

    def apply(self, text: str) -> str:
        return text[: self.start] + self.after + text[self.end :]


def joined(edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """Two guards at one place become one, `if (row < M && col < N)`, and so do two additions to a
    condition."""
    if len(edits) < 2 or len({(e.start, e.end) for e in edits}) > 1:
        return tuple(edits)
    found = [_GUARD.fullmatch(e.after) for e in edits]
    if not all(found):
        first, *others = edits
        same = re.match(r".*(?:&&|\|\|)", commonprefix([e.after for e in edits]), re.DOTALL)
        if same is None:
            return _before_one(edits)
        more = "".join(same[0][-3:] + e.after[same.end() :] for e in others)
        return (replace(first, after=first.after + more),)
    sign = " || " if found[0][2] else " && "
    return (replace(edits[0], after=f"if ({sign.join(f[1] for f in found)}) {found[0][2]}"),)


def _before_one(edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """`a < b && e` and `c < d && e` become `a < b && c < d && e`."""
    first, *others = edits
    rest = commonprefix([e.after[::-1] for e in edits])[::-1]
    at = rest.find(" && ")
    if at < 0:
        return tuple(edits)
    tests = [e.after[: len(e.after) - len(rest) + at] for e in edits]
    return (replace(first, after=" && ".join(tests) + rest[at:]),)


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
