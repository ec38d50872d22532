"""The numbers of a tiny case: the inputs, and each output beside what is expected, row by row."""

from __future__ import annotations

import math
from typing import Any

from ..grading.compare import show_pair
from ..grading.verdict import Verdict
from .terminal import Line


def case_lines(verdict: Verdict) -> list[Line]:
    """An output's elements that are wrong have a star."""
    lines: list[Line] = []
    for of in verdict.numbers:
        lines += [[("", "")], [(f"  {of['kernel']}", "bold")]]
        lines += [line for array in of["arrays"] for line in _rows(array)]
    return lines


def _rows(array: dict[str, Any]) -> list[Line]:
    shape = array["shape"] or [1]
    total, across = math.prod(shape), shape[-1]
    values, expected = array["values"], array.get("expected")
    both = zip(values or expected, expected or values, strict=True)
    pairs = [show_pair(*pair) if expected and values else (f"{pair[0]:.5g}", "") for pair in both]
    pairs = pairs if values else [("", text) for text, _ in pairs]
    right = array.get("right") or [True] * total
    got = [("" if ok else "*") + (pair[0] if values else "-") for pair, ok in zip(pairs, right, strict=True)]
    columns = [got, [pair[1] for pair in pairs]] if expected else [got]
    wide = [max(map(len, column)) for column in columns]
    lines: list[Line] = []
    for start in range(0, total, across):
        name = f"{array['name']}[{_index(array['axes'], shape, start)}]"
        cells = [
            " ".join(text.rjust(w) for text in c[start : start + across])
            for c, w in zip(columns, wide, strict=True)
        ]
        style = "" if all(right[start : start + across]) else "bold"
        lines.append([(f"    {name}  {'   expected  '.join(cells)}", style)])
    return lines


def _index(axes: str, shape: list[int], flat: int) -> str:
    """`k=0,c=1,s=0..2` of the row that begins at a flat index."""
    parts = []
    for extent in reversed(shape):
        flat, i = divmod(flat, extent)
        parts.append(str(i))
    parts[0] = f"0..{shape[-1] - 1}" if shape[-1] > 1 else "0"
    named = len(axes) == len(parts)
    return ",".join(f"{axes[n]}={part}" if named else part for n, part in enumerate(reversed(parts)))
