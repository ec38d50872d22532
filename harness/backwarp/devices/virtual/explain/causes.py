"""Which fault of a launch led to which: causes first, and consequences marked.

A fault that ends a thread keeps it from all that it would have done. A value that is read in a race, or that nothing has
written, may decide at which address, or whether at all, a thread does something. A barrier that some threads miss orders
nothing for them. So none of these kinds always comes first: what a racing read can reach (analyse/influence.py) tells a
race that decides who reaches a barrier from one that comes about because some did not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ....errors import KernelFault
from ..runtime.abi import FAULTS, ORIGIN_SITE, TIMEOUT_WAITED, TIMEOUT_WAITING, USE

if TYPE_CHECKING:
    from .faults import Diagnosis

#: these end their thread
ENDS = {"out-of-bounds", "misaligned", "invalid-address", "read-only", "assert", "invalid-map"}
_MISSED = {"barrier-divergence", "shuffle-mask"}  # threads that do not meet
_UNSET = "uninitialised-read"
#: what those do next who went on too early, or have not waited
_LATE = "too-many", "stuck-at-phase", "under-way", "ended-block"
Found = tuple[np.void, KernelFault]


def in_order(diagnosis: Diagnosis, found: list[Found]) -> list[KernelFault]:
    """The faults of these records, causes first; each that follows from the first says so."""
    found = _without_repeats(found)
    found.sort(key=lambda one: (_rank(one), one[1].severity == "warning"))
    if len({f.kind for _, f in found} | {f.array for _, f in found}) > 1:
        found = _Causes(diagnosis, found).sorted()
    return [fault for _, fault in found]


def _without_repeats(found: list[Found]) -> list[Found]:
    """Without what is unset because of a race for its array, or is unset in a line that is already named."""
    racing, told, kept = {f.array for _, f in found if f.kind == "race"}, set(), []
    for record, f in found:
        if f.kind == _UNSET:
            if (f.line, f.array) in told or f.array and f.array in racing:
                continue
            told.add((f.line, f.array))
        kept.append((record, f))
    return kept


def _is_own(f: KernelFault) -> bool:
    """Whether what is unset is the thread's own, so that nobody else can be why."""
    return not f.array or f.space == "local"


def _rank(one: Found) -> int:
    """Where no other order is known: an unset variable may cause anything, unset memory of all is rather a consequence."""
    f = one[1]
    if f.kind == "made-again":  # nothing that waits for it is sure of anything
        return 0
    if f.kind in _LATE:
        return 2 + _LATE.index(f.kind)
    return 1 if f.kind != _UNSET else 0 if _is_own(f) else 2


