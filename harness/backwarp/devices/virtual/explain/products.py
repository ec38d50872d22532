"""Products of four warps (wgmma) that read what is not there, or not there any more, or whose threads do not meet."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ....errors import KernelFault

if TYPE_CHECKING:
    from .faults import Diagnosis


def unlanded(d: Diagnosis, record) -> dict:
    """extra: what it reads has been begun to be copied, and not waited for by a warp's threads."""
    fields, name = d.place_in_memory(record)
    fields["headline"] = "A product reads what is not there yet"
    if record["extra"]:
        copy, thread = d.place(record["other_site"], 0, record["block"]), int(record["thread"])
        return fields | dict(
            other=copy,
            explanation=f"This wgmma reads {name}, which the copy in line {copy.line} fills, and thread {thread} of the block does not"
            " know that it has arrived: all four warps must wait for the copy's barrier, in the right parity, and the barrier must"
            " expect the bytes of all copies.",
        )
    return fields | dict(
        explanation=f"This wgmma reads {name}, which nothing has written, or whose copy has not been waited for:"
        " wait for the copy's barrier first, and look at the descriptor's start and strides."
    )


def overwritten(d: Diagnosis, record) -> dict:
    """extra: the other line is that of a store, not of the wait that shows it."""
    wait = d.place(record["other_site"], record["other_thread"], record["block"])
    fields = dict(headline="An operand is overwritten while it is read", other=wait)
    if record["extra"]:
        place, name = d.place_in_memory(record)
        return (
            fields
            | place
            | dict(
                explanation=f"This wgmma reads {name}, and line {wait.line} writes there in a thread that does not know that it is complete:"
                " it must have waited for it (wgmma.wait_group), or have met at a barrier who has."
            )
        )
    return fields | dict(
        explanation=f"What this wgmma reads in shared memory has changed before line {wait.line} has waited for it: write to the tile"
        " only after wgmma.wait_group."
    )


def refilled(d: Diagnosis, record) -> dict:
    product = d.place(record["other_site"], record["other_thread"], record["block"])
    fields, name = d.place_in_memory(record)
    return fields | dict(
        headline="A copy fills what a product still reads",
        other=product,
        explanation=f"This copy fills {name}, which the wgmma in line {product.line} may still read: wait for it"
        " (wgmma.wait_group), and tell the thread that starts the copy, by a barrier that it waits for.",
    )


_BY_ITSELF = " NVIDIA's assembler waits there by itself (its warnings C7514 to C7519): right, but slow, and the PTX manual promises nothing."
_USED = {
    "reads": "This reads a sum of the wgmma in line {product} before wgmma.wait_group says that it is complete." + _BY_ITSELF,
    "sets": "This sets a register of the wgmma in line {product} before wgmma.wait_group says that it is complete." + _BY_ITSELF,
    "uncommitted": "This waits for groups, and the wgmma in line {product} is in none: wgmma.commit_group comes first." + _BY_ITSELF,
    "unfenced": "No wgmma.fence comes between what sets this product's registers and the product, or before the first one. NVIDIA's"
    " assembler puts one there; the PTX manual promises nothing.",
}  # fmt: skip


def under_way(run) -> list[KernelFault]:
    """Notes on what a launched kernel does with registers of products that it has not waited for, see analyse/inflight.py."""
    return [
        KernelFault(
            kind="product-registers",
            headline="A product's registers are used while it is under way"
            if what != "unfenced"
            else "A product without wgmma.fence",
            explanation=_USED[what].format(product=product.line),
            file=at.file or run.module.name,
            line=at.line,
            severity="note",
        )
        for what, at, product in run.kernel.info.products
    ]


_SWIZZLES = "none", "one of 32 bytes", "one of 64 bytes", "one of 128 bytes"


