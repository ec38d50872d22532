"""A launch of a kernel whose inputs are all different numbers, with a note of every access (`instrument/notes`): a number tells
which element it is, in whatever tile or register it is found. What the right outputs depend on, the puzzle's reference tells."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ...course.declare import Case, Kernel, Puzzle
from ...course.parameters import Array, Scalar
from ...cuda.values import tunables
from ...devices.launching import triple
from ...devices.virtual.instrument import notes
from ...errors import BackwarpError, KernelFault
from ..compare import axis_index, expectations, right_outputs
from ..runs import Outcome, Pace, Setup, Trial, place, start

BITS = {"float32": np.uint32, "float16": np.uint16}
MOST, MOST_OF_MATRICES = 1000, 3000  # elements of the inputs of a case
CHANGED = (4096.0, -4096.0)  # in place of an input, to see what depends on it
WARP = 32
FACTOR = -2  # in place of a row: read from registers, as part of a matrix
Element = tuple[int, int]  # the number of the array, and the flat index


@dataclass(frozen=True)
class Where:
    """An array of a launch. shape: with merged axes apart; start: its address."""

    array: Array
    shape: tuple[int, ...]
    start: int
    itemsize: int

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def steps(self) -> list[int]:
        return [math.prod(self.shape[i + 1 :]) for i in range(len(self.shape))]

    def at(self, flat: int | np.ndarray) -> np.ndarray:
        """[..., axes]"""
        return np.stack(np.unravel_index(np.clip(flat, 0, self.size - 1), self.shape), -1)

    def called(self, flat: int) -> str:
        """`A[m=0,k=1]`"""
        return f"{self.array.name}[{axis_index(self.array.letters, self.at(flat))}]"


@dataclass(frozen=True)
class Use:
    """A read of an input's element. row: of the notes; stored: that of the store into the tile that it is read from, -1 if it is read
    from the array, or FACTOR; source: that of the read from the array, -1 if it is not known."""

    thread: int
    array: int
    element: int
    row: int
    stored: int
    source: int


@dataclass(frozen=True)
class Stored:
    """A store of a number in an output's element."""

    thread: int
    at: Element
    row: int
    number: float


@dataclass(frozen=True)
class Lost:
    """A read from a tile of what another thread has put there over what the reader had stored. Rows of the notes: of the read, of
    that store, and of the reader's own."""

    read: int
    store: int
    own: int


