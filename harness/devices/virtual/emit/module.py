"""PTX functions -> LLVM text: control flow, predicates, calls, special registers.

Each kernel becomes `NAME.block(env)`, which runs one block of threads. A kernel that never waits is a
plain loop over its threads; one that does (a barrier, a warp collective, a loop that may wait for another
thread through memory) is an LLVM coroutine per thread, and the runtime schedules them. Device functions
that may wait are expanded in place, since a coroutine can suspend only in its own frame.

Source: PTX ISA, sections 9.7.12 (control flow), 7 (abstracting the ABI), 10 (special registers); LLVM
Coroutines (switched-resume lowering).
"""

from __future__ import annotations

import random
import re
import zlib
from functools import cached_property

from ....errors import Unsupported
from ..analyse.intervals import passes_freely
from ..analyse.roots import handed_back
from ..analyse.turns import reads_order, turns
from ..compile.modules import KernelInfo, Lowered
from ..compile.recipes import Check, Recipe
from ..instrument.segments import CountedSegment
from ..ptx.callgraph import (
    align_up,
    called,
    defined,
    grid_waits,
    has_loop,
    pointed_functions,
    spinning_loops,
    split_arguments,
)
from ..ptx.ir import Function, Instruction, Location, Module, Variable
from ..ptx.isa import ENDS_BLOCK
from ..run.arena import SHARED_GUARD, slots_start
from ..runtime.abi import SHARED_START, SYMMETRIC_BLOCKS, SYMMETRIC_LANES, SYMMETRIC_WARPS
from .collectives import BASES as COLLECTIVE_BASES
from .function import Lowering

_WAITING_LOADS = re.compile(
    r"ld\.(volatile|relaxed|acquire)|(atom|red|membar|fence|nanosleep)\b|mbarrier\.(test|try)_wait"
)
_ORDERS = re.compile(r"^(membar|fence)\b|\.(acquire|release|acq_rel)\b|^mbarrier\b")
_NAME = re.compile(r"[\w$]+")
_MOST_EXPANDED = 20_000  # instructions that a function may become where it is expanded only to take turns
_FIRST_NODE = 3  # of metadata that `lower` does not write itself
_FUNCTIONS = 1 << 60  # pointers to functions begin here
#: parts of the runtime that write to nothing that a kernel's code reads later, but for what it reads as volatile
_CHECKS = {"rt_check", "rt_outside", "rt_race", "rt_slice", "rt_suspect"}
_ASIDE = " nounwind willreturn memory(read, inaccessiblemem: readwrite)"


def run(module: Module, name: str, recipe: Recipe, arena_size: int) -> Lowered:
    """A module as LLVM text. Errors: Unsupported, with the line, for anything that has no exact translation."""
    return ModuleLowering(module, name, recipe, arena_size).lower()


