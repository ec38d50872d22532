"""Why a counted line costs what it does, from the requests of a run: which lanes take part, what they touch, and the change
that fits. A gate's own sentence is for who has not had the idea yet; here the idea is there, and something else costs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ..cuda.text import CudaText, read
from ..cuda.values import Values
from ..devices.virtual.explain.metrics import Request
from .compare import either

MOST_REQUESTS = 1 << 15
_VECTOR = re.compile(r"\b(u?(?:char|short|int|long)|float|double)([234])\b")
_BANKS, _WORD = 32, 4
_FEW = 16  # lanes: fewer on average leave more than half of a request unused
_OFTEN = 4  # loads of one element, after which tiles would help


def reason(quantity: str, line: int, source: str, requests: Sequence[Request], excess: float) -> str:
    """What makes a line cost much of a quantity, as fact and remedy; "" if not known. excess: how much more than allowed."""
    if quantity == "shared_load_requests":
        return _one_by_one(line, requests)
    if "shared" in quantity or "conflict" in quantity or "wavefront" in quantity:
        return _conflicts(line, read(source), requests, excess) if "conflict" in quantity else ""
    is_far = "global" in quantity or quantity.startswith(("bytes", "sectors"))
    if "busiest" in quantity or not is_far:
        return ""
    far = [r for r in requests if r.space == "global" and r.kind != "atomic"]
    here = [r for r in far if r.line == line]
    if not here:
        return ""
    file = read(source)
    ways = _split(line, file, here) or _twice(far, line) or _few(line, here)
    return ways or _small_tile(line, file, here, requests)


def _split(line: int, file: CudaText, here: list[Request]) -> str:
    """A vector that the compiler made several accesses of."""
    named = _VECTOR.search(file.lines[line - 1]) if 0 < line <= len(file.lines) else None
    wide = Values(file).size_of(named[0]) if named else 0
    if not wide or max(r.size for r in here) >= wide:
        return ""
    function = file.function_at(line)
    own = (v for v in file.variables if function and function.whole.holds(v))
    long = [v for v in own if " ".join(v.type.split()) in _LONG]
    why = ""
    if long:
        first = min(long, key=lambda v: v.start)
        why = f" Its address is computed from {first.type} indices ({first.name} in line {first.line}): with int it stays whole."
    times = wide // max(r.size for r in here)
    return f"Line {line} names a {named[0]}, but the compiler made {times} accesses of {wide // times} bytes of it.{why}"


_LONG = {"long long", "long", "size_t", "int64_t", "uint64_t", "unsigned long long", "ptrdiff_t"}


def _twice(far: list[Request], line: int) -> str:
    """Elements that are stored more than once."""
    stores = [(r.line, r.addresses[r.addresses >= 0]) for r in far if r.kind == "store"]
    if not any(at == line for at, _ in stores):
        return ""
    every = np.concatenate([a for _, a in stores])
    places, counts = np.unique(every, return_counts=True)
    again = places[counts > 1]
    if 4 * len(again) < len(places):
        return ""
    lines = sorted({at for at, a in stores if np.isin(a, again).any()})
    where = f"line{'s' * (len(lines) > 1)} {either([*map(str, lines)], 'and')}"
    often = f"{len(again):,} of {len(places):,} elements are stored more than once, by {where}"
    return f"{often}: find the value first, then store it once."


def _few(line: int, here: list[Request]) -> str:
    """Requests in which few lanes take part."""
    lanes = np.mean([(r.addresses >= 0).sum() for r in here])
    if lanes >= _FEW:
        return ""
    return f"In the {len(here):,} requests of line {line}, {lanes:.3g} of 32 lanes take{'s' * bool(lanes == 1)} part on average: the others skip it. Let all lanes of a warp go through the same steps, so that each step is one request for all of them."


def _one_by_one(line: int, requests: Sequence[Request]) -> str:
    """Requests of one lane, one of each warp: the warp's numbers are added up already."""
    here = [r for r in requests if r.line == line and r.space == "shared" and r.kind == "load"]
    warps = {(r.block, r.warp) for r in here}
    if len(warps) != len(here) or len({b for b, _ in warps}) == len(warps):
        return ""
    if any((r.addresses >= 0).sum() > 1 for r in here):
        return ""
    fact = f"In each request of line {line}, one lane takes part: one warp after another adds its number."
    return f"{fact} Put the number of each warp into a place of its own, and let one warp read all of them with one request."


