"""A record, read: what its rows say, which element an address is, and all accesses."""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..analyse.debuginfo import scopes
from ..analyse.scopes import Scopes, Type
from ..ptx.types import BYTES
from ..runtime import abi

KINDS = "enter leave call back line var base at given got arrive pass async argument fence".split()
KIND = {name: n for n, name in enumerate(KINDS)}
#: an access: the row of its `at`; whose; line; one of HOW; array: its number in `arrays`, -1: in local memory; offset: bytes from
#: its start; nbytes: of all its elements; first, many: of its values, as places in the thread's rows
ACCESS = np.dtype(
    [
        *(("row", "i4"), ("who", "u4"), ("line", "i4"), ("how", "u1"), ("array", "i2"), ("offset", "i8")),
        *(("nbytes", "u1"), ("first", "i4"), ("many", "u1")),
    ]
)
HOW = ["load", "store", "atomic", "copy", "source", "lands", "matrix"]
LOAD, STORE, ATOMIC, COPY, SOURCE, LANDS, MATRIX = range(7)
WRITING = (STORE, ATOMIC, LANDS)
_NEAR = 256  # bytes around an array that still count as its own
_DTYPES = {
    "float": "f4",
    "double": "f8",
    "half": "f2",
    "__half": "f2",
    "int": "i4",
    "short": "i2",
    "char": "i1",
}
_DTYPES |= {"long long": "i8", "long": "i8", "bool": "u1", "__half2": "f2"} | {
    f"float{n}": "f4" for n in "234"
}
_LETTERS = {"int": "i", "uint": "u", "float": "f", "bool": "u"}


@dataclass(frozen=True)
class Held:
    """An array. space: "global" | "shared". start: a device address; of shared ones, in the window. before: the bytes that it held,
    uint8[nbytes]; None if nothing."""

    name: str
    space: str
    start: int
    nbytes: int
    shape: tuple[int, ...]
    dtype: np.dtype
    axes: str = ""
    before: np.ndarray | None = None

    def element(self, flat: int) -> str:
        """`tile[1,2]`, `input[b=0,c=1]`."""
        if len(self.shape) < 2 or 0 in self.shape:
            return f"{self.name}[{flat}]"
        index = []
        for extent in self.shape[:0:-1]:
            flat, i = divmod(flat, extent)
            index.append(i)
        index = [flat, *reversed(index)]
        names = self.axes if len(self.axes) == len(index) else ""
        return f"{self.name}[{','.join(f'{names[i]}={v}' if names else str(v) for i, v in enumerate(index))}]"