class ModuleLowering:
    BLOCK_ENDS = ENDS_BLOCK | {"call"}

    def __init__(self, module: Module, name: str, recipe: Recipe, arena_size: int):
        self.ptx, self.name, self.recipe, self.arena_size = module, name, recipe, arena_size
        self.raw, self.tracking, self.counting = (
            recipe.runtime,
            Check.UNSET in recipe,
            Check.SEGMENTS in recipe,
        )
        self.slots_start = slots_start(arena_size)
        self.segments: list[CountedSegment] = []
        self._numbers = random.Random(1)
        self.declarations: dict[str, str] = {}
        self._metadata: list[str] = []
        self.sites: list[tuple[Location, str]] = [(Location(), "")]
        self.variables: dict[str, tuple[int, Variable]] = {}
        self.variables_bytes = 0
        self.kernels: dict[str, KernelInfo] = {}
        self.exchanges = False  # lanes give each other rows or matrices
        self._waits: dict[str, bool] = {}
        self._free: dict[str, bool] = {}
        self._turns: dict[str, set[int]] = {}
        self._takes_turns: dict[str, bool] = {}
        self._symmetric: dict[str, int] = {}
        self._hands_back: dict[str, int | None] = {}
        self.pointed = pointed_functions(module)
        self._calls = {f.name: self._callees(f) for f in defined(module)}

    def _callees(self, function: Function) -> set[str]:
        """Functions that one may call; through a pointer, any whose address is taken."""
        names = {c for c in map(called, function.body) if c}
        found = {n for n in names if n in self.ptx.functions}
        return found | {f.name for f in self.pointed} if any(n[0] == "%" for n in names) else found

    def lower(self) -> Lowered:
        self._place_variables()
        text = []
        for function in self._reachable():
            if function.entry:
                text.append(Lowering(function, self).kernel())
            elif self.raw or not self.waits(function.name) or function.name in self._called_plainly:
                text.append(Lowering(function, self).device_function())
        if self.tracking:
            text.insert(0, self._given())
        head = [f"declare {d}" for d in self.declarations.values() if not self._is_defined(d)]
        tail = ['!0 = !{!"branch_weights", i32 1, i32 100000}', "!1 = !{}",
                '!2 = !{!"branch_weights", i32 100000, i32 1}', *self._metadata]  # fmt: skip
        return Lowered("\n".join(head + text + tail) + "\n", self.kernels, self.sites, self.variables,
                       self.variables_bytes, self._names_global_variables(), self._needs_whole_runtime(),
                       {f.name: self.function_address(f.name) for f in self.pointed}, self.segments)  # fmt: skip

    def _given(self) -> str:
        """Where functions hand over what is unset of their parameters, and of their result."""
        sizes = [
            sum(align_up(v.size, 8) for v in group)
            for f in defined(self.ptx)
            for group in (f.params, f.returns)
        ]
        most = max(sizes, default=0) + 8
        return (f"@given.unset = internal global [{most} x i8] zeroinitializer, align 8\n"
                f"@given.from = internal global [{2 * most} x i8] zeroinitializer, align 8")  # fmt: skip

    def _names_global_variables(self) -> bool:
        names = {v.name for v in self.ptx.variables.values() if v.space == "global"}
        return bool(names) and any(name in names for function in defined(self.ptx) for item in function.body
                   if isinstance(item, Instruction) for o in item.operands for name in _NAME.findall(o))  # fmt: skip

    def _needs_whole_runtime(self) -> bool:
        rare = ("rt_count", "rt_copy", "rt_mbarrier")
        return self.exchanges or any(name.startswith(rare) for name in self.declarations)

    def _is_defined(self, declaration: str) -> bool:
        name = re.search(r"@([\w.$]+)\(", declaration)
        if not (name and self.raw):
            return False
        function = self.ptx.functions.get(name[1])
        return name[1].startswith("call_") or function is not None and function.body is not None

    def _reachable(self) -> list[Function]:
        """Kernels and the device functions they can call, in the order of the module."""
        wanted = {f.name for f in defined(self.ptx) if f.entry or self.raw and f.name.startswith("rt_")}
        work = list(wanted)
        while work:
            for name in self._calls.get(work.pop(), ()):
                if name not in wanted:
                    wanted.add(name)
                    work.append(name)
        return [f for f in defined(self.ptx) if f.name in wanted]

    def _place_variables(self) -> None:
        """Module variables at offsets from globals_base, with red zones between; __constant__ ones together, last."""
        top = first_constant = 0
        for space in ("global", "const"):
            first_constant = top
            for variable in (v for v in self.ptx.variables.values() if v.space == space):
                if variable.extern:
                    raise Unsupported(f"the external variable {variable.name}", self.name)
                top = align_up(top, max(variable.align, 16))
                self.variables[variable.name] = (top, variable)
                top += align_up(variable.size, 16) + max(256, align_up(variable.size, 256))
        self.variables_bytes = top
        self.constants = first_constant, top - first_constant

    def declare(self, name: str, returns: str, arguments: str) -> None:
        if name not in self.declarations:
            types = ", ".join(a.strip().rsplit(" ", 1)[0] for a in split_arguments(arguments))
            self.declarations[name] = f"{returns} @{name}({types}){_ASIDE * (name in _CHECKS)}"

    def metadata(self, text: str) -> int:
        """A new node of LLVM's metadata. text: what it is, `{n}` its own number, which is returned."""
        n = _FIRST_NODE + len(self._metadata)
        self._metadata.append(f"!{n} = {text.format(n=n)}")
        return n

    def new_number(self) -> int:
        """A number of 64 bits that no sum of others is likely to be."""
        return self._numbers.getrandbits(64) | 1

    def new_site(self, at: Location, what: str) -> int:
        self.sites.append((at, what))
        return len(self.sites) - 1

    # -- how the threads of a kernel are ordered ---------------------------------------------

    def may_meet(self, ins: Instruction) -> bool:
        """Whether all threads of the block may have to wait there."""
        if _is_block_barrier(ins):
            return not _counts_threads(ins)
        callee = called(ins)
        return callee in self.ptx.functions and self.block_barriers(callee)

    def must_meet(self, ins: Instruction) -> bool:
        """Whether they have to, if they come there."""
        callee = called(ins)
        if ins.pred or not self.may_meet(ins):
            return False
        return callee is None or not self._passes_freely(callee)

    def _passes_freely(self, name: str) -> bool:
        if name not in self._free:
            self._free[name] = True  # for recursion
            function = self.ptx.functions[name]
            self._free[name] = function.body is None or passes_freely(
                function.body, function.tables, self.must_meet
            )
        return self._free[name]

    @cached_property
    def has_barriers(self) -> bool:
        return any(self.block_barriers(f.name) for f in defined(self.ptx))

    def block_barriers(self, name: str) -> bool:
        """Whether a function, or one that it calls, has a barrier of the block."""
        return self._any(name, _is_block_barrier)

    def ordered(self, name: str) -> bool:
        """Whether fences, or accesses that acquire or release, order the threads of a kernel."""
        return self._any(name, lambda i: bool(_ORDERS.search(i.opcode)))

    def symmetric(self, name: str) -> int:
        """SYMMETRIC bits of a kernel. (A function that others call has none: it is lowered for all of them.)"""
        if name not in self._symmetric:
            self._symmetric[name] = self._symmetry(name)
        return self._symmetric[name]

    def _symmetry(self, name: str) -> int:
        if not self.ptx.functions[name].entry or self.ordered(name):
            return 0
        if self._any(name, _counts_threads):
            return SYMMETRIC_BLOCKS
        if self._any(name, lambda i: i.base in COLLECTIVE_BASES and not _is_block_barrier(i)):
            return SYMMETRIC_BLOCKS | SYMMETRIC_WARPS
        return SYMMETRIC_BLOCKS | SYMMETRIC_WARPS | SYMMETRIC_LANES

    def updates_memory(self, name: str) -> bool:
        """Whether a function does nothing but an atomic update, as the header's functions do."""
        return self._any(name, lambda i: i.base == "atom") and not self._any(
            name, lambda i: i.base in ("bra", "brx")
        )

    def _any(self, name: str, found) -> bool:
        bodies = (self.ptx.functions[f].body or () for f in self.closure(name))
        return any(isinstance(i, Instruction) and found(i) for body in bodies for i in body)

    # -- what a function does -----------------------------------------------------------------

    def waits(self, name: str) -> bool:
        """Whether a function may suspend."""
        return self.must_wait(name) or self.takes_turns(name)

    def must_wait(self, name: str) -> bool:
        """Whether a function cannot do without: it has a collective, or a loop that may spin on memory."""
        if name not in self._waits:
            self._waits[name] = False  # for recursion
            function = self.ptx.functions[name]
            self._waits[name] = function.body is not None and (
                any(isinstance(i, Instruction) and i.base in COLLECTIVE_BASES for i in function.body)
                or bool(spinning_loops(function, self._touches_order))
                or any(self.must_wait(callee) for callee in self._calls.get(name, ()))
            )
        return self._waits[name]

    def takes_turns(self, name: str) -> bool:
        """Whether a function lets others come between its accesses: what is recursive, or called through a pointer, cannot."""
        if name not in self._takes_turns:
            self._takes_turns[name] = False  # for recursion
            self._takes_turns[name] = Check.RACES in self.recipe and bool(
                self.turns(name) or any(self.takes_turns(callee) for callee in self._calls.get(name, ()))
            ) and self._can_suspend(name)  # fmt: skip
        return self._takes_turns[name]

    def turns(self, name: str) -> set[int]:
        """Positions in a function's body after which it lets others come between."""
        if name not in self._turns:
            function = self.ptx.functions[name]
            self._turns[name] = turns(function, self._hands_over, self.hands_back) if function.body else set()
        return self._turns[name]

    def turn_lines(self, name: str) -> tuple[int, ...]:
        """Lines of the file at which a kernel lets others come between."""
        functions = [f for f in self.closure(name) if self.takes_turns(f)]
        return tuple(
            sorted({self.ptx.functions[f].body[i].at.line for f in functions for i in self.turns(f)} - {0})
        )

    def _hands_over(self, name: str) -> bool:
        """Whether a function, or through a pointer any, may return what others change, and takes no turn itself.

        What a barrier of the C++ library returns is its own affair.
        """
        callees = [f.name for f in self.pointed] if name[0] == "%" else [name]
        return any(self._any(callee, reads_order) and not self._any(callee, lambda i: i.base == "mbarrier")
                   for callee in callees if callee in self.ptx.functions and not self.takes_turns(callee))  # fmt: skip

    def _can_suspend(self, name: str) -> bool:
        """Whether a function can be expanded in a coroutine, in reasonable time."""
        function = self.ptx.functions[name]
        if function.entry:
            return True
        if any(f is function for f in self.pointed) or self.is_recursive(name):
            return False
        calls = sum(called(item) == name for f in defined(self.ptx) for item in f.body)
        return (
            calls * sum(len(self.ptx.functions[f].body or ()) for f in self.closure(name)) <= _MOST_EXPANDED
        )

    @cached_property
    def _called_plainly(self) -> set[str]:
        """Functions that are reached from one that cannot suspend."""
        rigid = [f.name for f in defined(self.ptx) if not f.entry and not self._can_suspend(f.name)]
        return {f for name in rigid for f in self.closure(name) if not self.must_wait(f)}

    def expands(self, name: str, coroutine: bool) -> bool:
        """Whether a call of a function is replaced by its body: a coroutine can suspend only in its own frame."""
        return not self.raw and (self.must_wait(name) or coroutine and self.takes_turns(name))

    def hands_back(self, name: str) -> int | None:
        """Which parameter of a function the address that it returns was computed from."""
        if name not in self._hands_back:
            self._hands_back[name] = None  # for recursion
            if function := self.ptx.functions.get(name):
                self._hands_back[name] = handed_back(function, self.hands_back)
        return self._hands_back[name]

    def loops(self, name: str) -> bool:
        """Whether a function, or one that is expanded in it, has a loop."""
        return any(has_loop(self.ptx.functions[f]) for f in self.closure(name)
                   if self.ptx.functions[f].body is not None and (f == name or self.waits(f)))  # fmt: skip

    def spins(self, name: str) -> bool:
        """Whether a kernel has a loop in which a thread may wait for memory to change."""
        functions = (self.ptx.functions[f] for f in self.closure(name))
        return any(f.body is not None and spinning_loops(f, self._touches_order) for f in functions)

    def syncs_grid(self, name: str) -> bool:
        """Whether a kernel synchronises its whole grid; one that only asks for the grid's size does not."""
        functions = (self.ptx.functions[f] for f in self.closure(name))
        return self.mentions(name, "%envreg") and any(f.body is not None and grid_waits(f) for f in functions)

    def meets(self, name: str) -> bool:
        """Whether blocks of a kernel meet in memory, so that they have to run in turns."""
        return self.spins(name) or self.takes_turns(name)

    def function_address(self, name: str) -> int:
        """What a pointer to a function holds: no address of memory, so that reading there is a fault."""
        return _FUNCTIONS + 16 * zlib.crc32(name.encode())  # the same in every build

    def mentions(self, name: str, text: str) -> bool:
        """Whether the opcode or an operand of a function, or of one that it calls, has `text` in it."""
        bodies = (self.ptx.functions[f].body or () for f in self.closure(name))
        return any(text in part for body in bodies for i in body if isinstance(i, Instruction)
                   for part in (i.opcode, *i.operands))  # fmt: skip

    def _touches_order(self, ins: Instruction) -> bool:
        """An instruction through which one thread can wait for another."""
        if _WAITING_LOADS.match(ins.opcode):
            return True
        callee = called(ins)
        return callee is not None and any(
            isinstance(i, Instruction) and _WAITING_LOADS.match(i.opcode)
            for f in self.closure(callee)
            for i in self.ptx.functions[f].body or ()
        )

    def closure(self, name: str) -> set[str]:
        seen, work = set(), [name]
        while work:
            f = work.pop()
            if f not in seen and f in self.ptx.functions:
                seen.add(f)
                work.extend(self._calls.get(f, ()))
        return seen

    def called_at(self, name: str) -> Location:
        """The first line of the student's file from which a function is reached."""
        callers = [f for f in defined(self.ptx) if name in self._calls[f.name]]
        for caller in callers:
            for ins in caller.body:
                if called(ins) == name and ins.at.line:
                    return ins.at
        seen = [name]
        for caller in callers:
            if caller.name not in seen and not self.is_recursive(caller.name):
                seen.append(caller.name)
                if (at := self.called_at(caller.name)).line:
                    return at
        return Location()

    def is_recursive(self, name: str) -> bool:
        return any(name in self.closure(callee) for callee in self._calls.get(name, ()))

    def shared_layout(self, kernel: Function):
        """(arrays, bytes as CUDA counts, start of dynamic memory): module-level and function-level symbols."""
        symbols = [v for v in self.ptx.variables.values() if v.space == "shared"]
        for name in self.closure(kernel.name):
            symbols += [v for v in self.ptx.functions[name].variables.values() if v.space == "shared"]
        arrays, packed, guards = [], 0, 0
        for variable in sorted((v for v in symbols if not v.extern), key=lambda v: -v.align):
            packed = align_up(packed, variable.align)
            arrays.append((variable.name, SHARED_START + packed + guards, variable.size))
            packed += variable.size
            guards += SHARED_GUARD + align_up(variable.size, 128)
        alignment = max([16] + [v.align for v in symbols if v.extern])
        return tuple(arrays), packed, SHARED_START + align_up(packed, alignment) + guards


def _is_block_barrier(ins: Instruction) -> bool:
    return ins.base in ("bar", "barrier") and ins.opcode != "bar.warp.sync"


def _counts_threads(ins: Instruction) -> bool:
    """Whether a barrier counts the threads that come, so that not all of the block need to take part."""
    if not _is_block_barrier(ins):
        return False
    predicate_and_target = 2 * (".red" in ins.opcode)
    return ".arrive" in ins.opcode or len(ins.operands) > 1 + predicate_and_target or ins.operands[0] != "0"
