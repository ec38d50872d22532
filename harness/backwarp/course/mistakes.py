"""Mistakes: the wrong kernels that a puzzle knows, each an edit of the solution.

What a mistake computes is found by running it, so there are no results to keep up to date.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..cuda.text import edited, read
from ..errors import CourseError

SHARED_LINE = re.compile(r"^[ \t]*(?:#[ \t]*include\b|__constant__\b)[^\n]*$", re.MULTILINE)


@dataclass(frozen=True)
class Mistake:
    """A plausible wrong kernel: the solution with some of its text replaced.

    edit: (old, new), or (place, old, new) where `old` is part of a longer text, or several of these. What is replaced
    occurs once in the solution or, failing that, once in the kernel. expect: the expected diagnosis, besides the mistake itself if it has a sentence: the kind of a
    KernelFault or of a Verdict ("wrong" by default), or the name of another mistake that computes the same;
    any one of several. says: the sentence shown when an output is exactly what this kernel computes; none if
    a fault or a gate already explains it. hint: number from 1. line: text that the explanation must contain.
    kernel: the kernel it breaks, by default the only one; for a Program one of the functions, whose wrong
    result is `computes`.
    """

    name: str
    edit: tuple
    expect: str | tuple[str, ...] = ()
    says: str = ""
    hint: int = 1
    line: str = ""
    kernel: str = ""
    computes: Any = None

    @property
    def edits(self) -> tuple[tuple[str, str], ...]:
        """What is replaced, and by what."""
        written = (self.edit,) if isinstance(self.edit[0], str) else self.edit
        return tuple((e[0], e[0].replace(e[1], e[2]) if len(e) > 2 else e[1]) for e in written)

    @property
    def expected(self) -> tuple[str, ...]:
        """The possible diagnoses; grading must make one of them."""
        others = (self.expect,) if isinstance(self.expect, str) else self.expect
        return (self.name, *others) if self.says else others or ("wrong",)

    def apply(self, solution: str) -> str:
        """The text of the wrong file; CourseError if an `old` text does not occur exactly once."""
        for old, new in self.edits:
            start, end = 0, len(solution)
            if solution.count(old) > 1:
                kernel = read(solution).function(self.kernel)
                start, end = (kernel.whole.start, kernel.whole.end) if kernel else (start, end)
            if (count := solution.count(old, start, end)) != 1:
                raise CourseError(
                    f"mistake {self.name!r}: {old!r} occurs {count} times in the solution, not once"
                )
            solution = solution[:start] + solution[start:end].replace(old, new) + solution[end:]
        return solution


def slow(name: str, line: str, *edits: tuple[str, ...]) -> Mistake:
    """A kernel that is right, and that a gate finds slow."""
    return Mistake(name, edits, "slow", line=line)


def mistakes_in(
    kernel: str, *mistakes: Mistake, hint: int = 1, also: tuple[tuple[str, ...], ...] = ()
) -> tuple[Mistake, ...]:
    """Mistakes in one of several kernels, "" for the only one. hint: of those that name no other than the first. also: further edits
    in each, as what makes it compile sooner."""
    shared = [replace(m, edit=(*m.edits, *also)) if also else m for m in mistakes]
    return tuple(replace(m, kernel=kernel, hint=max(m.hint, hint)) for m in shared)


def without_kernels(text: str, names: Sequence[str]) -> str:
    """The text without some of its kernels; line numbers stay the same."""
    kernels = [k for k in read(text).kernels if k.name in names]
    return edited(text, [(k.whole, "\n" * k.whole.code.count("\n")) for k in kernels])


def blank(text: str) -> str:
    """The text with every line emptied, except what `together` hoists out of it."""
    return "\n".join(line if SHARED_LINE.match(line) else "" for line in text.split("\n"))


def together(texts: Sequence[str]) -> tuple[str, list[int]]:
    """Several texts as one file, and the number of lines before each: the kernels of text i are in namespace
    `m<i>`.

    Includes and __constant__ variables, which may occur only once, are placed before all namespaces.
    """
    parts = list(dict.fromkeys(line for text in texts for line in SHARED_LINE.findall(text)))
    before, lines = [], len(parts)
    for i, text in enumerate(texts):
        own = SHARED_LINE.sub("", text).replace('extern "C" __global__', "__global__")
        parts += [f"namespace m{i} {{", own, "}"]
        before.append(lines + 1)
        lines += own.count("\n") + 3
    return "\n".join(parts) + "\n", before
