"""A puzzle's stub: the solution without the parts between marker lines; also its first task."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..errors import CourseError
from .parameters import require

if TYPE_CHECKING:
    from .declare import Puzzle

BEGIN, END = "// BEGIN SOLUTION", "// END SOLUTION"
BEGIN_STUB, END_STUB = "// BEGIN STUB", "// END STUB"


def stub_text(puzzle: Puzzle) -> str:
    """The untouched stub: the solution without the parts between the marker lines."""
    path = puzzle.solution_path if puzzle.has_solution else puzzle.pristine_path
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as e:
        raise CourseError(f"{path} cannot be read ({e.strerror}); it is part of the course") from None
    return strip_solution(text, str(path)) if puzzle.has_solution else text


def solution_lines(puzzle: Puzzle) -> list[str]:
    """The non-blank lines that the stub lacks."""
    text = puzzle.solution_path.read_text(encoding="utf-8")
    parts = re.findall(r"(?://|#) BEGIN SOLUTION\n(.*?)(?://|#) END SOLUTION", text, re.DOTALL)
    return [line.strip() for part in parts for line in part.splitlines() if line.strip()]


def strip_solution(text: str, name: str = "kernel.cu") -> str:
    """`text` without the lines from `// BEGIN SOLUTION` to `// END SOLUTION`; at least one pair.

    The comments from `// BEGIN STUB` to `// END STUB` become the stub's code. In Python, comments begin with
    `#`.
    """
    kept, begun, pairs = [], "", 0
    partners = {BEGIN: END, BEGIN_STUB: END_STUB}
    slashes = "#" if name.endswith(".py") else "//"
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        mark = line.strip().replace(slashes, "//", 1)
        if mark in partners or mark in partners.values():
            fits = mark == partners[begun] if begun else mark in partners
            require(fits, f"{name}:{number}: {mark!r} without its partner")
            pairs += mark == END
            begun = "" if begun else mark
        elif begun == BEGIN_STUB:
            require(mark.startswith("//"), f"{name}:{number}: a line of the stub must be a comment: {mark!r}")
            kept.append(re.sub(f"{slashes} ?", "", line, count=1))
        elif not begun:
            kept.append(line)
    require(not begun, f"{name}: {begun!r} without {partners.get(begun)!r}")
    require(pairs, f"{name}: no {BEGIN!r} line, so the stub cannot be derived from it")
    return "".join(kept)


def first_task(source: str) -> tuple[int, str] | None:
    """(line, text) of the comment `TODO(1): ...` of a kernel or program, which may span lines; None if there
    is none."""
    todo = re.search(r"(?://|#)\s*(TODO\(1\)[^\n]*(?:\n[ \t]*(?://|#)(?!\s*TODO)[^\n]+)*)", source)
    if not todo:
        return None
    return source.count("\n", 0, todo.start()) + 1, " ".join(re.sub(r"\n\s*(?://|#)", " ", todo[1]).split())
