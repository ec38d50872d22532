"""Semicolons and braces: the line to correct may precede the one where the compiler noticed."""

from __future__ import annotations

import re

from ..cuda.text import read
from ..errors import Diagnostic


def wrong_line(d: Diagnostic, source: str) -> int:
    """The line to correct, which may precede the one where the compiler noticed; 0 if unknown."""
    if d.column and not d.source[: d.column - 1].strip():
        before = [token for token in read(source).tokens if token.last_line < d.line]
        unfinished = before and re.search(r"[\w)\]]$", before[-1].code)
        odd = unfinished and re.search("type name is not allowed|expected an expression", d.message)
        if 'expected a ";"' in d.message or odd:
            return before[-1].last_line if before else d.line
    left = braces_left_open(source)
    return 0 if left < 0 or left > 0 and 'expected a "}"' in d.message else d.line


def braces_left_open(source: str) -> int:
    """How many more { than } a file has, outside comments and strings; 0 if a string has no end."""
    tokens = read(source).tokens
    if any(t.kind != "char_literal" and t.code.count('"') == 1 for t in tokens):
        return 0
    words = [t.code for t in tokens]
    return words.count("{") - words.count("}")


def pairs(source: str) -> list[tuple[int, int, int]]:
    """(line of the {, line of its }, braces around it) of each pair, in the order of the }."""
    found, left = [], []
    for token in read(source).tokens:
        if token.code == "{":
            left.append(token.line)
        elif token.code == "}" and left:
            found.append((left.pop(), token.line, len(left)))
    return found


def unclosed_brace(source: str) -> str:
    """A } is missing: before the first that is indented otherwise than what it closes."""
    lines = read(source).lines
    for opened, closed, around in pairs(source):
        depth = [len(lines[n - 1]) - len(lines[n - 1].lstrip()) for n in (opened, closed)]
        alone = opened < closed and lines[closed - 1].lstrip().startswith("}")
        if alone and (depth[0] if around else 0) > depth[1]:
            return f"A }} is missing: the one in line {closed} closes the {{ of line {opened}, which is indented further."
    return "A } is missing: every { needs its own }."


def too_many_closed(source: str) -> str:
    """There are more } than {."""
    outer = [closed for _, closed, around in pairs(source) if not around]
    lines = read(source).lines
    early = next((n for n in outer if lines[n - 1][:1].isspace()), 0)
    if early:
        return f"There are more }} than {{: the one in line {early} closes the kernel; or a {{ before it is missing."
    return "There are more } than {: one of them closes the kernel, or a block inside it, too early."
