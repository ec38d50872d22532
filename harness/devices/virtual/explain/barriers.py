"""Explains a barrier or a warp instruction that not all threads reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .wording import coordinates, lanes_of, triple

if TYPE_CHECKING:
    from .faults import Diagnosis


def barrier(d: Diagnosis, record) -> dict:
    place = d.place(record["site"], record["thread"], record["block"])
    waiting, wanted = int(record["extra"]), int(record["address"]) >> 32
    fields = dict(headline="Barrier error detected. Divergent thread(s) in block")
    who = f"{waiting} thread{'s' * (waiting != 1)} of the block wait{'s' * (waiting == 1)} at this barrier"
    if not record["other_site"]:
        if wanted:
            return fields | dict(explanation=f"{who}, which needs {wanted} threads: the others never arrive.")
        return fields | dict(explanation=f"{who}, which never opens: the others never arrive.")
    other = d.place(record["other_site"], record["other_thread"], record["block"])
    where = f"line {other.line}" if other.line != place.line else "another call of it on the same line"
    return fields | dict(
        other=other,
        explanation=f"{who}; thread {triple(other.thread)} waits at {where}. Every thread of the block must reach"
        " the same __syncthreads().",
    )


def mask(d: Diagnosis, record) -> dict:
    mask, absent = int(record["address"]) & 0xFFFFFFFF, int(record["address"]) >> 32
    extra, others = int(record["extra"]) & 0xFFFFFFFF, int(record["extra"]) >> 32
    lane = int(record["thread"]) % 32
    if not mask >> lane & 1:
        return dict(
            headline="Barrier error detected. Invalid arguments",
            explanation=f"The mask 0x{mask:08x} leaves out lane {lane}, although it makes this call.",
        )
    lanes = absent or extra
    one = lanes & lanes - 1 == 0
    how = f"{'has' if one else 'have'} returned before this call"
    if absent:
        how = f"take{'s' * one} no part in this call"
    fields = dict(
        headline="Barrier error detected. Divergent thread(s) in warp",
        explanation=f"The mask 0x{mask:08x} names {lanes_of(lanes)}, which {how}.",
    )
    if record["other_site"]:
        other = d.place(record["other_site"], record["other_thread"], record["block"])
        what = f"names {lanes_of(extra)}, which never make{'s' * one} this call: thread {triple(other.thread)} waits at line {other.line}"
        if others:
            what = f"differs from that of thread {triple(other.thread)}, 0x{others:08x}: all lanes that a mask names must pass the same mask"
        fields |= dict(other=other, explanation=f"The mask 0x{mask:08x} {what}.")
    return fields


def differ(d: Diagnosis, record) -> dict:
    other = d.place(record["other_site"], record["other_thread"], record["block"])
    what = (
        f"Thread {triple(other.thread)} is at another one, at line {other.line}, with another shape or type"
    )
    return dict(
        kind="shuffle-mask",
        headline="Barrier error detected. Invalid arguments",
        other=other,
        explanation=f"{what}: all lanes of a warp must execute the same matrix instruction.",
    )


def went_round(d: Diagnosis, record) -> dict:
    gone, waiting = int(record["extra"]), int(record["address"])
    first = triple(coordinates(record["other_thread"], d.run.block))
    who = f"thread {first} went" if gone == 1 else f"{gone} others went"
    whose = "" if gone == 1 else f", the first of them thread {first}"
    return dict(
        kind="barrier-divergence",
        headline="Barrier error detected. Divergent thread(s) in block",
        explanation=f"{waiting} thread{'s' * (waiting != 1)} of the block wait{'s' * (waiting == 1)} at this barrier; {who}"
        f" around it{whose}. Put it where every thread of the block passes, not in a branch or loop that some skip.",
    )


def missing_block(d: Diagnosis, record) -> dict:
    waiting, missing = int(record["address"]), int(record["extra"])
    block = triple(coordinates(record["other_block"], d.run.grid))
    rest = f", nor do{'es' * (missing == 2)} {missing - 1} more" if missing > 1 else ""
    return dict(
        kind="barrier-divergence",
        headline="Barrier error detected. Divergent block(s) in grid",
        explanation=f"{waiting} block{'s' * (waiting != 1)} wait{'s' * (waiting == 1)} at this barrier of the grid; block"
        f" {block} never arrives{rest}. Every block of the grid must reach the same grid.sync().",
    )


def early(d: Diagnosis, record) -> dict:
    gone = int(record["extra"])
    return dict(
        kind="barrier-divergence",
        headline="Divergent thread(s) in block",
        explanation=f"{gone} thread{'s' * (gone != 1)} had returned before this barrier:"
        " it does not wait for them.",
    )
