"""What is known about a module and each of its functions. Facts are attached to instructions, not positions,
so that passes may insert instructions; each is computed on first use.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from ..ptx.callgraph import CallGraph, defined, spinning_loops
from ..ptx.ir import Function, Instruction, Module, Variable
from . import chains
from .assigned import maybe_undefined, sets_bits, without_value
from .barriers import Barriers
from .cas_loops import guesses
from .chains import Plan
from .cooperative_groups import grid_waits
from .dataflow import reached
from .intervals import Intervals
from .lanes import Lanes, lanes, refusal
from .leaving import Ways
from .phases import Phases, phases
from .pointers import Origins, Values, rooted
from .private_arrays import private, short_loops
from .rows import ROWS, Block, are_block
from .uniformity import Coarsening, coarsening, computes_floats
from .unused import unused_results
from .waits import Waits
from .warps import WARP, exchanges

_HALF = WARP // 2


class ModuleFacts:
    """interleaved, threads: as in `Waits`. width: how many threads run as lanes of a vector. masks, keeping: see
    `targets.Target`. block: the shape of blocks, if it is known."""

    def __init__(
        self,
        module: Module,
        interleaved: bool,
        threads: bool,
        width: int = 1,
        masks: str = "i1",
        keeping: str = "",
        block: Block | tuple[()] = (),
    ):
        self.width, self.masks, self.keeping = width, masks, keeping
        # two vectors side by side hide the latency of products; with fewer registers, they are kept in memory
        self.few_registers = width == _HALF and masks != "i1"
        self.by_warps = width == _HALF and not self.few_registers and bool(block) and block[0] % WARP == 0
        self.block = block
        self.module, self.graph = module, CallGraph(module)
        self.barriers = Barriers(self.graph)
        self.waits = Waits(self.graph, interleaved, threads)
        self._facts: dict[str, Facts] = {}
        self.segments: list = []  # counted code: see instrument/segments
        self.refused: dict[str, str] = {}  # kernel -> why its threads do not run as lanes, with full checks
        self.shared = {f.name: self._shared(f.name) for f in defined(module) if f.entry}

    def of(self, function: Function) -> Facts:
        """The facts of a function whose calls have been expanded."""
        return self._facts.setdefault(function.name, Facts(function, self))

    @cached_property
    def emitted(self) -> list[Function]:
        """Kernels and the non-expanded functions they call, in module order."""
        waits, functions = self.waits, list(defined(self.module))
        roots = [f.name for f in functions if f.entry or not waits.threads and f.name.startswith("rt_")]
        wanted = {name for root in roots for name in self.graph.closure(root)}
        plain = (f for f in functions if f.name in wanted)
        return [f for f in plain if f.entry or f.name in waits.called_plainly or not waits.may_wait(f.name)]

    def drop_unreached(self) -> None:
        """Those that nothing calls any more are not emitted."""
        functions = self.module.functions
        roots = [f.name for f in self.emitted if f.entry]
        wanted = reached(roots, lambda name: self.graph.callees_of(functions[name]))
        self.emitted = [f for f in self.emitted if f.name in wanted]

    @cached_property
    def copies(self) -> bool:
        """Whether asynchronous copies may be in flight while a thread goes on."""
        return any(self.graph.any(f.name, lambda op: op.memory == "copy") for f in defined(self.module))

    def _shared(self, kernel: str) -> list[Variable]:
        """The shared variables of a kernel and of the functions it calls, in module order."""
        called = self.graph.closure(kernel)
        scopes = [self.module.variables, *(f.variables for f in defined(self.module) if f.name in called)]
        return [v for scope in scopes for v in scope.values() if v.space == "shared"]


class Facts:
    """Facts about one function, after its calls have been expanded."""

    def __init__(self, function: Function, known: ModuleFacts):
        self.function, self.known = function, known
        # local variables that nothing else can access, which LLVM may keep in registers; see `private`
        self.held: dict[str, int] = {}
        self.unrolled: frozenset[Instruction] = frozenset()  # back edges of loops over them that LLVM unrolls
        self.coarsening: Coarsening | None = None  # of neighbouring threads, if they do not run as lanes
        self.lanes = False  # whether they run as vector lanes
        self.rows = 1  # how many rows of lanes run side by side
        self.block: Block | tuple[()] = ()  # the rows are a whole one of this shape
        self.phased = False  # single threads run from barrier to barrier, see analyse/phases

    def settle(self, accesses: bool, held: bool, coarsened: bool) -> None:
        """Compute now whatever depends on the code before later passes, or would take longer after they have
        inserted more.

        accesses: every access is checked. held: LLVM keeps private arrays. coarsened: threads run together,
        as vector lanes or coarsened.
        """
        if held:
            self.held = private(self.function, self._origins)
            self.unrolled = self._at(short_loops(self.function, self.roots, self.held.keys()))
        if accesses:
            _ = self.spins, self.grid_waits, self.final, self.unused, self.sets_bits, self.guesses
        waits, name = self.known.waits, self.function.name
        # not where one thread may hold a lock that another waits for
        if coarsened and self.function.entry and not waits.spins(name):
            if waits.interleaved:
                self.lanes = self.may_scout and self.find_lanes() is not None
                self.rows = ROWS if self.lanes and self.find_lanes(ROWS) else 1
                return
            if self.width > 1 and self.find_lanes():
                self.lanes = True
                self._find_block()
                if not self.block:
                    self.rows = ROWS if self.find_lanes(ROWS) else 1
            else:
                self.phased = self._alone and self.find_phases() is not None
                if not self.phased:
                    self.coarsening = coarsening(self.function, waits.may_wait(name))

    @property
    def _alone(self) -> bool:
        """Whether blocks have a known shape, and threads wait for others of their block only."""
        waits, name = self.known.waits, self.function.name
        return bool(self.known.block) and waits.may_wait(name) and not waits.meets(name)

    def find_phases(self) -> Phases | None:
        """What threads do between barriers, for the current code."""
        return phases(self.function, self._origins, self.known.block)

    def _find_block(self) -> None:
        """Whether a block, if its shape is known, can run as one, with all its sums in registers."""
        rows = are_block(self.known.block, self.width) if self._alone else 0
        found = (i for i in self.function.body if isinstance(i, Instruction))
        if self.known.few_registers and rows > ROWS and any(map(computes_floats, found)):
            return
        if rows:
            self.block = self.known.block
            if self.find_lanes(rows):
                self.rows = rows
            else:
                self.block = ()

    @property
    def may_scout(self) -> bool:
        """Whether lanes can find out, with full checks, whether anything may be wrong: where only barriers of the block and
        collectives of whole warps order threads, and every launch does the same whatever their order."""
        return self.width > 1 and not self.cannot_scout

    @property
    def cannot_scout(self) -> str:
        """Why lanes cannot find that out."""
        waits, name, known = self.known.waits, self.function.name, self.known
        if known.barriers.ordered(name) or waits.takes_turns(name) or waits.meets(name) or waits.spins(name):
            return "threads that observe or wait for one another in memory"
        found = (i for i in self.function.body if isinstance(i, Instruction))
        alone = (
            i.opcode
            for i in found
            if i.op.is_mbarrier or i.op.bulk or i.op.collective == "group" or i.op.texture
        )
        return next(alone, "")

    @property
    def refusal(self) -> str:
        """Why threads do not run as lanes."""
        return self.cannot_scout or refusal(
            self.function, self._origins, self.width, self.known.waits.interleaved
        )

    def find_lanes(self, rows: int = 1, of: Function | None = None) -> Lanes | None:
        """How threads run as lanes, for the current code, or for that of another version of the function, whose
        addresses are in the same registers."""
        block = self.block if rows > 1 else ()
        return lanes(
            of or self.function, self._origins, rows, self.width, self.known.waits.interleaved, block
        )

    @cached_property
    def width(self) -> int:
        """How many threads would run as lanes; a warp runs as one group if its lanes exchange values, or if that is
        faster: threads that wait have rows side by side."""
        function, known = self.function, self.known
        faster = known.by_warps and not known.waits.may_wait(function.name)
        return WARP if known.width > 1 and (faster or exchanges(function)) else known.width

    def put_before(self, added: dict[Instruction, Instruction]) -> None:
        """Record that an instruction was inserted before each of these: coarsened threads treat both
        alike."""
        if found := self.coarsening:
            serial = found.serial.union(new for old, new in added.items() if old in found.serial)
            regions = {start: added.get(end, end) for start, end in found.regions.items()}
            self.coarsening = replace(found, serial=serial, regions=regions)

    def _at(self, positions) -> frozenset[Instruction]:
        body = self.function.body
        return frozenset(body[p] for p in positions if p < len(body))

    # -- control flow -------------------------------------------------------------------------------

    @cached_property
    def spins(self) -> frozenset[Instruction]:
        """Back edges of loops in which a thread may wait for memory to change."""
        return self._at(spinning_loops(self.function, self.known.waits.touches_order))

    @cached_property
    def grid_waits(self) -> frozenset[Instruction]:
        """Back edges of loops that wait at the barrier of the grid."""
        return self._at(grid_waits(self.function))

    @cached_property
    def ways(self) -> Ways:
        """How threads leave a kernel."""
        return Ways(self.function, self.known.graph.functions)

    @cached_property
    def final(self) -> frozenset[Instruction]:
        """A kernel's accesses after which a thread may end while others go on to a barrier."""
        barriers = self.known.barriers
        if not barriers.block_barriers(self.function.name):
            return frozenset()
        body, tables = self.function.body, self.function.tables
        return self._at(Intervals(body, tables, barriers.may_meet, barriers.must_meet).final())

    @cached_property
    def chains(self) -> Plan:
        """Where the sums of products of four warps are, for the code as it is emitted."""
        return chains.run(self.function)

    # -- registers ----------------------------------------------------------------------------------

    @cached_property
    def undefined(self) -> frozenset[str]:
        """Registers that may be read before they are assigned."""
        body = self.function.body
        return frozenset(maybe_undefined(body, self.function.regs) - without_value(body))

    @cached_property
    def unused(self) -> frozenset[Instruction]:
        """Atomic updates, and calls, whose result is not used."""
        return self._at(unused_results(self.function))

    # -- accesses -----------------------------------------------------------------------------------

    @cached_property
    def sets_bits(self) -> frozenset[Instruction]:
        """Loads in headers whose value is only written back."""
        return self._at(sets_bits(self.function.body))

    @cached_property
    def guesses(self) -> frozenset[Instruction]:
        """Loads whose value a compare-and-swap then confirms."""
        return self._at(guesses(self.function.body))

    @cached_property
    def arrays(self) -> dict[str, Variable]:
        """The shared and local variables of known size."""
        everything = {**self.known.module.variables, **self.function.variables}
        return {n: v for n, v in everything.items() if v.space in ("local", "shared") and not v.extern}

    @cached_property
    def _origins(self) -> dict[str, Origins]:
        return Values(self.known.waits.pointers, self.function).found

    @cached_property
    def roots(self) -> dict[str, str]:
        """Register -> the single variable that all its addresses were computed from."""
        return rooted(self._origins)
