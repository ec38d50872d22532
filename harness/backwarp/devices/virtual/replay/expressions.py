"""Expressions of C over what a thread sees at a moment: variables, threadIdx and the like, elements of arrays."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping

_TO_PYTHON = (
    (r"&&", " and "),
    (r"\|\|", " or "),
    (r"!(?!=)", " not "),
    (r"\b(\d[\d.]*(?:[eE][+-]?\d+)?)[fFuUlL]+\b", r"\1"),
)
_COMPARISONS = {
    **{ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le},
    **{ast.Gt: operator.gt, ast.GtE: operator.ge},
}
_UNARY = {ast.Not: operator.not_, ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert}


def _shifted(a, b):
    if not 0 <= b < 64:
        raise ArithmeticError(f"a shift by {b} bits has no value")
    return a << b


def _divided(a, b):
    """As C divides: whole numbers toward zero."""
    if isinstance(a, float) or isinstance(b, float):
        return a / b
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_BINARY: dict[type, Callable] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: _divided},
    **{ast.Mod: lambda a, b: a - b * _divided(a, b), ast.LShift: _shifted, ast.RShift: operator.rshift},
    **{ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor},
}


class Expression:
    """Errors of `value`: LookupError for a name, or an element, that there is not now; ValueError for what is not an expression,
    of the constructor too; ArithmeticError, TypeError."""

    def __init__(self, text: str):
        for pattern, new in _TO_PYTHON:
            text = re.sub(pattern, new, text)
        try:
            self.tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ValueError(f"{text.strip()} is not an expression") from None

    def value(self, names: Mapping[str, object], element: Callable[[str, list[int]], object]) -> object:
        """names: of variables, with threadIdx and the like as dicts. element: of an array, by name and indices, or a flat one."""
        return _Walk(names, element).value(self.tree)


class _Walk:
    def __init__(self, names: Mapping[str, object], element: Callable[[str, list[int]], object]):
        self.names, self.element = names, element

    def value(self, node: ast.expr) -> object:
        match node:
            case ast.Constant(value=bool() | int() | float() as found):
                return found
            case ast.Name(id=name):
                return self.names[name]
            case ast.Attribute(value=inner, attr=field):
                return self.value(inner)[field]
            case ast.Subscript():
                return self._indexed(node)
            case ast.BoolOp(op=op, values=values):
                return (all if isinstance(op, ast.And) else any)(bool(self.value(v)) for v in values)
            case ast.UnaryOp(op=op, operand=inner):
                return _UNARY[type(op)](self.number(inner))
            case ast.BinOp(left=a, op=op, right=b) if type(op) in _BINARY:
                return _BINARY[type(op)](self.number(a), self.number(b))
            case ast.Compare(left=a, ops=ops, comparators=others) if all(
                type(op) in _COMPARISONS for op in ops
            ):
                values = [self.value(v) for v in (a, *others)]
                pairs = zip(ops, values[:-1], values[1:], strict=True)
                return all(_COMPARISONS[type(op)](x, y) for op, x, y in pairs)
        raise ValueError(f"{ast.unparse(node)} is not an expression that can be followed")

    def number(self, node: ast.expr) -> int | float:
        found = self.value(node)
        if not isinstance(found, int | float):
            raise TypeError(f"{ast.unparse(node)} is {'unset' if found is None else 'no number'}")
        return found

    def _indexed(self, node: ast.Subscript) -> object:
        """`a[i]`, `tile[i][j]`, `tile[i, j]`: of a local array, or of one in memory, to which a pointer may point."""
        base, indices = node, []
        while isinstance(base, ast.Subscript):
            parts = base.slice.elts if isinstance(base.slice, ast.Tuple) else [base.slice]
            indices = [*(int(self.value(p)) for p in parts), *indices]
            base = base.value
        held = self.names.get(base.id, base.id) if isinstance(base, ast.Name) else self.value(base)
        if not isinstance(held, str):
            for i in indices:
                held = held[i]
            return held
        name, _, plus = held.partition(" + ")
        return self.element(name, [*indices[:-1], indices[-1] + int(plus or 0)])
