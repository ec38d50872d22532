"""What lowering produces besides LLVM text: what a launch needs to know about a kernel and its module."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import prod

import numpy as np

from ....errors import LaunchError
from ...launching import triple
from ...nvrtc.compiler import Ptx
from ..analyse.padding import Padding, Pointed
from ..ptx.declared import Location, Variable
from ..runtime import abi


@dataclass
class Parameter:
    name: str
    offset: int
    size: int
    align: int


@dataclass
class KernelInfo:
    """What a launch needs to know about a compiled kernel."""

    name: str
    params: tuple[Parameter, ...]
    shared: tuple[tuple[str, int, int], ...]  # static arrays: (PTX name, offset in the window, bytes)
    shared_static: int  # bytes as CUDA counts them
    reserved: bool  # it uses the shared memory reserved for CUDA itself
    dynamic_offset: int  # where dynamic shared memory starts in the window
    dynamic: str  # the PTX name of its array; "" where it has none, or several
    coroutine: bool
    grid_sync: bool  # it synchronises the whole grid: all blocks must be resident
    grid_line: int  # the first line where it does
    resident: bool  # its blocks may wait for one another, so as many as fit run in turns
    recursive: bool  # it needs a worker's large stack
    max_threads: int
    cluster: tuple[int, int, int]  # blocks of one
    clustered: bool  # its blocks can tell which of a cluster they are, or meet
    turns: tuple[int, ...]  # lines after which other threads intervene
    overwrites: bool = False  # nobody need look: what it leaves may depend on who comes last
    symmetric: int = 0  # abi.SYMMETRIC bits
    registers: int = 0  # that a thread begins with, if setmaxnreg may change it
    ordered: bool = False  # fences, releases or acquires order its threads
    epochs: bool = False  # racecheck need not record its accesses immediately
    finals: bool = False  # a thread may end after an access while others go on to a barrier
    # threads that run as lanes of vectors, in blocks of one row or whose rows are a multiple of this
    lanes: int = 1
    # with full checks: lanes find out whether anything may be wrong; if so, single threads find out what
    scouts: bool = False
    refused: str = ""  # why there are none
    # where in its parameters, as bytes, the addresses are of arrays that it may store to, and whether it may to the module's
    # variables; None: not known
    stored: tuple[int, ...] | None = None
    stores_variables: bool = False
    rows: int = 1  # of lanes that may run side by side, in blocks with a multiple of this many rows
    # what it does with registers of products under way, as optimised code shows it: see analyse/inflight.py
    products: tuple[tuple[str, Location, Location], ...] = ()
    pointed: tuple[
        Pointed, ...
    ] = ()  # structs with padding that its arguments point to, as full checks know them
    block: tuple[int, ...] = ()  # the only shape of blocks that lanes can run, each of them as one
    coarsening: int = 1  # else: threads that may run coarsened, if rows are a multiple of this

    @property
    def together(self) -> int:
        """The number of neighbouring threads that run together, as lanes or coarsened."""
        return prod(self.block) if self.block else max(self.coarsening, self.lanes)

    def fits(self, block: tuple[int, int, int]) -> bool:
        """Whether the code can run blocks of this shape; otherwise threads run one by one."""
        if self.block:
            return block == self.block
        return not (self.coroutine or self.scouts) or self.lanes == 1 or block[0] % self.lanes == 0

    @property
    def starts(self) -> list[str]:
        """The entry functions of threads, if they may wait."""
        kinds = {"start": self.lanes == 1, "together": self.together > 1, "rows": self.rows > 1}
        return [f"{self.name}.{kind}" for kind, is_there in kinds.items() if is_there and self.coroutine]

    def bounds(self, name: str) -> int:
        """The offset, after the parameters, of the bounds of the array that a parameter points to."""
        number = [p.name for p in self.params].index(name)
        return abi.bounds_offset(self.params[-1].offset + self.params[-1].size) + number * abi.BOUNDS.size


@dataclass
class CountedAccess:
    """One instruction's access. kind: "load" | "store" | "atomic"; space: as in state.SPACES."""

    line: int
    kind: str
    space: str
    size: int


@dataclass
class CountedSegment:
    """kinds: (line, kind of operation) -> how many of them each thread executes."""

    kinds: Counter = field(default_factory=Counter)
    accesses: list[CountedAccess] = field(default_factory=list)


@dataclass
class Lowered:
    """LLVM text of a module, with the data that Python needs (plain, since it is cached)."""

    text: str  # "" once compiled
    kernels: dict[str, KernelInfo]
    sites: list[tuple[Location, str]]  # site number -> its place, and the PTX instruction
    variables: dict[str, tuple[int, Variable]]  # module variable -> offset from globals_base
    variables_bytes: int
    # an instruction names a variable in global memory, shared by all kernels of the file
    shared_by_kernels: bool
    heap: bool  # its kernels take memory with malloc(), or free it
    functions: dict[str, int]  # functions whose address is taken -> the value of a pointer to them
    segments: list[CountedSegment] = field(default_factory=list)  # counted code
    paddings: list[Padding] = field(default_factory=list)  # of local variables
    structs: dict[str, tuple[Padding, ...]] = field(default_factory=dict)  # those with padding, by name
    # what the rows of a record say, and what their values are computed from: see instrument/steps
    points: list[tuple] = field(default_factory=list)
    sources: list[tuple[int, tuple]] = field(default_factory=list)


@dataclass(frozen=True)
class Built:
    """A module ready to be loaded."""

    compiled: Ptx
    lowered: Lowered
    code: bytes  # an object file


def kernel_called(name: str, compiled: Ptx, lowered: Lowered) -> str:
    """The PTX name of a kernel. LaunchError if there is none (the text may seem to have one, in a
    comment)."""
    symbol = compiled.find(name)
    if symbol not in lowered.kernels:
        raise LaunchError(f"there is no kernel called {name}", "cudaErrorInvalidDeviceFunction")
    return symbol


def fixed_to(symbol: str, args, block) -> tuple[str, tuple[int | None, ...], tuple[int, ...]]:
    """What a kernel is compiled for: its PTX name, the values of its integer parameters, the shape of blocks. block: 0 for
    any."""
    values = tuple(int(a) if isinstance(a, np.integer) else None for a in args)
    return symbol, values, triple(block, "block") if block else ()


def for_any_block(fixed: tuple) -> tuple:
    """The same, for blocks of any shape."""
    return (*fixed[:2], ()) if fixed else ()
