"""Mutants of a solution: mistakes in one place, as a slip of the hand makes them. All of them must fail, except those that
`solutions/equivalent.toml` lists.

    sum += input[b * n_in + i] * w;    sum = input[b * n_in + i] * w;    sum += input[b + i] * w;
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from ..course.mistakes import Mistake
from ..course.stubs import BEGIN, BEGIN_STUB, END
from ..cuda.pieces import Piece, Variable
from ..cuda.text import CudaText, read

Change = tuple[Piece, str]

#: what is written in the place of what: an operator, an assignment, a function, an index of a thread
OTHER = {"+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "<<": ">>", ">>": "<<"}
OTHER |= {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&"}
OTHER |= {"+=": "=", "-=": "+=", "*=": "=", "/=": "*="}
OTHER |= {"fmaxf": "fminf", "fminf": "fmaxf", "max": "min", "min": "max", "expf": "logf", "logf": "expf"}
OTHER |= {"threadIdx": "blockIdx", "blockIdx": "threadIdx", "blockDim": "gridDim", "gridDim": "blockDim"}
#: of two operands, the first may be all that is written
LEFT_OUT = "* / % && ||".split()


@dataclass(frozen=True)
class Mutant(Mistake):
    """edit: the number of a line of the solution, and what stands there."""

    def apply(self, solution: str) -> str:
        lines = solution.split("\n")
        lines[self.edit[0] - 1] = self.edit[1]
        return "\n".join(lines)


def mutants(solution: str, kernel: str) -> tuple[Mutant, ...]:
    """All of one kernel, and of the functions that a student writes for it, in the order of their lines. A mutant is named
    by its line."""
    file, found, seen = read(solution), [], Counter()
    for function in file.functions:
        if function.is_kernel and function.name != kernel:
            continue
        for piece, new in changes(file, function.body):
            first, last = solution.rfind("\n", 0, piece.start) + 1, solution.find("\n", piece.end)
            line = solution[first : piece.start] + new + solution[piece.end : last]
            if "\n" not in line and is_written(file, piece):
                name = line.split("//")[0].strip().removeprefix(";") or f"without {piece.code}"
                seen[name] += 1
                name += f" #{seen[name]}" * (seen[name] > 1)
                found.append(Mutant(name, (piece.line, line), kernel=kernel))
    return tuple(sorted(found, key=lambda m: m.edit[0]))


def of_program(solution: str) -> tuple[Mutant, ...]:
    """Of a program in Python: a call left out, or two of its arguments exchanged."""
    lines, found = solution.split("\n"), []
    written = [line.strip() in (BEGIN.replace("//", "#"), END.replace("//", "#")) for line in lines]
    for function in (f for f in ast.parse(solution).body if isinstance(f, ast.FunctionDef)):
        for node in ast.walk(function):
            changed = [(node, node, "pass", "")] if isinstance(node, ast.Expr) else []
            if isinstance(node, ast.Call):
                changed = [(a, b, *map(ast.unparse, (b, a))) for a, b in pairwise(node.args)]
            for a, b, first, last in changed:
                line = lines[a.lineno - 1]
                between = line[a.end_col_offset : b.col_offset] if a is not b else ""
                text = line[: a.col_offset] + first + between + last + line[b.end_col_offset :]
                if a.lineno == b.end_lineno and sum(written[: a.lineno]) % 2:
                    found.append(
                        Mutant(f"line {a.lineno} as {text.strip()}", (a.lineno, text), kernel=function.name)
                    )
    return tuple(found)


def is_written(file: CudaText, piece: Piece) -> bool:
    """Whether a student writes this line, or has to look at it."""
    before = file.text[: piece.start]
    return before.rfind(BEGIN) > before.rfind(END) or BEGIN_STUB in file.text


def changes(file: CudaText, body: Piece) -> Iterator[Change]:
    sizes = [n for d in body.all("array_declarator") for n in d.all("number_literal", "binary_expression")]
    larger = {
        (n.start, n.end) for n in sizes if n.kind == "number_literal" or n.part("operator").code in "/%"
    }
    for p in body.all("binary_expression", "assignment_expression"):
        if (p.start, p.end) not in larger:  # a larger array is right
            yield from of_operator(p)
    for p in body.all("number_literal"):
        if (p.start, p.end) not in larger:
            yield from of_number(p)
    for p in body.all("identifier"):
        yield from of_name(file, p)
    for p in body.all("field_expression"):
        if p.code.startswith("blockDim."):
            yield p, "64"
    for p in body.all("init_declarator"):
        if p.part("value").kind == "number_literal" and p.outer.outer.kind == "compound_statement":
            yield p, p.part("declarator").code
    for p in body.all("expression_statement", "if_statement"):
        if p.kind == "expression_statement" or p.part("consequence").kind == "return_statement":
            yield p, ";"
    for p in body.all("conditional_expression"):
        yield p, p.part("consequence").code


def of_operator(p: Piece) -> Iterator[Change]:
    sign = p.part("operator")
    if sign.code in OTHER:
        yield sign, OTHER[sign.code]
    if p.kind == "binary_expression" and sign.code in LEFT_OUT:
        yield p, p.part("left").code
    if sign.code in ("&&", "||"):
        yield p, p.part("right").code


def of_number(p: Piece) -> Iterator[Change]:
    if re.fullmatch(r"\d+", p.code):
        yield p, str(int(p.code) + 1)
    elif p.code in ("0.0f", "1.0f"):
        yield p, "1.0f" if p.code == "0.0f" else "0.0f"


def of_name(file: CudaText, p: Piece) -> Iterator[Change]:
    """Another name: of those of its type that are known there, the one declared before it."""
    if p.code in OTHER:
        yield p, OTHER[p.code]
    own = file.variable_at(p.code, p.start)
    if own is None or p.start == own.start or "constexpr" in own.words:
        return
    alike = sorted(
        (v for v in file.names_at(p.start).values() if kind(v) == kind(own)), key=lambda v: v.start
    )
    other = alike[alike.index(own) - 1]
    if other != own:
        yield p, other.name


def kind(v: Variable) -> tuple:
    return v.type, v.pointer, len(v.extents), "const" in v.words, "constexpr" in v.words
