"""What blocks of a cluster may not do to one another's shared memory, and at their barrier."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from .owners import element
from .wording import coordinates, named, triple

if TYPE_CHECKING:
    from .faults import Diagnosis

CROSSED_TWICE = 1  # of runtime/clusters.cu


def ended_block(d: Diagnosis, record) -> dict:
    return _elsewhere(
        d,
        record,
        "Shared memory of a block that has ended",
        "nothing makes sure that this block has not ended by then, and its memory is gone with it. Let all blocks of the cluster "
        "meet before any of them ends: cluster.sync(), or barrier.cluster.arrive and wait, after the last such access",
    )


def unstarted_block(d: Diagnosis, record) -> dict:
    return _elsewhere(
        d,
        record,
        "Shared memory of a block that may not have begun",
        "nothing makes sure that this block has begun. Let all blocks of the cluster meet first: cluster.sync(), or "
        "barrier.cluster.arrive and wait, before the first such access",
    )


def _elsewhere(d: Diagnosis, record, headline: str, why: str) -> dict:
    owner, address = d.owner(record), int(record["address"])
    what = element(owner, address) if owner and owner.nbytes else "shared memory"
    whose = f"block {triple(coordinates(record['other_block'], d.run.grid))}"
    fields = named(owner, address) | dict(space="shared") if owner and owner.nbytes else dict(space="shared")
    return fields | dict(headline=headline, explanation=f"This accesses {what} of {whose}, and {why}.")


def no_rank(d: Diagnosis, record) -> dict:
    extra, blocks = int(record["extra"]), prod(d.run.kernel.cluster)
    ranks = (
        f"a cluster here has {blocks} block{'s' * (blocks > 1)}, rank{'s 0 to' * (blocks > 1)} {blocks - 1}"
    )
    if extra >> 63:
        mask = extra & 0xFFFF
        said = f"The mask {mask:#x} has no bit of a block that gets the copy; {ranks}."
        if mask:
            said = f"The mask {mask:#x} has bit {mask.bit_length() - 1}; {ranks}."
        return dict(headline="Multicast to a rank that no block has", explanation=said)
    return dict(
        headline="Shared memory of a rank that no block has",
        explanation=f"This address is one of a rank that no block has: {ranks}.",
    )


def barrier(d: Diagnosis, record) -> dict:
    if int(record["extra"]) == CROSSED_TWICE:
        said = "This thread arrives at the barrier of the cluster once more before it has waited there: wait between two arrivals."
    else:
        said = "This thread waits at the barrier of the cluster without having arrived there: arrive first, once for each wait."
    return dict(headline="Barrier error detected in a cluster", explanation=said)
