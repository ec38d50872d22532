"""What arrays held at a moment: what was there before, and every write up to then."""

from __future__ import annotations

import numpy as np

from .moments import Moments
from .record import LANDS, STORE, WRITING


def held(moments: Moments, array: str, t: int, block: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(values of an array in its shape and dtype, whether each is known, bool in the same shape) after the moment t; of a block, if
    it is shared. Errors: KeyError."""
    record, time = moments.record, moments.time
    number = record.number(array)
    about, a = record.arrays[number], record.accesses
    data, known = np.zeros(about.nbytes, np.uint8), np.zeros(about.nbytes, bool)
    if about.before is not None:
        data[:], known[:] = about.before, True
    at = time[a["row"]]
    mine = a[(a["array"] == number) & np.isin(a["how"], WRITING) & (at <= t) & (at >= 0)]
    if about.space == "shared":
        mine = mine[mine["who"] >> 10 == block]
    for access in mine[np.lexsort((mine["row"], time[mine["row"]]))]:
        apply(moments, access, data, known)
    size = about.dtype.itemsize
    whole = about.nbytes // size * size
    good = known[:whole].reshape(-1, size).all(1)
    return data[:whole].view(about.dtype).reshape(about.shape), good.reshape(about.shape)


def element(moments: Moments, array: str, writes: np.ndarray, flat: int) -> tuple[object, bool]:
    """(value of an element, a flat index, whether it is known) after these writes of it, ACCESS[] in the order of time."""
    about = moments.record.arrays[moments.record.number(array)]
    part = slice(flat * (size := about.dtype.itemsize), (flat + 1) * size)
    whole = (writes["how"] == STORE) & (writes["offset"] <= part.start)
    whole &= writes["offset"] + writes["nbytes"].astype(np.int64) >= part.stop
    begin = np.flatnonzero(whole)[-1:].sum()  # what was before does not matter
    data, known = np.zeros(about.nbytes, np.uint8), np.zeros(about.nbytes, bool)
    if about.before is not None:
        data[part], known[part] = about.before[part], True
    for access in writes[begin:]:
        apply(moments, access, data, known)
    return data[part].view(about.dtype)[0].item(), bool(known[part].all())


def apply(moments: Moments, access: np.void, data: np.ndarray, known: np.ndarray) -> None:
    """What a write does to the bytes of its array, uint8[nbytes], and to what is known of them, bool[nbytes]."""
    record, at, nbytes = moments.record, int(access["offset"]), int(access["nbytes"])
    if access["how"] == STORE:
        new = record.moved(access, "given")
    elif access["how"] == LANDS:
        source = record.accesses[int(access["first"])]
        n = int.from_bytes(record.moved(source, "given"), "little") if source["many"] else nbytes
        before = record.arrays[source["array"]].before
        new = before[int(source["offset"]) :][:n].tobytes() if n else b""
        new += bytes(nbytes - len(new))
    elif 0 <= at <= len(data) - nbytes:
        how, _, type_ = record.of(int(access["row"]))[4:7]
        letter = {"f": "f", "s": "i"}.get(type_[0], "u")
        dtype = np.dtype("f2") if "x" in type_ else np.dtype(f"{letter}{nbytes}")
        old = data[at : at + nbytes].copy().view(dtype)
        new = updated(how, old, np.frombuffer(record.moved(access, "given"), dtype)).astype(dtype).tobytes()
    else:
        return
    end = min(at + len(new), len(data))
    if 0 <= at < end:
        data[at:end] = np.frombuffer(new, np.uint8)[: end - at]
        known[at:end] = True


_ATOMICS = {
    "add": lambda old, new: old + new,
    "exch": lambda old, new: new,
    "min": np.minimum,
    "max": np.maximum,
    "and": lambda old, new: old & new,
    "or": lambda old, new: old | new,
    "xor": lambda old, new: old ^ new,
    "inc": lambda old, new: np.where(old >= new, 0, old + 1),
    "dec": lambda old, new: np.where((old == 0) | (old > new), new, old - 1),
}


def updated(how: str, old: np.ndarray, given: np.ndarray) -> np.ndarray:
    """What an atomic leaves in memory. given: its operands, those of a cas one after the other."""
    new = given[: len(old)]
    if how == "cas":
        return given[len(old) :] if (old == new).all() else old
    with np.errstate(all="ignore"):
        return _ATOMICS.get(how, lambda old, _: old)(old, new)
