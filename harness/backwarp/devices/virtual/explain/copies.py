"""Copies of tensors with something that is no map of one, and copies that nobody waits for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..runtime.abi import BULKS
from .wording import triple

if TYPE_CHECKING:
    from .faults import Diagnosis


def invalid_map(d: Diagnosis, record) -> dict:
    why, rank, how = (
        int(record["extra"]) >> shift & mask for shift, mask in ((0, 255), (8, 255), (16, 0xFFFF))
    )
    asked, kind = how >> 12, BULKS[how & 15]
    if why == 2:
        said = (
            f"This copies a tensor of {asked} ax{'es' if asked > 1 else 'is'}; its map is of one with {rank}."
        )
    elif why == 3:
        said = (
            "This copies pixels (im2col); its map is of tiles: make it with tensor_map_im2col()."
            if kind == "im2col"
            else "This copies a tile; its map is of pixels: make it with tensor_map()."
        )
    elif why == 4:
        said = "This updates elements of 1 or 2 bytes in a way that only larger ones can be: halves have add, min and max."
    else:
        said = (
            "What this is given as its tensor map is none: pass device.tensor_map(...) as the kernel's parameter"
            " `const __grid_constant__ CUtensorMap map`, and &map to the copy."
        )
    return dict(headline="Invalid tensor map", explanation=said)


def too_many(d: Diagnosis, record) -> dict:
    """More arrivals at a barrier in memory than its phase has left."""
    other, before = None, ""
    if record["other_site"]:
        other = d.place(record["other_site"], record["other_thread"], record["other_block"])
        before = f" after line {other.line}" * (other.line != d.place(record["site"], 0, 0).line)
    (fields, _), count = d.place_in_memory(record), int(record["extra"])
    return fields | dict(
        headline="Too many arrivals at an mbarrier",
        other=other,
        explanation=f"A phase of this barrier has {count:,} arrival{'s' * (count != 1)}, and this is one more{before}: wait until the"
        " phase is over before arriving again, or initialise the barrier with the number of those who arrive.",
    )


def made_again(d: Diagnosis, record) -> dict:
    """A barrier in memory is initialised where there is one that has been used."""
    other = d.place(record["other_site"], record["other_thread"], record["block"])
    fields, name = d.place_in_memory(record)
    return fields | dict(
        headline="An mbarrier is initialised twice",
        other=other,
        explanation=f"{name} is a barrier already, made in line {other.line}, and has been used: initialise it once, before the loop,"
        " and let its phases alternate; or first invalidate it (mbarrier.inval) when nobody waits for it any more.",
    )


def parity(d: Diagnosis, record) -> dict:
    given = int(record["extra"])
    return d.place_in_memory(record)[0] | dict(
        headline="A parity that is neither 0 nor 1",
        explanation=f"This waits for a phase of parity {given:,}: the PTX manual has 0 and 1, and the lowest bit is taken here. Keep a"
        " parity and flip it, or pass `count & 1`.",
    )


#: until when a copy reads or writes, by whether a barrier counts its bytes and by what it does
_UNTIL = {
    (True, "Read"): "the barrier that counts its bytes has been waited for, in the right parity",
    (True, "Write"): "the barrier that counts its bytes has been waited for, in the right parity",
    (False, "Read"): "its thread has waited for its group (cp.async.bulk.wait_group.read)",
    (False, "Write"): "its thread has waited for its group (cp.async.bulk.wait_group, not .read)",
    (False, "Atomic"): "its thread has waited for its group (cp.async.bulk.wait_group, not .read)",
}
_DOES = {"Read": "reads", "Write": "writes", "Atomic": "updates"}


def race(d: Diagnosis, shown, name: str) -> str:
    """What a race says in which a copy of many bytes, or st.async, takes part; "" if none does."""
    opcodes = [text.split(" ")[0] for _, text in d.run.module.lowered.sites]
    sides = (shown.last, shown.accesses[1], shown.site), (shown.first, shown.accesses[0], shown.other_site)
    copies = [side for side in sides if re.search(r"async\.bulk|^(st|red)\.async", opcodes[side[2]])]
    if not copies:
        return ""
    place, how, site = copies[0]
    other, does, _ = sides[copies[0] is sides[0]]
    until = _UNTIL["mbarrier" in opcodes[site], how]
    who = f"Thread {triple(other.thread)} (line {other.line})"
    if len(copies) == 2:
        who = (
            f"Another one, of line {other.line}," if other.line != place.line else "Another one of this line"
        )
    remedy = "whoever comes later must have waited for the other, or have met at a barrier who has"
    if shown.of_blocks and shown.owner and shown.owner.space == "global":
        remedy = (
            "blocks do not wait, so each needs elements of its own, or all add to them (cp.reduce.async.bulk)"
        )
    what = "copy" if "bulk" in opcodes[site] else "asynchronous store"
    return (
        f"The {what} that line {place.line} starts {_DOES[how]} {name} until {until}. {who} {_DOES[does]} it, and nothing orders the"
        f" two: {remedy}."
    )


def under_way(d: Diagnosis, record) -> dict:
    if record["extra"]:
        said = "The block ends before anybody has waited for the barrier that counts the bytes of this copy."
    else:
        said = "The block ends while this store is under way: commit_group, and wait_group, before its thread ends."
    return dict(headline="A copy is under way when its block ends", explanation=said)