class Record:
    """taken: a launch's record. rows: places in it; who: thread in the block | block << 10."""

    def __init__(self, taken: dict):
        self.taken, self.rows, self.points = taken, taken["rows"], taken["points"]
        self.full, self.grid, self.block = taken["full"], tuple(taken["grid"]), tuple(taken["block"])
        self.point = self.rows["point"].astype(np.int64)
        self.kind = np.array([KIND[p[0]] for p in self.points], np.int8)[self.point]
        self.order = np.argsort(self.rows["who"], kind="stable")  # rows, thread by thread
        who, starts = np.unique(self.rows["who"][self.order], return_index=True)
        ends = np.append(starts[1:], len(self.order))
        self._places: dict[int, dict[int, np.ndarray]] = {}
        self.threads = {
            int(w): self.order[a:b]
            for w, a, b in zip(who.tolist(), starts.tolist(), ends.tolist(), strict=True)
        }

    def of(self, row: int) -> tuple:
        """What a row says: its point."""
        return self.points[self.point[row]]

    @cached_property
    def scopes(self) -> Scopes:
        return scopes(self.taken["text"])

    # -- what is where ------------------------------------------------------------------------------

    @cached_property
    def arrays(self) -> list[Held]:
        """Arguments, variables of the module, shared arrays."""
        found = []
        for name, start, nbytes, shape, type_, axes, before in self.taken["arrays"]:
            if type_[:1] in "<|>":
                found.append(Held(name, "global", start, nbytes, tuple(shape), np.dtype(type_), axes, before))
                continue
            declared = next(
                (v.type for v in self.scopes.variables if not v.function and v.name == name), None
            )
            found.append(Held(name, "global", start, nbytes, *_declared(declared, nbytes), "", before))
        for name, start, nbytes, shape, itemsize, type_ in self.taken["shared"]:
            if nbytes:
                found.append(
                    Held(name, "shared", start, nbytes, *_shared(tuple(shape), itemsize, type_, nbytes))
                )
        return found

    def number(self, name: str) -> int:
        """Of an array. Errors: KeyError."""
        for n, held in enumerate(self.arrays):
            if held.name == name:
                return n
        raise KeyError(name)

    def place(self, address: int) -> tuple[int, int]:
        """(number of the array, bytes from its start) of a device address; -1: none, as for local memory."""
        slots, space = self.taken["slots"], "global"
        if slots <= address < 2 * slots:
            inside = (address - slots) % abi.SLOT_BYTES
            if inside >= abi.LOCAL_START:
                return -1, address
            space, address = "shared", inside
        best, least = (-1, address - (address >> 63 << 64)), _NEAR  # as it fits in an int64
        for n, held in enumerate(self.arrays):
            offset = address - held.start
            away = max(0, -offset, offset - held.nbytes + 1)
            if held.space == space and away < min(least, max(_NEAR, held.nbytes)):
                best, least = (n, offset), away
        return best

    # -- accesses -----------------------------------------------------------------------------------

    @cached_property
    def accesses(self) -> np.ndarray:
        """ACCESS[]: all of them, in the order of rows, and then the arrivals of asynchronous copies."""
        at = np.flatnonzero(self.kind == KIND["at"])
        found = np.zeros(len(at), ACCESS)
        found["row"], found["who"] = at, self.rows["who"][at]
        points, which = np.unique(self.point[at], return_inverse=True)
        about = np.array([_about(self.points[p]) for p in points], np.int64).reshape(-1, 2)[which]
        found["how"], found["nbytes"] = about.T
        addresses, which = np.unique(self.rows["value"][at], return_inverse=True)
        places = np.array([self.place(a) for a in addresses.tolist()], np.int64).reshape(-1, 2)[which]
        found["array"], found["offset"] = places.T
        # the values follow, in the thread's own order
        position = np.empty(len(self.rows), np.int64)
        position[self.order] = np.arange(len(self.rows))
        other = np.append(~np.isin(self.kind[self.order], (KIND["given"], KIND["got"])), True)
        others = np.flatnonzero(other)
        found["first"] = position[at] + 1
        lines = np.array([p[1] for p in self.points])[self.point[self.order]]
        known = np.maximum.accumulate(np.where(lines > 0, np.arange(len(lines)), 0))
        found["line"] = lines[known[position[at]]]  # in a function without lines: that of its call
        found["many"] = np.minimum(others[np.searchsorted(others, found["first"])] - found["first"], 255)
        landed = self._landing(found)
        return np.concatenate([found, landed]) if len(landed) else found

    @cached_property
    def access_at(self) -> dict[int, int]:
        """Row -> its access, by number; arrivals have none of their own."""
        a = self.accesses
        return {row: i for i, row in enumerate(a["row"].tolist()) if a["how"][i] != LANDS}

    def _landing(self, found: np.ndarray) -> np.ndarray:
        """Copies arrive when their thread waits for their group: the record of a `cp.async` says only when it begins. first: the
        place of their source among the accesses."""
        events = [
            (int(found["row"][i]), i) for i in np.flatnonzero(np.isin(found["how"], (COPY, SOURCE))).tolist()
        ]
        if not events:
            return np.empty(0, ACCESS)
        events += [(row, -1) for row in np.flatnonzero(self.kind == KIND["async"]).tolist()]
        out: list[np.void] = []
        groups = defaultdict(lambda: [[]])  # who -> lists of accesses; the last one is not committed
        for row, i in sorted(events):
            of = groups[int(self.rows["who"][row])]
            opcode, operands = self.of(row)[4:6] if i < 0 else ("", "")
            if i >= 0:
                of[-1].append(i)
            elif "commit" in opcode:
                of.append([])
            elif "wait" in opcode:
                done = len(of) if "all" in opcode else max(0, len(of) - 1 - int(operands or 0))
                here, of[:done] = [i for group in of[:done] for i in group], []
                of[:] = of or [[]]
                for to, source in zip(here[::2], here[1::2], strict=True):
                    out.append(landed := found[to].copy())
                    landed["row"], landed["how"], landed["first"] = row, LANDS, source
        return np.array(out, ACCESS)

    def moved(self, access: np.void, kind: str) -> bytes:
        """The bytes that an access is given ("given"), or gets ("got")."""
        out, first = b"", int(access["first"])
        for row in self.order[first : first + int(access["many"])].tolist():
            if (p := self.of(row))[0] == kind:
                out += int(self.rows["value"][row]).to_bytes(8, "little")[: BYTES.get(p[-1], 8)]
        return out

    def values(self, access: np.void) -> np.ndarray:
        """The elements read, or written (by an atomic: its operand), as the array's type."""
        data = self.moved(access, "got" if access["how"] in (LOAD, MATRIX) else "given")
        dtype = self.arrays[access["array"]].dtype if access["array"] >= 0 else None
        if dtype is None or len(data) % dtype.itemsize:
            type_ = self.of(int(access["row"]))[6]
            size = BYTES.get(type_, 1)
            dtype = np.dtype(
                {"f": "f", "s": "i"}.get(type_[0], "u") + str(size) if size in (2, 4, 8) else "u1"
            )
            data = data[: len(data) // dtype.itemsize * dtype.itemsize]
        return np.frombuffer(data, dtype)

    def element(self, access: np.void) -> str:
        """The name of the element that an access is to; of local memory: ""."""
        if access["array"] < 0:
            return ""
        held = self.arrays[access["array"]]
        return held.element(int(access["offset"]) // held.dtype.itemsize)

    # -- threads ------------------------------------------------------------------------------------

    def of_thread(self, who: int) -> Record:
        """What a thread does, alone."""
        own = Record({**self.taken, "rows": self.rows[self.threads[who]], "printed": []})
        own.scopes, own.arrays = self.scopes, self.arrays
        return own

    def places(self, who: int) -> dict[int, np.ndarray]:
        """Point -> where it is in the thread's rows."""
        if who not in self._places:
            points = self.point[self.threads[who]]
            order = np.argsort(points, kind="stable")
            parts = np.split(order, np.flatnonzero(np.diff(points[order])) + 1)
            self._places[who] = {int(points[part[0]]): part for part in parts if len(part)}
        return self._places[who]

    def same(self, who: int, other: int, place: int) -> int | None:
        """Where another thread executes what a thread executes at a place of its rows, having come to it as many times."""
        if other not in self.threads:
            return None
        point = int(self.point[self.threads[who][place]])
        mine, theirs = (self.places(w).get(point, np.empty(0)) for w in (who, other))
        nth = int(np.searchsorted(mine, place))
        return int(theirs[nth]) if nth < len(theirs) else None

    def thread_of(self, who: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """(threadIdx, blockIdx)"""
        t, b = who & 1023, who >> 10
        (bx, by, _), (gx, gy, _) = self.block, self.grid
        return (t % bx, t // bx % by, t // (bx * by)), (b % gx, b // gx % gy, b // (gx * gy))

    def who_of(self, thread, block) -> int:
        (bx, by, _), (gx, gy, _) = self.block, self.grid
        t, b = thread[0] + bx * (thread[1] + by * thread[2]), block[0] + gx * (block[1] + gy * block[2])
        return t | b << 10


def _about(point: tuple) -> tuple[int, int]:
    """(one of HOW, bytes) of an access."""
    how, type_, count = point[4], *point[6:8]
    return HOW.index(how) if how in HOW else ATOMIC, BYTES.get(type_, 1) * count


def _declared(t: Type | None, nbytes: int) -> tuple[tuple[int, ...], np.dtype]:
    """(shape, dtype) of a variable."""
    shape, of = ((), t) if t is None or t.kind != "array" else (t.shape, t.of)
    letter = _LETTERS.get(of.kind, "") if of else ""
    if letter and of.nbytes in (1, 2, 4, 8):
        dtype = np.dtype(f"{letter}{of.nbytes}")
    else:
        dtype = np.dtype("f4" if nbytes % 4 == 0 else "u1")
    count = nbytes // dtype.itemsize
    return shape if shape and int(np.prod(shape)) == count else (count,), dtype


def _shared(
    shape: tuple[int, ...], itemsize: int, type_: str, nbytes: int
) -> tuple[tuple[int, ...], np.dtype]:
    """(shape, dtype) of a shared array; a vector's parts are a further axis."""
    plain = type_.replace("const", "").replace("volatile", "").replace("signed", "").strip()
    name = _DTYPES.get(plain.removeprefix("un").strip()) or {2: "f2", 4: "f4", 8: "f8", 1: "u1"}.get(
        itemsize, "f4"
    )
    dtype = np.dtype(name.replace("i", "u") if type_.startswith(("unsigned", "uint")) else name)
    parts = max(itemsize, dtype.itemsize) // dtype.itemsize
    shape = (*shape, parts) if parts > 1 and shape else shape
    count = nbytes // dtype.itemsize
    return shape if shape and int(np.prod(shape)) == count else (count,), dtype


def number(bits: int, type_: str) -> int | float | bool:
    """The value of bits of a PTX type."""
    if type_ == "pred":
        return bool(bits & 1)
    if type_ in ("f16", "f32", "f64"):
        nbytes = BYTES[type_]
        return struct.unpack({2: "<e", 4: "<f", 8: "<d"}[nbytes], bits.to_bytes(8, "little")[:nbytes])[0]
    size = 8 * BYTES.get(type_, 8)
    bits &= (1 << size) - 1
    return bits - (1 << size) if type_[0] == "s" and bits >> (size - 1) else bits


def typed(bits: int, t: Type) -> int | float | bool:
    """The value of bits of a type of C."""
    if t.kind == "bool":
        return bool(bits & 255)
    letter = {"int": "s", "uint": "u", "float": "f"}.get(t.kind)
    return number(bits, f"{letter}{8 * t.nbytes}") if letter else bits