@dataclass
class Launch:
    """sites, rows: what is noted. block: threads of a block. faulted: it was stopped; partial: or else not all is noted. combined: threads use what others have computed.
    lines, calls: of the rows, and of the calls that they are in. lost: of instructions that else read what their thread stored. factors: (how often the lane has executed this, the byte among its registers, the element,
    the line that it was read in) of products of matrices."""

    trial: Trial
    sites: list[notes.Site]
    rows: np.ndarray
    arrays: list[Where]
    faulted: bool
    partial: bool
    combined: bool
    lines: list[int] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    stores: list[Stored] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    factors: list[tuple[int, int, Use, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.block = math.prod(triple(self.trial.launch.block, "block"))
        _Follow(self).run()

    @property
    def inputs(self) -> Iterator[tuple[int, Where]]:
        return ((i, w) for i, w in enumerate(self.arrays) if w.array.role == "in" and w.array.dtype in BITS)

    def site(self, row: int) -> notes.Site:
        return self.sites[self.rows["site"][row] - 1]

    def called(self, element: Element) -> str:
        return self.arrays[element[0]].called(element[1])

    @cached_property
    def needs(self) -> dict[int, np.ndarray]:
        """For each input: [its elements, elements of all outputs], whether the right result depends on it."""
        base, found = self.right(self.trial.arrays), {}
        for i, w in self.inputs:
            found[i] = np.zeros((w.size, base.size), bool)
            for e in range(w.size):
                for new in CHANGED:  # a smaller number may show what a larger one does not
                    if not found[i][e].any():
                        x = self.trial.arrays[w.array.name].copy()
                        x.flat[e] = new
                        found[i][e] = self.right({**self.trial.arrays, w.array.name: x}) != base
        return found

    def right(self, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """The right elements of all outputs."""
        kernel = self.trial.outcome.kernel
        with np.errstate(all="ignore"):
            outputs = right_outputs(kernel, arrays, self.trial.dims)
        return np.concatenate([outputs[p.name].ravel() for p in kernel.outputs])

    def needed(self, array: int, outputs: set[Element]) -> np.ndarray:
        """Whether any of these outputs depends on each element of an input."""
        names, begin, begins = [w.array.name for w in self.arrays], 0, {}
        for p in self.trial.outcome.kernel.outputs:
            begins[i] = begin if (i := names.index(p.name)) not in begins else begins[i]
            begin += self.arrays[i].size
        return self.needs[array][:, [begins[i] + e for i, e in outputs]].any(1)


class _Follow:
    """Fills in what a launch reads and stores, row by row."""

    def __init__(self, launch: Launch):
        self.launch = launch
        self.inputs = {i for i, _ in launch.inputs}
        self.known: dict[int, dict[int, Element]] = {4: {}, 2: {}}  # by bytes of a number, and its bits
        for i, w in launch.inputs:
            numbers = np.ascontiguousarray(launch.trial.arrays[w.array.name]).view(BITS[w.array.dtype])
            self.known[w.itemsize] |= {bits: (i, e) for e, bits in enumerate(numbers.ravel().tolist())}
        self.tile: dict[int, tuple[int, int, Element]] = {}  # by address: rows of the store and the read
        self.computed: dict[int, int] = {}  # by address: the thread that stored another number
        self.own: dict[tuple[int, int], int] = {}  # rows of a thread's last store into each place of a tile
        self.last: dict[int, tuple[int, int]] = {}  # by address: thread and row of the last store into a tile
        self.lost: list[Lost] = []
        # instructions that read what others stored where their thread stored nothing
        self.shared: set[int] = set()
        self.readers: dict[int, set[int]] = defaultdict(set)  # of what an instruction stored
        self.read: dict[tuple[int, Element], int] = {}  # rows of a thread's reads from arrays
        self.taken: dict[tuple[int, Element], int] = {}  # the lines of its reads from tiles
        self.called: dict[tuple[int, str], int] = {}  # the line of its last call of a function, and of any
        self.copying: dict[int, int] = {}  # where a thread copies to
        self.times: dict[tuple[int, int], int] = {}  # how often a thread has executed an instruction

    def run(self) -> None:
        launch, rows = self.launch, self.launch.rows
        threads = (rows["block"] * launch.block + rows["thread"]).tolist()
        fields = (rows[name].tolist() for name in ("site", "address", "value"))
        for row, (thread, number, address, words) in enumerate(zip(threads, *fields, strict=True)):
            site = launch.sites[number - 1]
            launch.calls.append(self.called.get((thread, site.function)) or self.called.get((thread, ""), 0))
            launch.lines.append(site.line or launch.calls[-1])
            if site.kind == "call":
                self.called[thread, site.function] = self.called[thread, ""] = site.line
            elif site.kind == "rows":
                self.taken |= {(thread, e): launch.lines[-1] for _, e in self._elements(words, 16)}
            elif site.kind == "matrix":
                self._factors(thread, row, rows["names"][row][: len(site.names)])
            elif (at := self._array_at(address)) is not None:
                self._of_array(at, site, thread, row, address, words)
            else:
                self._of_tile(site, thread, row, address, words)
        sites = rows["site"]
        own = (lost for lost in self.lost if sites[lost.read] not in self.shared)
        launch.lost = [lost for lost in own if self.readers[sites[lost.store]] - {sites[lost.read]}]

    def _array_at(self, address: int) -> int | None:
        arrays = enumerate(self.launch.arrays)
        return next((i for i, w in arrays if 0 <= address - w.start < w.size * w.itemsize), None)

    def _elements(self, words: Sequence[int], nbytes: int) -> Iterator[tuple[int, Element]]:
        """(byte, element) of the numbers that are moved."""
        for i, word in enumerate(words[: max(nbytes // 4, 1)]):
            if nbytes >= 4 and word in self.known[4]:
                yield 4 * i, self.known[4][word]
            for j, half in enumerate((word & 0xFFFF, word >> 16)[: nbytes // 2]):
                if half in self.known[2]:
                    yield 4 * i + 2 * j, self.known[2][half]

    def _factors(self, thread: int, row: int, registers: np.ndarray) -> None:
        words = registers.astype(np.uint32).tolist()
        key = thread, self.launch.rows["site"][row]
        time = self.times[key] = self.times.get(key, 0) + 1
        for byte, e in self._elements(words, 4 * len(words)):
            self.launch.uses.append(Use(thread, *e, row, FACTOR, -1))
            line = self.taken.get((thread, e), self.launch.lines[row])
            self.launch.factors.append((time, byte, self.launch.uses[-1], line))

    def _of_array(
        self, at: int, site: notes.Site, thread: int, row: int, address: int, words: list[int]
    ) -> None:
        w = self.launch.arrays[at]
        first, count = (address - w.start) // w.itemsize, max(site.nbytes // w.itemsize, 1)
        for i in range(count):
            e = at, first + i
            if site.kind in ("store", "atomic") and w.array.is_output:
                known = np.array(words, np.uint32).view(w.array.dtype) if count * w.itemsize <= 16 else None
                number = 0.0 if known is None else float(known[i])
                self.launch.stores.append(Stored(thread, e, row, number))
            elif site.kind == "copy":
                self.tile[self.copying.get(thread, 0) + i * w.itemsize] = row, row, e
            elif site.kind == "load" and at in self.inputs:
                self.read[thread, e] = row
                self.launch.uses.append(Use(thread, *e, row, -1, row))

    def _of_tile(self, site: notes.Site, thread: int, row: int, address: int, words: list[int]) -> None:
        moved = dict(self._elements(words, site.nbytes))
        if site.kind == "copy":
            self.copying[thread] = address
        elif site.kind == "atomic":
            self.launch.combined = True
        elif site.kind == "store":
            for i in range(0, site.nbytes, 4):
                self.computed[address + i] = thread if words[i // 4] and not moved else -1
                self.own[thread, address + i], self.last[address + i] = row, (thread, row)
            for byte, e in moved.items():
                if (thread, e) in self.read:  # not a sum that happens to be the same
                    self.tile[address + byte] = row, self.read[thread, e], e
        else:
            for i in range(0, site.nbytes, 4):
                self._read_back(thread, row, address + i)
            others = (self.computed.get(address + i, -1) for i in range(0, site.nbytes, 4))
            self.launch.combined |= any(other not in (-1, thread) for other in others)
            for byte, e in moved.items():
                stored, source, held = self.tile.get(address + byte, (0, 0, (-1, -1)))
                if held == e:
                    self.launch.uses.append(Use(thread, *e, row, stored, source))
                    self.taken[thread, e] = self.launch.lines[row]

    def _read_back(self, thread: int, row: int, address: int) -> None:
        sites, own = self.launch.rows["site"], self.own.get((thread, address), -1)
        by, store = self.last.get(address, (thread, own))
        if by != thread and own < 0:
            self.shared.add(sites[row])
        elif own < store and sites[own] != sites[store]:
            self.lost.append(Lost(row, store, own))
        if store >= 0:
            self.readers[sites[store]].add(sites[row])


def small(puzzle: Puzzle, kernel: Kernel, cases: Sequence[Case], sites: list[notes.Site]) -> list[Case]:
    """Those whose inputs are small enough, with many axes of different lengths first."""
    found, most = [], MOST_OF_MATRICES if any(s.kind == "matrix" for s in sites) else MOST
    for case in cases:
        dims = puzzle.full_dims(case)
        shapes = [a.shape(dims) for a in kernel.arrays if a.role == "in" and a.dtype in BITS]
        elements = sum(map(math.prod, shapes))
        if 0 < elements <= most and not case.special:
            others = [p.resolve(dims) for p in kernel.params if isinstance(p, Scalar) and p.dtype == "int32"]
            different = {n for shape in (*shapes, others) for n in shape if n > 1}
            found.append((-len(different), elements, len(found), case))
    return [case for *_, case in sorted(found)]


def labelled(kernel: Kernel, arrays: Mapping[str, np.ndarray], short: bool) -> dict[str, np.ndarray]:
    """The inputs, each a different number. short: of 11 bits, as half precision and TF32 have them."""
    own = [a for a in kernel.arrays if a.role == "in" and a.dtype in BITS and not callable(a.values)]
    rng, count = np.random.default_rng(5), sum(arrays[a.name].size for a in own)
    order = rng.permutation(count)
    numbers = (1 + order % 1024 / 1024) * 2.0 ** (order // 1024 - 1) if short else rng.uniform(0.5, 2, count)
    parts = iter(np.where(order % 3, 1, -1) * numbers)
    new = {a.name: np.array([next(parts) for _ in range(arrays[a.name].size)], a.dtype) for a in own}
    return {name: new[name].reshape(x.shape) if name in new else x for name, x in arrays.items()}


def launched(puzzle: Puzzle, kernel: Kernel, case: Case, module, sites: list[notes.Site]) -> Launch | None:
    """None if it cannot be launched. module: with notes."""
    trial = Trial(Outcome(case, kernel), Pace())
    trial.begin(puzzle, tunables(module.source), 0)
    if not trial.launch:
        return None
    short = any(a.dtype == "float16" for a in kernel.arrays) or any(s.kind == "matrix" for s in sites)
    trial.arrays = labelled(kernel, trial.arrays, short)
    trial.targets = expectations(puzzle, case, kernel, trial.arrays)
    setup = Setup(module.device, (1,), module=module, kernels={kernel.name: module.get_function(kernel.name)})
    handles = {p.name: place(setup.device, p, trial) for p in kernel.passed}
    noted, faulted = module.get_global(notes.NAME, np.int64), False
    noted.set(0)
    try:
        start(trial, setup, 1, handles)
    except KernelFault as stopped:  # what came before has been noted
        stopped.__traceback__, faulted = None, True
    except BackwarpError:
        return None
    count, *_ = got = noted.get()
    arrays = [
        Where(a := p.apart, a.shape(trial.dims), handles[p.name].pointer, np.dtype(p.dtype).itemsize)
        for p in kernel.passed
    ]
    partial, combined = count >= notes.ROWS, any(s.kind == "exchange" for s in sites)
    rows = got[1:].view(notes.ROW)[: min(count, notes.ROWS - 1)]
    return Launch(trial, sites, rows, arrays, faulted, faulted or partial, combined)