class _Causes:
    def __init__(self, diagnosis: Diagnosis, found: list[Found]):
        self.diagnosis, self.found, self.influence = diagnosis, found, diagnosis.influence
        self.sites = diagnosis.run.module.lowered.sites
        self._at: dict[int, list] = {}  # site -> its places
        self._reached: dict[int, set] = {}  # race -> what the value read there may reach
        n = range(len(found))
        self.leads = {(a, b) for a in n for b in n if a != b and self._leads(a, b)}
        self.before = self.leads | {(a, b) for a in n for b in n if a != b and self._is_first(a, b)}

    def sorted(self) -> list[Found]:
        left, order = list(range(len(self.found))), []
        while left:  # the first that none of the others leads to; if they lead to one another, the first
            free = (b for b in left if not any((a, b) in self.before for a in left))
            order.append(next(free, left[0]))
            left.remove(order[-1])
        follows = {order[0]}
        for _ in order:
            follows |= {b for a, b in self.leads if a in follows}
        for b in follows - {order[0]}:
            self.found[b][1].follows = True
        return [self.found[i] for i in order]

    def _leads(self, a: int, b: int) -> bool:
        """Whether fault `a` may be why fault `b` happened."""
        f, g = self.found[a][1], self.found[b][1]
        if f.kind == "race" and g.kind == "race":
            return f.array != g.array and self._orders(a, b) and not self._orders(b, a)
        if f.kind == "race":
            return self._decides(a, b)
        if f.kind == _UNSET:
            own = _is_own(f)
            return self._is_address(a, b) or not own and self._decides(a, b)
        if f.kind in ENDS and g.kind == _UNSET:
            return not (_is_own(g) or self._is_address(b, a) or self._decides(b, a))
        if f.kind in ENDS:
            return g.kind in _MISSED or g.kind == "timeout" and self._waits(b)
        if f.kind in _MISSED:
            if f.kind == "shuffle-mask" and f.line == g.line and "shuffle" in g.headline:
                return True  # the value of a lane that the mask leaves out
            later = g.kind in ("race", "timeout") or g.kind == _UNSET and not _is_own(g)
            return later and not self._decides(b, a)
        return False

    def _is_first(self, a: int, b: int) -> bool:
        """Whether race `a` is for something atomic whose value is used, and race `b` for mere data; or `b` an endless loop,
        which is never why anything else happens."""
        if self.found[b][1].kind == "timeout":
            return self.found[a][1].kind != "timeout"
        return self._is_atomic(a) and self.found[b][1].kind == "race" and not self._is_atomic(b)

    def _is_atomic(self, a: int) -> bool:
        record, f = self.found[a]
        if f.kind != "race":
            return False
        sides = zip(self.diagnosis.accesses(record), (record["other_site"], record["site"]), strict=True)
        return any(how == "Atomic" and self.influence.is_used(self._places(int(site))) for how, site in sides)

    def _waits(self, a: int) -> bool:
        """Whether an endless loop is one that waits for what other threads do."""
        record = self.found[a][0]
        waits = int(record["extra"]) in (TIMEOUT_WAITED, TIMEOUT_WAITING)
        return waits or self.influence.waits_plainly(self._places(int(record["site"])))

    def _is_address(self, a: int, b: int) -> bool:
        """Whether what is unset is the address of access `b`."""
        (record, f), g = self.found[a], self.found[b][1]
        used = f.other.line if f.other else f.line
        address = int(record["address"]) & 255 == USE["address"]
        return address and g.kind in ENDS and (f.thread, f.block, used) == (g.thread, g.block, g.line)

    # -- what values decide -----------------------------------------------------------------------------

    def _places(self, site: int) -> list:
        if site not in self._at:
            self._at[site] = self.influence.at(*self.sites[site])
        return self._at[site]

    def _read(self, a: int) -> set:
        """What the value read in a race, or the unset one, may reach."""
        if a not in self._reached:
            record, f = self.found[a]
            if f.kind == _UNSET:
                sites, written = [int(record["extra"]) >> ORIGIN_SITE], []
            else:
                sides = int(record["other_site"]), int(record["site"])
                sites = self._sites_read(record)
                written = [] if sites and not f.no_barrier else sides
            found = self.influence.of_values(p for s in sites for p in self._places(s))
            found |= self.influence.of_memory(p for s in written for p in self._places(s))
            self._reached[a] = found
        return self._reached[a]

    def _decides(self, a: int, b: int) -> bool:
        if self.found[a][1].kind not in ("race", _UNSET):
            return False
        record = self.found[b][0]
        sites = [int(record["site"])]
        if FAULTS[record["kind"]] == "barrier-divergence" and record["other_site"]:
            sites.append(int(record["other_site"]))
        places = [p for s in sites for p in self._places(s)]
        kinds = dict.fromkeys(_MISSED, self.influence.reaches) | {"timeout": self.influence.ends_loop}
        return kinds.get(self.found[b][1].kind, self.influence.decides)(self._read(a), places)

    def _orders(self, a: int, b: int) -> bool:
        """Whether race `a` is for what should order the accesses of race `b`: a flag, a lock, a barrier in memory."""
        record = self.found[b][0]
        places = [p for s in ("site", "other_site") for p in self._places(int(record[s]))]
        read = (p for s in self._sites_read(self.found[a][0]) for p in self._places(s))
        return self.influence.is_awaited(read) or self.influence.decides(self._read(a), places)

    def _sites_read(self, record) -> list[int]:
        """The sites of a race that read."""
        sides = zip(self.diagnosis.accesses(record), (record["other_site"], record["site"]), strict=True)
        return [int(site) for how, site in sides if how != "Write"]
