"""The compiler's messages about a file, with the line, a caret and, if obvious, the remedy."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from ..course.cuda_pieces import Piece
from ..course.cuda_text import read
from ..errors import CompileError, Diagnostic
from .sentences import nth_line, source_line

MOST_ERRORS, MOST_WARNINGS = 3, 2  # messages shown
CAUSES = (
    "before its value is set",
    "has no effect",
    "assignment",
    "missing return",
    "subscript out of range",
)


def compile_error(error: CompileError, source: str = "") -> list[str]:
    """The compiler's first messages, each with its line, a caret and, if it is obvious, the remedy."""
    errors = [d for d in error.diagnostics if d.severity == "error"] or list(error.diagnostics)
    if not errors:
        return decimal(str(error)).splitlines()[:8]
    lines = []
    for d in errors[:MOST_ERRORS]:
        place = f"{d.file}:{d.line}: " if d.line else ""
        message = "; ".join(part.strip() for part in decimal(d.message).splitlines())
        lines.append(f"{place}{d.severity}: {message.replace(':; ', ': ')}")
        lines += source_line(d.line, d.source, d.column)
        text = remedy(d, source)
        if text and text not in lines:
            lines.append(text)
    if len(errors) > MOST_ERRORS:
        lines.append(f"and {len(errors) - MOST_ERRORS} more; the first is usually the cause of the others.")
    return lines


def decimal(message: str) -> str:
    """Converts the compiler's hexadecimal sizes to decimal."""
    return re.sub(r"0x([0-9a-f]+)(?= bytes\b|,? max\b| max\b)", lambda m: str(int(m[1], 16)), message)


REMEDIES = (
    (
        r"without execution space",
        "Mark a helper that the kernel calls as __device__; main and other host code do not belong here.",
    ),
    (r"modifiable lvalue", "{name} is const, so it can only be read: write to the output instead."),
    (r"\buint3\b|\bdim3\b", "Write the axis too: blockIdx.x, threadIdx.x, blockDim.x or gridDim.x."),
    (
        r"pointer-to-object type",
        "Arrays are flat here: compute the element's position and write {name}[position].",
    ),
    (
        r'namespace "std"|followed by "::"|"(std|cout|endl)" is undefined',
        "There is no std in a kernel; print with printf.",
    ),
    (r'expected a "}"', "A } is missing: every { needs its own }."),
    (
        r"size of an array must be greater",
        "What stands in the brackets is 0 or less: see where {name} is set.",
    ),
    (
        r'"(max|min)" matches[^:]*:[^:]*: \(.*(float|double)',
        "Both arguments of {name} must have one type: write f{name}f, or {name}(a, 0.0f) with 0.0f for 0.",
    ),
    (
        r"more than one instance of overloaded",
        "Give the arguments of {name} types that fit only one of these functions, as in (float)x or 2.0f.",
    ),
    (
        r"no instance of overloaded",
        "No function {name} takes these arguments: compare their number and their types with what it takes.",
    ),
)


def remedy(d: Diagnostic, source: str = "") -> str:
    """What to do about a compiler message; "" if that is not obvious."""
    odd = next((c for c in d.source if ord(c) > 127), "")
    if odd and re.search(r"unrecognized token|invalid|identifier|expected", d.message):
        what = "a no-break space" if odd == "\xa0" else f"the character {odd}"
        quotes = "; write plain quotes" if odd in "\u201c\u201d\u2018\u2019" else ""
        return f"The line has U+{ord(odd):04X}, {what}, as copied from a web page: retype it{quotes}."
    line = wrong_line(d, source)
    if line and line != d.line:
        return f"The ; is missing at the end of line {line}."
    if braces_left_open(source) < 0:
        return "There are more } than {: one of them closes the kernel, or a block inside it, too early."
    if undefined := re.search(r'identifier "(\w+)" is undefined', d.message):
        if near := meant(undefined[1], d.line, source):
            return near
    for pattern, text in REMEDIES:
        if re.search(pattern, d.message):
            name = re.match(r"\w*", d.source[max(d.column - 1, 0) :])[0]
            return text.format(name=name or "it") if "{name}" in text else text
    return ""


def meant(name: str, line: int, source: str) -> str:
    """The name probably meant by an undefined one; "" if none is similar."""
    if re.fullmatch(r"__(shfl(_up|_down|_xor)?|any|all|ballot)", name):
        return f"It needs a mask of the lanes that take part: {name}_sync(0xffffffff, ...)."
    file = read(source)
    known = file.names_at(file.line_start(line) if 0 < line <= len(file.lines) else 0)
    known = [*known, *(f.name for f in file.functions), *(m.name for m in file.macros)]
    if later := [v for v in file.variables if v.name == name]:
        ended = [v for v in later if v.line <= line]
        if ended and (loop := file.piece(ended[-1].scope)).kind == "for_statement" and unbraced(loop):
            return f"{name} belongs to the loop in line {loop.line}, which has no braces: only one statement is in it."
        if ended:
            return (
                f"The block in which line {ended[-1].line} declares {name} ends before line {line}: declare it before that "
                "block."
            )
        return f"{name} is declared only in line {later[0].line}."
    same = [n for n in known if n.lower() == name.lower()]
    near = same or difflib.get_close_matches(name, [n for n in known if len(n) > 2], n=1, cutoff=0.75)
    if not near:
        typed = re.match(rf"\s*{name}\s*=[^=]", file.lines[line - 1]) if 0 < line <= len(file.lines) else None
        return (
            f"A variable is declared with its type where it is first set, as in int {name} = ..."
            if typed
            else ""
        )
    how = ": capital and small letters are different" if same else ""
    return f"Do you mean {near[0]}{how}?"


def unbraced(loop: Piece) -> bool:
    body = loop.part("body")
    return bool(body) and (
        body.kind == "expression_statement" or body.kind == "for_statement" and unbraced(body)
    )


def wrong_line(d: Diagnostic, source: str) -> int:
    """The line to correct, which may precede the one where the compiler noticed; 0 if unknown."""
    if 'expected a ";"' in d.message and d.column and not d.source[: d.column - 1].strip():
        return max(
            (token.last_line for token in read(source).tokens if token.last_line < d.line), default=d.line
        )
    left = braces_left_open(source)
    return 0 if left < 0 or left > 0 and 'expected a "}"' in d.message else d.line


def braces_left_open(source: str) -> int:
    """How many more { than } a file has, outside comments and strings; 0 if a string has no end."""
    tokens = read(source).tokens
    if any(t.kind != "char_literal" and t.code.count('"') == 1 for t in tokens):
        return 0
    words = [t.code for t in tokens]
    return words.count("{") - words.count("}")


def with_warnings(lines: list[str], warnings: Sequence, source: str) -> list[str]:
    """The explanation of a failure, with the compiler's warnings inserted after its first line."""
    found = [w for w in warnings if w.severity == "warning" and w.line]
    found.sort(key=lambda w: not any(cause in w.message for cause in CAUSES))
    told = []
    for w in found[:MOST_WARNINGS]:
        text = w.message.splitlines()[0]
        told.append(f"The compiler warns of line {w.line}: {text}{'.' * (not text.endswith('.'))}")
        told += source_line(w.line, nth_line(source, w.line), w.column)[: 2 if len(found) == 1 else 1]
    place = next((i for i, line in enumerate(lines) if i and not line.startswith("    ")), len(lines))
    if found and not any(cause in found[0].message for cause in CAUSES):
        place = len(lines)
    return lines[:place] + told + lines[place:]