def descriptor(d: Diagnosis, record) -> dict:
    """See misfit() in runtime/agents.cu."""
    extra = int(record["extra"])
    why, operand, given, wanted = extra & 3, "AB"[extra >> 2 & 1], extra >> 8 & 0xFFFFFF, extra >> 32
    row = 16 << wanted
    fields = dict(headline="A descriptor that does not fit its tile")
    if why == 0:
        said = (
            f"The tile of {operand}, which threads have stored, begins {given} bytes past a multiple of {8 * row:,}, the bytes after which"
            f" its swizzle, {_SWIZZLES[wanted]}, repeats: align it to {8 * row:,} bytes, and begin at a multiple of 8 rows."
        )
    elif why == 1:
        said = (
            f"The descriptor of {operand} says that the next 8 rows begin {given:,} bytes further on; with its swizzle,"
            f" {_SWIZZLES[wanted]}, 8 rows take {8 * row:,} bytes."
        )
    elif why == 3:
        after = f"{row // 2} elements of M or N" if extra >> 3 & 1 else "8 elements of K"
        said = (
            f"{operand} is transposed, and its descriptor says that the next {after} begin {given:,} bytes further on; with its swizzle,"
            f" {_SWIZZLES[wanted]}, a block of {row // 2} x 8 elements takes {8 * row:,} bytes."
        )
    else:
        place, name = d.place_in_memory(record)
        other = d.place(record["other_site"], 0, record["block"])
        fields |= place | dict(other=other)
        said = (
            f"The swizzle in the descriptor of {operand} is {_SWIZZLES[given]}; that of the map with which line {other.line} copies"
            f" {name} is {_SWIZZLES[wanted]}: both must be the same."
        )
    return fields | dict(explanation=said)


def registers(d: Diagnosis, record) -> dict:
    """See end_registers() in runtime/wgmma.cu."""
    extra = int(record["extra"])
    count, other, differ = extra & 0xFFFF, extra >> 16 & 0xFFFF, extra >> 32 & 1
    if differ:
        place = d.place(record["other_site"], record["other_thread"], record["block"]) if other else None
        instead = f"has {other}, from line {place.line}" if place else "executes none"
        return dict(
            headline="setmaxnreg is for all four warps of a group",
            other=place,
            explanation=f"The warp of this thread has {count} registers from here on, and that of thread {record['other_thread']} of the"
            f" block, of the same group, {instead}.",
        )
    threads = prod(d.run.block)
    warps, wanted = -(-threads // 32), extra >> 33
    return dict(
        headline="Registers that never become free",
        explanation=f"This waits for ever: the {warps} warps of the block begin with {other} registers a thread, {32 * warps * other:,}"
        f" together, and with this the block wants {32 * wanted:,}. Take fewer, or let others give up more.",
    )


def incomplete(d: Diagnosis, record) -> dict:
    extra = int(record["extra"])
    waiting, threads, ended = extra & 255, extra >> 8 & 255, extra >> 16
    if threads < 128:
        said = f"The block has {threads} threads in these four warps; all 128 take part in a wgmma."
        return dict(headline="Deadlock at a wgmma", explanation=said)
    other = None
    if record["other_site"]:
        other = d.place(record["other_site"], record["other_thread"], record["block"])
    thread = int(record["other_thread"])
    where = "has ended" if ended else f"waits at line {other.line}" if other else "is elsewhere"
    return dict(
        headline="Deadlock at a wgmma",
        other=other,
        explanation=f"{waiting} of the 128 threads of these four warps are here; thread {thread} of the block {where}. All of them take"
        " part in a wgmma.",
    )


def unfenced(d: Diagnosis, record) -> dict:
    """Of copies too."""
    other = d.place(record["other_site"], record["other_thread"], record["block"])
    fields, name = d.place_in_memory(record)
    fence, does = (
        ("fence.proxy.async.global", "comes to") if record["extra"] else ("fence.proxy.async", "reads")
    )
    return fields | dict(
        headline="fence.proxy.async is missing",
        other=other,
        explanation=f"This {does} {name}, which line {other.line} has stored the ordinary way. Between the two,"
        f" {fence} is missing: who stores executes it, and then the barrier.",
    )
