"""Mistakes: wrong kernels that a puzzle knows, each an edit of the solution.

What a mistake computes is found by running its kernel, so there is nothing to keep in step with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import CourseError
from .cuda_text import edited, read

SHARED_LINE = re.compile(r"^[ \t]*(?:#[ \t]*include\b|__constant__\b)[^\n]*$", re.MULTILINE)


@dataclass(frozen=True)
class Mistake:
    """A plausible wrong kernel: the solution with some of its text replaced.

    edit: (old, new), or several such pairs. Each `old` occurs once in the solution or, failing that, once in the
    kernel. expect: what grading finds besides the mistake itself, where it has a sentence: the kind of a
    KernelFault or of a Verdict ("wrong" by default), or the name of another mistake that computes the same; one
    of several will do. says: the sentence shown when an output is exactly what this kernel computes; none where a
    fault or a gate says it already. hint: number from 1. line: text that the explanation contains. kernel: the one
    that it breaks, by default the only one; of a Program one of the functions, and what this computes then
    is `computes`.
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
        return (self.edit,) if isinstance(self.edit[0], str) else self.edit

    @property
    def expected(self) -> tuple[str, ...]:
        """The diagnoses of which grading must find one."""
        others = (self.expect,) if isinstance(self.expect, str) else self.expect
        return (self.name, *others) if self.says else others or ("wrong",)

    def apply(self, solution: str) -> str:
        """The text of the wrong file; CourseError where an `old` text does not occur exactly once."""
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


def mistakes_in(kernel: str, *mistakes: Mistake) -> tuple[Mistake, ...]:
    """Mistakes of one kernel of several."""
    return tuple(replace(m, kernel=kernel) for m in mistakes)


def without_kernels(text: str, names: Sequence[str]) -> str:
    """The text without some of its kernels; lines keep their numbers."""
    kernels = [k for k in read(text).kernels if k.name in names]
    return edited(text, [(k.whole, "\n" * k.whole.code.count("\n")) for k in kernels])


def blank(text: str) -> str:
    """The text with nothing but empty lines, and what `together` takes out of it."""
    return "\n".join(line if SHARED_LINE.match(line) else "" for line in text.split("\n"))


def together(texts: Sequence[str]) -> tuple[str, list[int]]:
    """One file of several, and the number of lines before each: the kernels of text i are in the namespace `m<i>`.

    What there can be only once, includes and __constant__ variables, stands before all namespaces.
    """
    parts = list(dict.fromkeys(line for text in texts for line in SHARED_LINE.findall(text)))
    before, lines = [], len(parts)
    for i, text in enumerate(texts):
        own = SHARED_LINE.sub("", text).replace('extern "C" __global__', "__global__")
        parts += [f"namespace m{i} {{", own, "}"]
        before.append(lines + 1)
        lines += own.count("\n") + 3
    return "\n".join(parts) + "\n", before
