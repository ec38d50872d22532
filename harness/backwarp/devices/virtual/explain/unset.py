"""Explains the use of a value that was never set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..ptx.parse import instruction
from ..runtime.abi import (
    DTYPES,
    FAULT,
    GRANULE,
    ORIGIN_ADDRESS,
    ORIGIN_KIND,
    ORIGIN_SITE,
    ORIGINS,
    SLOT_BYTES,
    USE,
    USES,
)
from .owners import element
from .wording import named, space_name

if TYPE_CHECKING:
    from .faults import Diagnosis

#: the effect of an unset value in a line after the one that reads it
_MATTERS = {
    "branch": "Which way the thread goes at line {line} depends on it.",
    "address": "An address at line {line} is computed from it.",
    "atomic": "The atomic operation at line {line} uses it.",
    "collective": "The barrier or warp function at line {line} uses it.",
    "operand": "Line {line} uses it.",
    "printf": "Line {line} prints it.",
    "read": "Line {line} uses it.",
    "output": "It goes into {element}, which line {line} stores.",
}


def unset(d: Diagnosis, record) -> dict:
    """The line that first read the unset value, and the line where that matters."""
    origin, use = int(record["extra"]), int(record["address"])
    site, begun = origin >> ORIGIN_SITE, ORIGINS[origin >> ORIGIN_KIND & 15]
    place = d.place(site, record["thread"], record["block"])
    used = d.place(record["site"], record["thread"], record["block"])
    if begun == "register":
        fields = _variable(d, site)
    elif begun == "lane":
        fields = _lane(d, origin & ORIGIN_ADDRESS, int(record["thread"]))
    else:
        fields = _unwritten(d, site, origin & ORIGIN_ADDRESS, record)
    if used.line != place.line:
        stored = use >> 8
        owner = d.owners.find(stored, int(record["site"]), False, 0) if stored else None
        name = element(owner, stored) if owner and owner.nbytes else "an array"
        fields["explanation"] += f" {_MATTERS[USES[use & 255]].format(line=used.line, element=name)}"
        fields["other"] = used
    return fields | dict(place=place)


def _unwritten(d: Diagnosis, site: int, address: int, record) -> dict:
    """Memory that was never written."""
    slot = max(0, address - d.run.arena.slots_start) // SLOT_BYTES
    owner = d.owners.find(address, site, False, slot)
    size = _access_size(d.run.module.lowered.sites[site][1])
    fields = dict(
        headline=f"Uninitialized {space_name(owner)} memory read" + f" of size {size} bytes" * bool(size),
        access="read",
        space=owner.space if owner else "global",
        size=size,
    )
    if owner is None or not owner.nbytes:
        what = owner.name if owner else "memory"
        return fields | dict(explanation=f"This reads {what}, which was not written there.")
    what = f"This reads {element(owner, address)}, which was never written."
    if record["other_site"]:
        copy = d.place(record["other_site"], record["thread"], record["block"])
        what = (
            f"This reads {element(owner, address)}, but its copy, started at line {copy.line}, may not have"
            " finished: commit its group, and note that a wait for all but the newest n groups covers it only once"
            " n more groups have been committed."
        )
    return fields | named(owner, address) | dict(explanation=what)


def _variable(d: Diagnosis, site: int) -> dict:
    """A variable in a register."""
    register, _, function = d.run.module.lowered.sites[site][1].partition(" of ")
    name = d.owners.variable(function, register)
    what = f"{name} has no value here" if name else "A variable used here has no value"
    return dict(
        headline="Uninitialized variable read",
        space="local",
        array=name,
        explanation=f"{what}: it was never assigned on the path this thread took.",
    )


def _lane(d: Diagnosis, lane: int, thread: int) -> dict:
    """A lane that a shuffle reads from although it does not take part."""
    threads = d.run.block[0] * d.run.block[1] * d.run.block[2]
    last = thread // 32 * 32 + lane >= threads
    why = f"does not exist: the block has {threads} threads" if last else "its mask leaves out"
    return dict(
        headline="Uninitialized value of a shuffle",
        explanation=f"This shuffle asks for the value of lane {lane}, which {why}.",
    )


def unset_outputs(arena) -> np.ndarray:
    """A record for each line that stored an unset value in an array, if it is still there when the launch
    ends."""
    found = {}
    for _, places in arena.stored_unset():
        traces = arena.traces[places // GRANULE]
        lines = traces["site"].astype(np.uint64) << np.uint64(32) | traces["origin"] >> np.uint64(ORIGIN_SITE)
        for line, first in zip(*np.unique(lines, return_index=True), strict=True):
            found.setdefault(int(line), (int(places[first]), traces[first]))
    records = np.zeros(len(found), DTYPES["Fault"])
    for record, (place, trace) in zip(records, found.values(), strict=True):
        for field in ("site", "thread", "block"):
            record[field] = trace[field]
        record["kind"], record["address"] = FAULT["uninitialised-read"], place << 8 | USE["output"]
        record["extra"], record["count"] = trace["origin"], 1
        if ORIGINS[int(trace["origin"]) >> ORIGIN_KIND & 15] == "copying":
            granule = (int(trace["origin"]) & ORIGIN_ADDRESS) // GRANULE
            record["other_site"] = arena.traces[granule]["copy_site"]
    return records


def _access_size(text: str) -> int:
    """Bytes that one thread reads with a PTX instruction; 0 if unknown."""
    ins = instruction(text)
    reads = ins is not None and ins.op.memory in ("load", "atomic", "reduction")
    return ins.op.nbytes * ins.op.vector if reads else 0
