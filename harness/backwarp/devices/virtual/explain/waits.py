"""All threads of a block wait, some of them at barriers in memory: who waits where, and which of them leads to the mistake."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from ....errors import Place
from ..runtime.abi import WAITS
from .wording import triple

if TYPE_CHECKING:
    from .faults import Diagnosis

_COUNT = 0xFFFFF
_AT = {
    "barrier": "at a barrier of threads",
    "warp": "for lanes of their warp",
    "group": "for a product of four warps",
    "cluster": "at the barrier of the cluster",
}
_MOST = 5  # others that are listed


@dataclass
class Wait:
    """Threads that wait for the same in the same line: a record of the runtime, see tell_waiters() in runtime/bulk.cu.

    pending: arrivals that the phase still expects, of `made` for which the barrier was made, by the site `made_at`, plus 1;
    missing: bytes; unseen: phases that are over, the last ones, for which nobody has waited; crowded: more threads have arrived
    in these than in one can; seen: these threads have waited for the last one, if one is `over`.
    """

    record: object
    place: Place

    def __post_init__(self):
        extra, wait = int(self.record["extra"]), int(self.record["wait"])
        self.at = 0 if self.record["address"] else extra
        self.pending, self.missing, self.under_way = extra & _COUNT, extra >> 20 & 0x1FFFFF, extra >> 41
        self.missing -= (self.missing >> 20) << 21
        self.made, self.unseen, self.made_at = wait & _COUNT, wait >> 20 & _COUNT, wait >> 44
        self.parity, self.over, self.seen = wait >> 40 & 1, wait >> 41 & 1, wait >> 42 & 1
        self.crowded = self.unseen and wait >> 43 & 1
        self.excess = -self.pending & _COUNT if self.pending > self.made else 0

    @property
    def suspicion(self) -> int:
        """How likely it is that the mistake is there, and not that these threads wait for those who make it."""
        if self.at:
            return 0
        ranks = (
            self.crowded or self.excess,
            not self.pending,  # of the bytes that are announced, some are copied by nobody
            self.over and not self.seen and self.unseen,
            self.over and not self.seen,
            self.pending < self.made,
            True,
        )
        return len(ranks) - [bool(r) for r in ranks].index(True)

    @property
    def expects(self) -> str:
        parts = []
        if self.excess:
            parts.append(f"{self.excess:,} arrival{'s' * (self.excess != 1)} fewer than have come")
        elif self.pending:
            of = f" of {self.made:,}" if self.made != self.pending else ""
            parts.append(f"{self.pending:,} arrival{'s' * (self.pending != 1)}{of}")
        if self.missing:
            n = f"{abs(self.missing):,} bytes"
            parts.append(n if self.missing > 0 else f"{n} fewer than have arrived")
        return " and ".join(parts)

    def threads(self, blocks: bool) -> str:
        first, last, count = (int(self.record[k]) for k in ("thread", "last", "count"))
        where = f" of block {triple(self.place.block)}" if blocks else ""
        said = (
            f"threads {first} to {last}" if last - first == count - 1 else f"{count} threads from {first} on"
        )
        return (said if count > 1 else f"thread {first}") + where

    def called(self, d: Diagnosis) -> str:
        site = self.record["called"]
        line = d.place(site, 0, 0).line if site else 0
        return f", called in line {line}" if line and line != self.place.line else ""


def _all(d: Diagnosis, records) -> list[Wait]:
    """Those of the first block, or cluster, that stands still; the one that leads first."""
    waits = [Wait(r, d.place(r["site"], r["thread"], r["block"])) for r in records]
    size = d.run.kernel.cluster or (1, 1, 1)
    cluster = [tuple(b // n for b, n in zip(w.place.block, size)) for w in waits]
    return sorted((w for w, c in zip(waits, cluster) if c == cluster[0]), key=lambda w: -w.suspicion)


def stuck(d: Diagnosis, records) -> tuple:
    """(the record of the wait that leads to the mistake, the fields that explain it and name all others)"""
    first, *others = _all(d, records)
    cluster = prod(d.run.kernel.cluster or (1,)) > 1
    fields, name = d.place_in_memory(first.record)
    made = d.place(first.made_at - 1, 0, first.record["block"]) if first.made_at else None
    called = first.called(d)
    last = None
    if first.record["other_site"]:
        last = d.place(*(first.record[f"other_{k}"] for k in ("site", "thread", "block")))
    said = [
        f"All threads of the {'cluster' if cluster else 'block'} wait. {first.threads(cluster).capitalize()} wait{'' if first.record['count'] > 1 else 's'}"
        f"{called and f' here{called},'} for parity {first.parity} of {name}, and this phase still expects {first.expects}."
    ]
    said += _why(first, made, last)
    under_way = first.under_way
    said.append(
        f"Copies of {under_way:,} bytes are under way to it." if under_way else "No copy is under way to it."
    )
    if others:
        listed = [_listed(d, w, cluster) for w in others[:_MOST]]
        more = len(others) - _MOST
        said.append(f"Others: {'; '.join(listed)}{f'; {more} more' if more > 0 else ''}.")
    other = made if made and first.crowded else last
    return first.record, fields | dict(
        headline="Deadlock at an mbarrier", other=other, explanation=" ".join(said)
    )


def _why(w: Wait, made: Place | None, last: Place | None) -> list[str]:
    where = f" in line {made.line}" if made else ""
    said = [f"It was made for {w.made:,} arrival{'s' * (w.made != 1)}{where}."]
    arrived = f"Line {last.line} has arrived there last" if last else ""
    if w.crowded:
        phases = "1 phase has" if w.unseen == 1 else f"{w.unseen:,} phases have"
        said.append(
            f"{arrived}; {phases} ended since anybody waited for one, as more threads arrive than it was made for: both numbers"
            " must be equal."
        )
    elif w.over and not w.seen:
        who = "nobody has" if w.unseen else "these threads have not"
        said.append(
            f"{arrived}. The phase of parity {1 - w.parity} is over, and {who} waited for it: is the parity wrong here?"
        )
    elif arrived:
        said.append(f"{arrived}.")
    elif not w.over:
        said.append("Nobody has arrived at it, so only a wait for parity 1 passes.")
    return said


def _listed(d: Diagnosis, w: Wait, cluster: bool) -> str:
    here = f"line {w.place.line}{w.called(d)}, {w.threads(cluster)}"
    if w.at:
        return f"{here}, {_AT.get(WAITS[w.at], 'for others')}"
    _, name = d.place_in_memory(w.record)
    return f"{here}, for parity {w.parity} of {name} ({w.expects} missing)"
