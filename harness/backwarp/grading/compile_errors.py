"""The compiler's messages about a file, with the line, a caret and, if obvious, the remedy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ..cuda.values import tunables
from ..errors import CompileError, Diagnostic
from .compile_braces import braces_left_open
from .compile_remedies import is_syntax, remedy
from .sentences import nth_line, source_line

MOST_ERRORS, MOST_WARNINGS = 3, 2  # messages shown
CAUSES = "before its value is set", "has no effect", "assignment", "missing return", "subscript out of range"


def compile_error(
    error: CompileError, source: str = "", stub: str = "", folders: Sequence[Path] = ()
) -> list[str]:
    """The compiler's first messages, each with its line, a caret and an obvious remedy. stub, folders: see `remedy`."""
    errors = [d for d in error.diagnostics if d.severity == "error"] or list(error.diagnostics)
    if not errors:
        return decimal(str(error)).splitlines()[:8]
    lines, different = [], len(set(map(what, errors)))
    shown = independent(errors, source)
    for d in shown:
        place = f"{d.file}:{d.line}: " if d.line else ""
        message = "; ".join(part.strip() for part in decimal(d.message).splitlines())
        lines.append(f"{place}{d.severity}: {message.replace(':; ', ': ')}")
        lines += source_line(d.line, d.source, d.column)
        text = remedy(d, source, stub, folders)
        if text and text not in lines:
            lines.append(text)
    if different > len(shown):
        lines.append(f"and {different - len(shown)} more; the first is usually the cause of the others.")
    return lines


def what(d: Diagnostic) -> tuple:
    """The same for messages of which one is enough."""
    return d.message, "" if "is undefined" in d.message else d.line


def independent(errors: Sequence[Diagnostic], source: str) -> list[Diagnostic]:
    """The messages to show: each line's first of its kind, none after one about syntax, whose consequences they are."""
    found: dict[tuple, Diagnostic] = {}
    for d in errors:
        found.setdefault(what(d), d)
        if is_syntax(d) or braces_left_open(source):
            break
    return list(found.values())[:MOST_ERRORS]


def decimal(message: str) -> str:
    """Converts the compiler's hexadecimal sizes to decimal."""
    return re.sub(r"0x([0-9a-f]+)(?= bytes\b|,? max\b| max\b)", lambda m: str(int(m[1], 16)), message)


def with_warnings(lines: list[str], warnings: Sequence, source: str, faulted: bool = False) -> list[str]:
    """The explanation of a failure, with the compiler's warnings after what happened: one line, or with a fault two."""
    own = {f'"{name}"' for name in tunables(source)}
    shown = (w for w in reversed(warnings) if w.severity == "warning" and w.line)
    shown = (w for w in shown if not ("never referenced" in w.message and own & {*w.message.split()}))
    found = list({(w.line, w.message): w for w in shown}.values())[::-1]
    found.sort(key=lambda w: not any(cause in w.message for cause in CAUSES))
    more = []
    for w in found[:MOST_WARNINGS]:
        text = w.message.splitlines()[0]
        more.append(f"The compiler warns of line {w.line}: {text}{'.' * (not text.endswith('.'))}")
        more += source_line(w.line, nth_line(source, w.line), w.column)[: 2 if len(found) == 1 else 1]
        more += filter(None, [advice(w)])
    place = next((i for i, line in enumerate(lines) if i and not line.startswith("    ")), len(lines))
    place = min(place + faulted, len(lines))
    if found and not any(cause in found[0].message for cause in CAUSES):
        place = len(lines)
    return lines[:place] + more + lines[place:]


def advice(w: Diagnostic) -> str:
    """What to do about a warning; "" if that is not obvious."""
    rest = w.source[max(w.column - 1, 0) :]
    if "has no effect" not in w.message:
        return ""
    if call := re.match(r"(\w+)\s*;", rest):
        return f"{call[1]} without ( ) is not called." if call[1].startswith("__") else ""
    if re.match(r"\w+\s*==", rest):
        return "== compares: a single = stores."
    return "Of a, b in brackets only b counts: compute one position." if re.match(r"[\w+* -]+,", rest) else ""