def _small_tile(line: int, file: CudaText, here: list[Request], requests: Sequence[Request]) -> str:
    """Elements that are read again and again although the block keeps them in shared memory."""
    loads = [np.unique(r.addresses[r.addresses >= 0]) for r in here if r.kind == "load"]
    stored = [r for r in requests if r.space == "shared" and r.kind == "store"]
    filled, read_ = (sum((r.addresses >= 0).sum() * r.size for r in some) for some in (stored, here))
    if not loads or filled < read_:  # what is loaded goes elsewhere
        return ""
    every = np.concatenate(loads)
    times = len(every) / len(np.unique(every))
    values = Values(file)
    extents = [e for v in file.variables if "__shared__" in v.words for e in v.extents if e]
    names = {p.code for e in extents for p in (e, *e.all("identifier")) if p.code.isidentifier()}
    sizes = [f"{name} = {values.named(name)}" for name in sorted(names) if values.named(name)]
    if times < _OFTEN or not sizes:
        return ""
    fact = f"Line {line} reads each element {times:.3g} times, once for every tile that needs it"
    return f"{fact}: larger tiles share more ({', '.join(sizes)})."


# -- bank conflicts ------------------------------------------------------------------------------------------


def _conflicts(line: int, file: CudaText, requests: Sequence[Request], excess: float) -> str:
    """Which lanes meet in a bank, and the length of a row that keeps them apart, if there is one."""
    values = Values(file)
    shared = [v for v in file.variables if "__shared__" in v.words and len(v.extents) > 1]
    tiles = {v.name: shape for v in shared if len(shape := values.extents(v)) > 1}
    array = next((name for name in tiles if file.subscripts(name, line)), "")
    at = {n for n in range(1, len(file.lines) + 1) if array and file.subscripts(array, n)}
    alone = {n for n in at if not any(file.subscripts(other, n) for other in tiles if other != array)}
    near = [r for r in requests if r.space == "shared" and r.line in at]
    known = [r.addresses[r.addresses >= 0] for r in near if r.line in alone]
    if not known:
        return ""
    variable = next(v for v in file.variables if v.name == array)
    size, pitch = values.size_of(variable.type), tiles[array][-1]
    start, count = min(a.min() for a in known) // 16 * 16, int(np.prod(tiles[array]))
    places, end = ((r, r.addresses[r.addresses >= 0]) for r in near), start + size * count
    near = [r for r, at in places if ((at >= start) & (at < end)).all()]
    worst = max((r for r in near if r.line == line), key=lambda r: _passes(r.addresses, r.size), default=None)
    if worst is None or size != _WORD or _passes(worst.addresses, worst.size) < 2:
        return ""
    step = max(r.size for r in near) // _WORD  # rows have to keep vectors aligned
    now = sum(_passes(r.addresses, r.size) for r in near)
    best = {
        pad: sum(_passes(_padded(r.addresses, start, pitch, pad), r.size) for r in near)
        for pad in range(step, 33, step)
    }
    a, b = _meeting(worst.addresses)
    fact = f"In line {line}, lanes {a} and {b} of a warp want different words of one bank, {abs(worst.addresses[b] - worst.addresses[a]) // _WORD} words apart"
    pad = min(best, key=lambda p: (best[p], p))
    least = sum(len({lane * r.size // 128 for lane in np.flatnonzero(r.addresses >= 0)}) for r in near)
    if now - best[pad] >= min(max(excess, 1), (now - least) / 2):  # there may be more in another array
        return f"{fact}: with rows of {pitch + pad} words instead of {pitch} in {array}, {now - best[pad]:,} of the conflicts are gone."
    aligned = f" (its reads of {step} words at once need rows that are a multiple of {step} words long)"
    return (
        f"{fact}. Longer rows of {array} do not help{aligned * (step > 1)}: change how the lanes share the elements, or store a "
        "row's words in another order, such as the column XOR a part of the row's number (a swizzle)."
    )


def _passes(addresses: np.ndarray, size: int) -> int:
    """Wavefronts of a request to shared memory: for each group of lanes, the most different words in one bank."""
    group = 32 if size <= _WORD else 16 if size == 8 else 8
    total = 0
    for first in range(0, 32, group):
        part = addresses[first : first + group]
        words = np.unique((part[part >= 0, None] // _WORD + np.arange(max(1, size // _WORD))).ravel())
        total += np.bincount(words % _BANKS).max(initial=0)
    return int(total)


def _padded(addresses: np.ndarray, start: int, pitch: int, pad: int) -> np.ndarray:
    """The addresses if the rows were longer."""
    row = (addresses - start) // _WORD // pitch
    return np.where(addresses < 0, addresses, addresses + row * pad * _WORD)


def _meeting(addresses: np.ndarray) -> tuple[int, int]:
    """The first two lanes that want different words of one bank."""
    words = addresses // _WORD
    lanes = np.flatnonzero(addresses >= 0)
    pairs = ((a, b, words[a] - words[b]) for b in lanes for a in lanes[lanes < b])
    return next((a, b) for a, b, apart in pairs if apart and apart % _BANKS == 0)
