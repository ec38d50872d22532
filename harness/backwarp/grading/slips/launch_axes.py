"""Indices of threads and blocks along the axes of the launch: one that is not used, and ones that are always 0."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...course.declare import Kernel, Launch
from ...cuda.pieces import Piece
from ...devices.launching import triple
from ..findings import Finding

if TYPE_CHECKING:
    from .misuses import Use

_RANKS = re.compile(r"thread_rank|thread_index|group_index|block_rank|block_index|asm")


def unused_axes(kernel: Kernel, mine: Use, launches: Sequence[Launch]) -> Iterator[Finding]:
    """An axis of the launch in which no thread reads its index."""
    asked = indices_in(mine)
    if not all(e.kind == "field_expression" for e in asked) or _RANKS.search(mine.file.text):
        return
    used = {e.code for e in asked}
    for name, part in (("threadIdx", "block"), ("blockIdx", "grid")):
        for i, axis in enumerate("xyz"):
            shapes = [s for each in launches if (s := triple(getattr(each, part), part))[i] > 1]
            if shapes and f"{name}.{axis}" not in used and any(e.startswith(name) for e in used):
                shape = " x ".join(map(str, shapes[0][: 1 + max(k for k in range(3) if shapes[0][k] > 1)]))
                yield Finding.of(
                    "unused_axis", kernel=kernel.name, index=f"{name}.{axis}", shape=shape, of=part
                )


def idle_axes(mine: Use, launches: Sequence[Launch]) -> Iterator[Finding]:
    """Indices along axes that the launch does not have, where none along x is beside them."""
    shapes = [triple(shape, "shape") for each in launches for shape in (each.block, each.grid)]
    used = [axis for i, axis in enumerate("xyz") if i == 0 or any(shape[i] > 1 for shape in shapes)]
    idle = [
        e for e in indices_in(mine) if e.code[-2:] in (".y", ".z") and e.code[-1] not in used and _alone(e)
    ]
    if idle and shapes:
        names = list(dict.fromkeys(e.code for e in idle))
        yield Finding.of("idle_axes", idle[0].line, names=names, used=used)


def the_same(mine: Use, missing: Sequence[str]) -> str:
    """`all its threads`, where neither its threads nor its blocks ask which they are; "" if they may tell in another way, as
    by an atomic counter."""
    if _RANKS.search(mine.file.text) or "atomic" in mine.file.text:
        return ""
    who = {"threadIdx": "all threads of a block", "blockIdx": "all its blocks"}
    alike = [name for name in who if name in missing and not mine.of(name)]
    return ("all its threads" if alike[1:] else who[alike[0]]) if alike else ""


def indices_in(mine: Use) -> list[Piece]:
    """What threadIdx and blockIdx are part of: `threadIdx.x`, if no more than that."""
    names = (p for body in mine.bodies for p in body.all("identifier"))
    return [p.outer for p in names if p.code in ("threadIdx", "blockIdx")]


def _alone(index: Piece) -> bool:
    """Whether no index along x is in its statement."""
    whole = index
    while whole.outer is not None and not whole.kind.endswith(("declarator", "statement")):
        whole = whole.outer
    return not {p.code for p in whole.all("field_expression")} & {"threadIdx.x", "blockIdx.x"}
