"""Indices of threads and blocks along the axes of the launch: one that is not used."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...course.declare import Kernel, Launch
from ...cuda.pieces import Piece
from ...devices.launching import triple
from ..findings import Finding

if TYPE_CHECKING:
    from .misuses import Reached

_OTHER_WAYS = re.compile(r"thread_rank|thread_index|group_index|block_rank|block_index|asm|atomic")


def unused_axes(kernel: Kernel, mine: Reached, launches: Sequence[Launch]) -> Iterator[Finding]:
    """An axis of the launch in which no thread reads its index."""
    asked = indices_in(mine)
    if not all(e.kind == "field_expression" for e in asked) or _OTHER_WAYS.search(mine.file.text):
        return
    used = {e.code for e in asked}
    for name, part in (("threadIdx", "block"), ("blockIdx", "grid")):
        for i, axis in enumerate("xyz"):
            shapes = [s for each in launches if (s := triple(getattr(each, part), part))[i] > 1]
            if shapes and f"{name}.{axis}" not in used:
                shape = " x ".join(map(str, shapes[0][: 1 + max(k for k in range(3) if shapes[0][k] > 1)]))
                facts = dict(index=f"{name}.{axis}", shape=shape, of=part)
                yield Finding.of("unused_axis", kernel=kernel.name, **facts)


def indices_in(mine: Reached) -> list[Piece]:
    """What threadIdx and blockIdx are part of: `threadIdx.x`, if no more than that."""
    names = (p for body in mine.bodies for p in body.all("identifier"))
    return [p.outer for p in names if p.code in ("threadIdx", "blockIdx")]
