"""Memory from malloc(): who allocated it, who freed it, and who forgot to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ....errors import KernelFault
from .wording import triple

if TYPE_CHECKING:
    from .faults import Diagnosis


def access(d: Diagnosis, address: int, size: int, done: str) -> str:
    """The sentence for an access outside a block of memory, or after it was freed."""
    block = d.run.device.heap.block(address)
    if block is None:
        return f"This {done} the heap where nothing has come from malloc()."
    first, nbytes = address - int(block["address"]), int(block["bytes"])
    if first >= nbytes:
        where = "just past" if first == nbytes else f"{first - nbytes} bytes past"
        return f"This {done} {size} bytes {where} the end of {_memory(d, block)}."
    if not block["freed"]:
        return f"This {done} {size} bytes from byte {first} of {_memory(d, block)}, past their end."
    return f"This {done} {size} bytes from byte {first} of {_memory(d, block)}, after {_freed(d, block)}."


def free(d: Diagnosis, record) -> dict:
    """The fields for a free() of something that is not, or no longer, an allocated block."""
    if record["extra"]:
        block = d.run.device.heap.block(int(record["address"]))
        return dict(
            headline="Malloc/Free Error encountered : Double free",
            explanation=f"This frees {_memory(d, block)} again, after {_freed(d, block)}.",
        )
    return dict(
        headline="Malloc/Free Error encountered : Invalid pointer to free",
        explanation="The pointer freed here does not come from malloc() or new in a kernel, or points into such memory.",
    )


def leaks(d: Diagnosis) -> list[KernelFault]:
    """A note for each line whose blocks were never freed."""
    blocks = d.run.device.heap.blocks
    blocks = blocks[(blocks["launch"] == d.run.tag) & (blocks["freed"] == 0)]
    notes = []
    for site in np.unique(blocks["site"]):
        lost = blocks[blocks["site"] == site]
        place = d.place(int(site), int(lost[0]["thread"]), int(lost[0]["block"]))
        count = f"{len(lost)} block{'s' * (len(lost) != 1)}"
        notes.append(
            KernelFault(
                kind="leak",
                headline=f"Leaked {int(lost['bytes'].sum())} bytes",
                explanation=f"When the launch ended, {count} of memory from this line had not been freed.",
                file=place.file,
                line=place.line,
                thread=place.thread,
                block=place.block,
                source=d.source_line(place.line),
                severity="note",
                count=len(lost),
            )
        )
    return notes


def _memory(d: Diagnosis, block) -> str:
    """`the 16 bytes that thread (3,0,0) got from malloc() in line 12`."""
    nbytes = int(block["bytes"])
    what = f"the {nbytes} bytes that" if nbytes != 1 else "the byte that"
    if block["launch"] != d.run.tag:
        return f"{what} a kernel got from malloc() in an earlier launch"
    place = d.place(int(block["site"]), int(block["thread"]), int(block["block"]))
    return f"{what} thread {triple(place.thread)} got from malloc() in line {place.line}"


def _freed(d: Diagnosis, block) -> str:
    if block["freed"] != d.run.tag:
        return "an earlier launch freed them"
    return f"line {d.place(int(block['freed_site']), 0, 0).line} had freed them"
