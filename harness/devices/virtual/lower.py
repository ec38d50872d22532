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
from dataclasses import dataclass, field

from ...errors import Unsupported
from . import opcodes, state
from .access import Access
from .asynchronous import Asynchronous
from .collectives import BASES as COLLECTIVE_BASES
from .collectives import Collectives
from .counting import CountedSegment, Counting
from .emit import Emitter
from .groups import access_groups
from .matrix import Matrix
from .memory import SHARED_GUARD
from .ptx import Function, Instruction, Label, Location, Module, Variable
from .state import SHARED_START
from .types import llvm_type
from .undefined import local_copies, maybe_undefined, reads, writes

_WAITING_LOADS = re.compile(r"ld\.(volatile|relaxed|acquire)|(atom|red|membar|fence|nanosleep)\b|mbarrier\.(test|try)_wait")
_FUNCTIONS = 1 << 60  # pointers to functions begin here
_CONTROL = {"bra", "brx", "ret", "exit", "trap", "call"}
_IGNORED = {"pragma", "nanosleep", "pmevent"}
_SPECIAL = {
    "%tid.x": ("Thread", "tid_x"), "%tid.y": ("Thread", "tid_y"), "%tid.z": ("Thread", "tid_z"),
    "%ntid.x": ("Launch", "block_x"), "%ntid.y": ("Launch", "block_y"), "%ntid.z": ("Launch", "block_z"),
    "%ctaid.x": ("Env", "ctaid_x"), "%ctaid.y": ("Env", "ctaid_y"), "%ctaid.z": ("Env", "ctaid_z"),
    "%nctaid.x": ("Launch", "grid_x"), "%nctaid.y": ("Launch", "grid_y"), "%nctaid.z": ("Launch", "grid_z"),
    "%smid": ("Env", "worker"), "%dynamic_smem_size": ("Launch", "shared_dynamic"),
}  # fmt: skip
_REFUSED_SPECIAL = {
    "%cluster": "thread block clusters",
    "%nclusterid": "thread block clusters", "%is_explicit_cluster": "thread block clusters",
}  # fmt: skip
_LANEMASKS = {"eq": "shl i32 1, {}", "lt": "shl i32 1, {}; add i32 {0}, -1", "le": "shl i32 2, {}; add i32 {0}, -1",
              "gt": "shl i32 -2, {}", "ge": "shl i32 -1, {}"}  # fmt: skip


@dataclass
class Parameter:
    name: str
    offset: int
    size: int
    align: int


@dataclass
class KernelInfo:
    """What a launch needs to know of a compiled kernel."""

    name: str
    params: tuple[Parameter, ...]
    shared: tuple[tuple[str, int, int], ...]  # static arrays: (PTX name, offset in the window, bytes)
    shared_static: int  # bytes as CUDA counts them
    dynamic_offset: int  # where dynamic shared memory starts in the window
    coroutine: bool
    grid_sync: bool  # it synchronises the whole grid: all blocks must be resident
    resident: bool  # its blocks may wait for one another: as many as fit run in turns
    recursive: bool  # it needs a worker's large stack
    max_threads: int


@dataclass
class Lowered:
    """LLVM text of a module, with what Python needs beside it (picklable: it is cached)."""

    text: str
    kernels: dict[str, KernelInfo]
    sites: list[tuple[Location, str]]  # site number -> where, and the PTX instruction
    variables: dict[str, tuple[int, Variable]]  # module variable -> offset from globals_base
    variables_bytes: int
    functions: dict[str, int]  # functions whose address is taken -> what a pointer to them holds
    segments: list[CountedSegment] = field(default_factory=list)  # what is counted


def lower(module: Module, name: str, checks: str, arena_size: int, raw: bool = False) -> Lowered:
    """Lower a parsed module. checks: "full" | "memory" | "count" | "none". raw: the runtime itself, host pointers.

    Errors: Unsupported, with the line, for anything that has no exact translation.
    """
    return ModuleLowering(module, name, checks, arena_size, raw).lower()


class ModuleLowering:
    BLOCK_ENDS = _CONTROL

    def __init__(self, module: Module, name: str, checks: str, arena_size: int, raw: bool):
        self.ptx, self.name, self.checks, self.arena_size, self.raw = module, name, checks, arena_size, raw
        self.slots_start = arena_size // 2
        self.counting = checks == "count" and not raw
        self.segments: list[CountedSegment] = []
        self._numbers = random.Random(1)
        self.declarations: dict[str, str] = {}
        self.sites: list[tuple[Location, str]] = [(Location(), "")]
        self.variables: dict[str, tuple[int, Variable]] = {}
        self.variables_bytes = 0
        self.kernels: dict[str, KernelInfo] = {}
        self._waits: dict[str, bool] = {}
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
            elif self.raw or not self.waits(function.name):
                text.append(Lowering(function, self).device_function())
        head = [f"declare {d}" for d in self.declarations.values() if not self._is_defined(d)]
        tail = ['!0 = !{!"branch_weights", i32 1, i32 100000}', "!1 = !{}",
                '!2 = !{!"branch_weights", i32 100000, i32 1}']  # fmt: skip
        return Lowered("\n".join(head + text + tail) + "\n", self.kernels, self.sites, self.variables,
                       self.variables_bytes, {f.name: self.function_address(f.name) for f in self.pointed},
                       self.segments)  # fmt: skip

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
            self.declarations[name] = f"{returns} @{name}({types})"

    def new_number(self) -> int:
        """A number of 64 bits that no sum of others is likely to be."""
        return self._numbers.getrandbits(64) | 1

    def new_site(self, at: Location, what: str) -> int:
        self.sites.append((at, what))
        return len(self.sites) - 1

    # -- what a function does -----------------------------------------------------------------

    def waits(self, name: str) -> bool:
        """Whether a function may suspend: a collective, or a loop that may spin on memory."""
        if name not in self._waits:
            self._waits[name] = False  # for recursion
            function = self.ptx.functions[name]
            self._waits[name] = function.body is not None and (
                any(isinstance(i, Instruction) and i.base in COLLECTIVE_BASES for i in function.body)
                or bool(spinning_loops(function, self._touches_order))
                or any(self.waits(callee) for callee in self._calls.get(name, ()))
            )
        return self._waits[name]

    def spins(self, name: str) -> bool:
        """Whether a kernel has a loop in which a thread may wait for memory to change."""
        functions = (self.ptx.functions[f] for f in self.closure(name))
        return any(f.body is not None and spinning_loops(f, self._touches_order) for f in functions)

    def function_address(self, name: str) -> int:
        """What a pointer to a function holds: no address of memory, so that reading there is a fault."""
        return _FUNCTIONS + 16 * list(self.ptx.functions).index(name)

    def mentions(self, name: str, text: str) -> bool:
        """Whether an instruction of a function, or of one that it calls, has `text` in it."""
        bodies = (self.ptx.functions[f].body or () for f in self.closure(name))
        return any(text in str(i) for body in bodies for i in body if isinstance(i, Instruction))

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


class Lowering(Access, Asynchronous, Collectives, Counting, Matrix, Emitter):
    """One function. `kernel()` or `device_function()` gives its text."""

    def __init__(self, function: Function, module: ModuleLowering):
        super().__init__(function, module)
        self.slow_paths: list[str] = []
        self.params: dict[str, tuple[str, int]] = {}  # .param symbol -> (host pointer, offset)
        self.depots: dict[str, str] = {}  # .local symbol -> its device address
        self.specials: dict[str, str] = {}
        self.inherited_site = "%site"  # of the call that led here, for code that is not the student's
        self.inlined: list[str] = []  # functions being expanded in place
        self.return_label = "return"
        self.dead_label = "dead"
        self.coroutine = False
        self.spins: set[int] = set()
        self.position = 0
        self.positions: dict[str, int] = {}
        self.groups: dict = {}
        self.undefined: set[str] = set()
        self.copies: set[int] = set()
        self.shared_symbols: dict[str, int] = {}
        self.raw_locals: dict[str, str] = {}

    # -- whole functions ------------------------------------------------------------------------

    def kernel(self) -> str:
        f, module = self.function, self.module
        self.coroutine = module.waits(f.name) or module.counting
        arrays, static, dynamic = module.shared_layout(f)
        self.shared_symbols = {name: offset for name, offset, _ in arrays}
        self.dynamic_offset = dynamic
        offset, params = 0, []
        for p in f.params:
            offset = align_up(offset, p.align)
            params.append(Parameter(p.name, offset, p.size, p.align))
            self.params[p.name] = ("%params", offset)
            offset += p.size
        module.kernels[f.name] = KernelInfo(f.name, tuple(params), arrays, static, dynamic, self.coroutine,
                                            module.mentions(f.name, "%envreg"),
                                            self.coroutine and module.spins(f.name),
                                            any(map(module.is_recursive, module.closure(f.name))), f.max_threads)  # fmt: skip
        self.inherited_site = str(module.new_site(Location(module.name, 0), f.name))
        self._prologue()
        self.line("%paramaddress = add i64 0, " + self.load_field("Env", "params", invariant=True))
        self.line("%params = getelementptr i8, ptr %arena, i64 %paramaddress")
        for name, value in (("steps", self.load_field("Launch", "step_budget", invariant=True)),
                            ("dead", "0"), ("depth", "0"), ("clock", "0")):  # fmt: skip
            self.store_field("Thread", name, value)
        if any(v.space == "local" for name in module.closure(f.name) for v in module.ptx.functions[name].variables.values()):
            self.runtime_call("rt_local_reset", site=0)
        if module.mentions(f.name, "cp.async"):
            self.runtime_call("rt_copy_reset", site=0)
        return self._coroutine() if self.coroutine else self._plain_loop()

    def _plain_loop(self) -> str:
        name = self.function.name
        self._body(self.function)
        self.lines += ["return:", "  ret void", "dead:", "  ret void"]
        thread_size = state.DTYPES["Thread"].itemsize
        return f"""
define internal void @"{name}.thread"(i64 %env, i64 %thr) alwaysinline nounwind {{
{self._text()}
}}
define void @"{name}.block"(i64 %env) nounwind {{
entry:
  %envp = inttoptr i64 %env to ptr
  %la = getelementptr i8, ptr %envp, i64 {state.offset("Env", "launch")}
  %launch = load ptr, ptr %la, !invariant.load !1
  %ta = getelementptr i8, ptr %envp, i64 {state.offset("Env", "threads")}
  %threads = load i64, ptr %ta, !invariant.load !1
  %na = getelementptr i8, ptr %launch, i64 {state.offset("Launch", "threads")}
  %n = load i32, ptr %na, !invariant.load !1
  %oa = getelementptr i8, ptr %launch, i64 {state.offset("Launch", "order")}
  %order = load ptr, ptr %oa, !invariant.load !1
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %ip = getelementptr i32, ptr %order, i32 %i
  %id = load i32, ptr %ip, !invariant.load !1
  %wide = zext i32 %id to i64
  %at = mul i64 %wide, {thread_size}
  %thr = add i64 %threads, %at
  call void @"{name}.thread"(i64 %env, i64 %thr)
  %next = add i32 %i, 1
  %more = icmp ult i32 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""

    def _coroutine(self) -> str:
        name = self.function.name
        self.entry += [
            "  %id = call token @llvm.coro.id(i32 0, ptr null, ptr null, ptr null)",
            "  %size = call i64 @llvm.coro.size.i64()",
            "  %frame = call i64 @rt_frame(i64 %env, i64 %thr, i64 %size)",
            "  %framep = inttoptr i64 %frame to ptr",
            "  %handle = call noalias ptr @llvm.coro.begin(token %id, ptr %framep)",
        ]
        for text in ("token @llvm.coro.id(i32, ptr, ptr, ptr)", "i64 @llvm.coro.size.i64()",
                     "ptr @llvm.coro.begin(token, ptr)", "i8 @llvm.coro.suspend(token, i1)",
                     "void @llvm.coro.end(ptr, i1, token)", "i64 @rt_frame(i64, i64, i64)",
                     "void @rt_block(i64)"):  # fmt: skip
            self.module.declarations[text] = text
        handle = self.emit("ptrtoint ptr %handle to i64")
        self.store_field("Thread", "handle", handle)
        self._body(self.function)
        self.lines += ["return:", "  br label %finish", "dead:", "  br label %finish", "finish:"]
        self.store_field("Thread", "wait", state.WAIT["exited"])
        self.lines += [
            "  %last = call i8 @llvm.coro.suspend(token none, i1 true)",
            "  switch i8 %last, label %suspended [ i8 0, label %impossible i8 1, label %suspended ]",
            "impossible:",
            "  unreachable",
            "suspended:",
            "  call void @llvm.coro.end(ptr %handle, i1 false, token none)",
            "  ret void",
        ]
        return f"""
define void @"{name}.start"(i64 %env, i64 %thr) presplitcoroutine nounwind {{
{self._text()}
}}
define void @"{name}.block"(i64 %env) nounwind {{
  call void @rt_block(i64 %env)
  ret void
}}
"""

    def device_function(self) -> str:
        f, module = self.function, self.module
        args, returns = [], "void"
        for p in f.params:
            self._formal(p, args)
        if len(f.returns) > 1:
            raise Unsupported(f"the function {f.name} with several results", module.name)
        for p in f.returns:
            if p.is_array:
                args.append(f'ptr %"{p.name}"')
                self.params[p.name] = (f'%"{p.name}"', 0)
            else:
                returns = f"i{8 * p.size}"
                self.entry.append(f'  %"{p.name}" = alloca {returns}')
                self.params[p.name] = (f'%"{p.name}"', 0)
        if module.raw:
            linkage = "" if f.name.startswith("rt_") else "internal "
            self.inherited_site = "0"
        else:
            linkage = "internal "
            args = ["i64 %env", "i64 %thr", "i32 %site"] + args
        self._prologue()
        if not module.raw and module.is_recursive(f.name):
            self._guard_recursion()
        self._body(f)
        self.lines.append("return:")
        self._leave(f)
        if returns == "void":
            self.line("ret void")
        else:
            value = self.emit(f'load {returns}, ptr %"{f.returns[0].name}"')
            self.line(f"ret {returns} {value}")
        self.lines += ["dead:", f"  ret {returns}" + ("" if returns == "void" else " 0")]
        return f'define {linkage}{returns} {symbol_name(f.name, module.raw)}({", ".join(args)}) nounwind {{\n{self._text()}\n}}\n'

    def _formal(self, p: Variable, args: list[str]) -> None:
        name = f'%"{p.name}"'
        self.params[p.name] = (name, 0)
        if p.is_array:
            args.append(f"ptr {name}")
        else:
            t = f"i{8 * p.size}"
            args.append(f'{t} %"{p.name}.in"')
            self.entry += [f"  {name} = alloca {t}", f'  store {t} %"{p.name}.in", ptr {name}']

    def _text(self) -> str:
        return "\n".join(["entry:"] + self.entry + ["  br label %begin", "begin:"] + self.lines + self.slow_paths)

    def _prologue(self) -> None:
        """Pointers that everything else needs; LLVM drops what is not used."""
        if self.module.raw:
            self.arena = self.shadow = "null"
            return
        self.entry.append("  %envp = inttoptr i64 %env to ptr")
        self.entry.append("  %thrp = inttoptr i64 %thr to ptr")
        for name, struct, field_ in (("launch", "Env", "launch"), ("arena", "Env", "arena"),
                                     ("shadow", "Env", "shadow")):  # fmt: skip
            self.entry.append(f"  %{name}.a = getelementptr i8, ptr %envp, i64 {state.offset(struct, field_)}")
            self.entry.append(f"  %{name} = load ptr, ptr %{name}.a, !invariant.load !1")
        self.entry += [
            f"  %sharedbase.a = getelementptr i8, ptr %envp, i64 {state.offset('Env', 'shared_base')}",
            "  %sharedbase = load i64, ptr %sharedbase.a, !invariant.load !1",
            "  %shared = getelementptr i8, ptr %arena, i64 %sharedbase",
            f"  %sharedbase.g = lshr i64 %sharedbase, {state.GRANULE.bit_length() - 1}",
            "  %sharedshadow = getelementptr i8, ptr %shadow, i64 %sharedbase.g",
            f"  %globals.a = getelementptr i8, ptr %envp, i64 {state.offset('Env', 'globals_base')}",
            "  %globals = load i64, ptr %globals.a, !invariant.load !1",
        ]
        self.arena, self.shadow, self.shared_base = "%arena", "%shadow", "%sharedbase"
        self.shared_memory, self.shared_shadow = "%shared", "%sharedshadow"
        self.start_counting()

    def _guard_recursion(self) -> None:
        ok = self.runtime_call("rt_enter", site=self.inherited_site)
        good = self.fresh_label("entered")
        self.branch(self.op("icmp ne i32", ok, 0), good, "dead")
        self.label(good)

    # -- state of thread, worker and launch ---------------------------------------------------------

    def field_pointer(self, struct: str, name: str) -> str:
        base = {"Env": "%envp", "Thread": "%thrp", "Launch": "%launch"}[struct]
        return self.emit(f"getelementptr i8, ptr {base}, i64 {state.offset(struct, name)}")

    def load_field(self, struct: str, name: str, invariant: bool = False) -> str:
        mark = ", !invariant.load !1" if invariant else ""
        pointer = self.field_pointer(struct, name)
        return self.emit(f"load {state.llvm_field(struct, name)}, ptr {pointer}{mark}")

    def store_field(self, struct: str, name: str, value) -> None:
        pointer = self.field_pointer(struct, name)
        self.line(f"store {state.llvm_field(struct, name)} {value}, ptr {pointer}")

    def runtime_call(self, name: str, *values: str, site) -> str:
        """Call int rt_NAME(env, thr, site, values...) with i64 values, given as i64 or i32 text."""
        wide = []
        for value in values:
            is_narrow = value.startswith("%") and name == "rt_arrive" and not wide
            wide.append(f"i64 {self.cast('zext', 'i32', value, 'i64') if is_narrow else value}")
        return self.emit(f"call i32 @{name}({', '.join(['i64 %env', 'i64 %thr', f'i32 {site}'] + wide)})")

    def special(self, name: str) -> tuple[str, str]:
        """A special register's value and LLVM type, read once at the entry where it cannot change."""
        if name == "WARP_SZ":
            return "32", "i32"
        if name in ("%clock", "%clock64", "%globaltimer"):
            value = self.emit("call i64 @rt_clock()")
            return (value, "i64") if name != "%clock" else (self.cast("trunc", "i64", value, "i32"), "i32")
        if name not in self.specials:
            lines, self.lines = self.lines, self.entry
            self.specials[name] = self._read_special(name)
            self.lines = lines
        return self.specials[name], "i32"

    def _read_special(self, name: str) -> str:
        if name in _SPECIAL:
            return self.load_field(*_SPECIAL[name], invariant=True)
        if name in ("%nsmid", "%gridid") or name.startswith("%reserved_smem_offset"):
            return "1"
        linear = self.load_field("Thread", "linear", invariant=True)
        lane = self.op("and i32", linear, 31)
        if name == "%laneid":
            return lane
        if name == "%warpid":
            return self.op("lshr i32", linear, 5)
        if name == "%nwarpid":
            threads = self.load_field("Launch", "threads", invariant=True)
            return self.op("lshr i32", self.op("add i32", threads, 31), 5)
        if name.startswith("%lanemask_") and (recipe := _LANEMASKS.get(name[-2:])):
            first, _, second = recipe.partition("; ")
            value = self.emit(first.format(lane))
            return self.emit(second.format(value)) if second else value
        if name == "%total_smem_size":
            static = self.load_field("Launch", "shared_static", invariant=True)
            return self.op("add i32", static, self.load_field("Launch", "shared_dynamic", invariant=True))
        if name in ("%envreg1", "%envreg2"):  # the upper and lower half of the address of the grid's workspace
            workspace = self.load_field("Launch", "grid_workspace", invariant=True)
            half = self.op("lshr i64", workspace, 32) if name == "%envreg1" else workspace
            return self.cast("trunc", "i64", half, "i32")
        what = next((words for start, words in _REFUSED_SPECIAL.items() if name.startswith(start)), "")
        raise Unsupported(what or f"the special register {name}", self.module.name)

    # -- bodies -----------------------------------------------------------------------------------

    def _body(self, function: Function) -> None:
        """Lower a body at the current place; ends in a branch to `self.return_label`."""
        outer = self.prefix, self.spins
        if self.inlined:
            self.prefix = f"{function.name}#{self.serial}:"
            self.serial += 1
        self.declare_registers(function, self.prefix)
        self._declare_flags(function)
        if not any(r == "%carry" for r in self.slots):
            if any(isinstance(i, Instruction) and (".cc" in i.opcode or i.base in ("addc", "subc", "madc"))
                   for i in function.body):  # fmt: skip
                self.slots["%carry"] = "%carry"
                self.entry.append("  %carry = alloca i1")
        for name, variable in function.variables.items():
            self._declare_variable(name, variable)
        self.known = {}
        self.spins = spinning_loops(function, self.module._touches_order) if self.coroutine else set()
        self.groups = {} if self.module.raw else access_groups(function.body)
        self.positions = {item.name: i for i, item in enumerate(function.body) if isinstance(item, Label)}
        if any(self._is_back_edge(i, item) for i, item in enumerate(function.body)) and not self.module.raw:
            self._step_counter()
        self.start_body(function)
        ended = False
        for i, item in enumerate(function.body):
            if isinstance(item, Label):
                if ended:
                    self.lines.append(f"{self._label(item.name)}:")
                    self.known.clear()
                else:
                    self.end_block(i)
                    self.join(self._label(item.name))
                self.start_block(i)
                ended = False
                continue
            if ended:  # unreachable code after a branch
                self.lines.append(f"{self.fresh_label('unreachable')}:")
                self.known.clear()
            mine = self.positions, self.groups, self.undefined, self.copies
            ended = self._lower(i, item)
            self.positions, self.groups, self.undefined, self.copies = mine
        if not ended:
            self.line(f"br label %{self.return_label}")
        self.prefix, self.spins = outer

    def _step_counter(self) -> None:
        if "%steps" not in self.slots:
            self.slots["%steps"] = "%steps"
            size = state.COUNT_SLICE if self.module.counting else state.SLICE
            self.entry += ["  %steps = alloca i32", f"  store i32 {size}, ptr %steps"]

    def _label(self, name: str) -> str:
        return f'"{self.prefix}{name}"'

    def _declare_variable(self, name: str, variable: Variable) -> None:
        key = self.prefix + name
        if variable.space == "param":
            pointer = f'%"{key}"'
            self.entry.append(f"  {pointer} = alloca [{max(variable.size, 1)} x i8], align {max(variable.align, 8)}")
            self.params[key] = (pointer, 0)
        elif variable.space == "local":
            if self.module.raw:
                pointer = f'%"{key}"'
                self.entry.append(f"  {pointer} = alloca [{variable.size} x i8], align {variable.align}")
                self.depots[key] = self.emit(f"ptrtoint ptr {pointer} to i64")
                return
            site = self.inherited_site
            address = self.emit(f"call i64 @rt_local(i64 %env, i64 %thr, i32 {site}, i64 {variable.size})")
            good = self.fresh_label("local")
            self.branch(self.op("icmp ne i64", address, 0), good, self.dead_label)
            self.label(good)
            self.depots[key] = address

    def _leave(self, function: Function) -> None:
        """Give back the local memory and the depth of a device function that returns."""
        if self.module.raw:
            return
        for name, variable in reversed(function.variables.items()):
            if variable.space == "local":
                address = self.depots[self.prefix + name]
                self.runtime_call("rt_local_free", address, str(variable.size), site=0)
        if self.module.is_recursive(function.name):
            depth = self.load_field("Thread", "depth")
            self.store_field("Thread", "depth", self.op("sub i32", depth, 1))

    # -- instructions -----------------------------------------------------------------------------

    def site(self, ins: Instruction) -> str:
        """The site number of an instruction: its own line, or the call that led here from the student's code."""
        if not ins.at.line or self.module.raw:
            return self.inherited_site
        return str(self.module.new_site(ins.at, str(ins)))

    def _lower(self, index: int, ins: Instruction) -> bool:
        """As `_instruction`; whatever cannot be lowered is Unsupported, with the line that leads here."""
        try:
            return self._instruction(index, ins)
        except Unsupported as error:
            if error.line:
                raise
            at = self.location(ins)
            raise Unsupported(error.what, at.file or self.module.name, at.line) from error
        except (LookupError, ValueError, TypeError, AttributeError):  # PTX that no compiler wrote
            self.unsupported(ins)

    def location(self, ins: Instruction) -> Location:
        """The student's line of an instruction, or of the call that leads to it."""
        if ins.at.line or not self.inlined:
            return ins.at if ins.at.line else self.module.called_at(self.function.name)
        return self.module.called_at(self.inlined[-1])

    def _instruction(self, index: int, ins: Instruction) -> bool:
        """Lower one instruction; True when it ends the block."""
        self.position = index
        if not self.undefined:
            return self._guarded(ins)
        self._check_registers(ins)
        ended = self._guarded(ins)
        if not ended:
            self._assign_registers(ins)
        return ended

    # -- initcheck of registers: a flag for each that may be read before it is assigned ----------------

    def _flag(self, register: str) -> str:
        return f'%"defined {self.prefix}{register}"'

    def _declare_flags(self, function: Function) -> None:
        self.undefined, self.copies = set(), set()
        if self.module.checks == "full" and not self.module.raw:
            self.undefined = maybe_undefined(function.body, function.regs)
            self.copies = local_copies(function.body, [v.name for v in function.variables.values() if v.space == "local"])
        for register in sorted(self.undefined):
            self.entry += [f"  {self._flag(register)} = alloca i1", f"  store i1 false, ptr {self._flag(register)}"]

    def _defined(self, registers) -> str:
        """i1: all of these registers have a value."""
        value = "true"
        for register in sorted(registers):
            value = self.op("and i1", value, self.emit(f"load i1, ptr {self._flag(register)}"))
        return value

    def _check_registers(self, ins: Instruction) -> None:
        used = reads(ins) & self.undefined
        if ins.base == "mov":
            used &= {ins.pred}
        if not ins.at.line or ins.at.header or ins.opcode == "st.param.b8":
            return  # CUDA's own headers are trusted; an empty struct is passed as a byte that nobody sets
        if used:
            report, go_on = self.fresh_label("undefined"), self.fresh_label("defined")
            self.branch(self._defined(used), go_on, report)
            self.label(report)
            self.runtime_call("rt_uninitialised", site=self.site(ins))
            self.line(f"br label %{go_on}")
            self.label(go_on)

    def _assign_registers(self, ins: Instruction) -> None:
        targets = writes(ins) & self.undefined
        if not targets:
            return
        value = self._defined(reads(ins) & self.undefined - {ins.pred}) if ins.base == "mov" else "true"
        if ins.pred:
            guard = self.value(("!" if ins.negated else "") + ins.pred, "pred")
        for register in sorted(targets):
            new = value
            if ins.pred:
                before = self.emit(f"load i1, ptr {self._flag(register)}")
                new = self.emit(f"select i1 {guard}, i1 {value}, i1 {before}")
            self.line(f"store i1 {new}, ptr {self._flag(register)}")

    def _guarded(self, ins: Instruction) -> bool:
        if ins.base == "bra":
            return self._branch(ins)
        if not ins.pred:
            self.count(ins)
            return self._unguarded(ins)
        do, skip = self.fresh_label("do"), self.fresh_label("skip")
        guard = self.value(("!" if ins.negated else "") + ins.pred, "pred")
        self.branch(guard, do, skip)
        self.label(do)
        before = dict(self.known)
        self.end_segment()
        self.count(ins)
        if not self._unguarded(ins):
            self.line(f"br label %{skip}")
        self.lines.append(f"{skip}:")
        self.end_segment()
        changed = {r for r, v in self.known.items() if before.get(r) != v}
        self.known = {r: v for r, v in before.items() if r not in changed}
        return False

    def _unguarded(self, ins: Instruction) -> bool:
        base = ins.base
        if base in ("ret", "exit", "trap", "call", "brx"):
            return getattr(self, f"_{base}")(ins)
        if base == "mov":
            self._mov(ins)
        elif base in ("membar", "fence"):
            self.line("fence seq_cst")
            if self.module.checks == "full" and not self.module.raw:
                self.store_field("Launch", "fenced", 1)
        elif base == "brkpt" or base in _IGNORED:
            pass
        elif not (opcodes.emit(self, ins) or self.memory(ins) or self.collective(ins) or self.asynchronous(ins)
                  or self.matrix(ins)):
            self.unsupported(ins)
        return False

    def _is_back_edge(self, index: int, ins) -> bool:
        if isinstance(ins, Label) or ins.base not in ("bra", "brx"):
            return False
        targets = self.function_targets(ins)
        return any(self.positions.get(t, 1 << 60) <= index for t in targets)

    def function_targets(self, ins: Instruction) -> tuple[str, ...]:
        if ins.base == "bra":
            return (ins.operands[0],)
        return self._table(ins.operands[1])

    def _table(self, name: str) -> tuple[str, ...]:
        current = self.module.ptx.functions[self.inlined[-1]] if self.inlined else self.function
        return current.tables.get(name, ())

    def _branch(self, ins: Instruction) -> bool:
        if ins.opcode not in ("bra", "bra.uni"):
            self.unsupported(ins)
        self.count(ins)
        self.end_block(self.position + 1)
        target = ins.operands[0]
        back = self._is_back_edge(self.position, ins) and not self.module.raw
        goal = self.fresh_label("back") if back else self._label(target)
        if ins.pred:
            next_ = self.fresh_label("next")
            condition = self.value(("!" if ins.negated else "") + ins.pred, "pred")
            self.count_branch(condition)
            self.branch(condition, goal, next_)
        else:
            self.line(f"br label %{goal}")
        self.end_segment()
        if back:
            self._back_edge(goal, target, ins)
        if ins.pred:
            self.label(next_)
        return not ins.pred

    def _back_edge(self, label: str, target: str, ins: Instruction) -> None:
        """Count a step; now and then ask the watchdog, and let others run that this loop may wait for, or that count
        together with this thread.
        """
        known = dict(self.known)
        self.label(label)
        spin = self.position in self.spins
        left = self.op("sub i32", self.emit("load i32, ptr %steps"), 1)
        self.line(f"store i32 {left}, ptr %steps")
        slice_ = self.fresh_label("slice")
        self.branch(self.op("icmp eq i32", left, 0), slice_, self._label(target), unlikely=True)
        self.label(slice_)
        counting = self.module.counting and self.coroutine
        size = state.SPIN_SLICE if spin else state.COUNT_SLICE if counting else state.SLICE
        self.line(f"store i32 {size}, ptr %steps")
        alive = self.runtime_call("rt_slice", str(size), site=self.site(ins))
        go_on = self.fresh_label("alive")
        self.branch(self.op("icmp ne i32", alive, 0), go_on, self.dead_label)
        self.label(go_on)
        if spin or counting:
            self.store_field("Thread", "wait", state.WAIT["ready"])
            self.suspend()
        self.line(f"br label %{self._label(target)}")
        self.known = known

    def suspend(self) -> None:
        if not self.coroutine:
            raise Unsupported("a barrier in a function that is called recursively or through a pointer",
                              self.module.name)  # fmt: skip
        resumed = self.fresh_label("resumed")
        state_ = self.fresh("suspend")
        self.line(f"{state_} = call i8 @llvm.coro.suspend(token none, i1 false)")
        self.line(f"switch i8 {state_}, label %suspended [ i8 0, label %{resumed} i8 1, label %suspended ]")
        self.label(resumed)
        self.end_segment()

    def _brx(self, ins: Instruction) -> bool:
        if not ins.opcode.startswith("brx.idx"):
            self.unsupported(ins)
        targets = self._table(ins.operands[1])
        index = self.value(ins.operands[0], "u32")
        self.count_target(ins, index)
        self.end_block(self.position + 1)
        self.end_segment()
        cases, edges = [], []
        for i, target in enumerate(targets):
            label = self._label(target)
            if self.positions.get(target, 1 << 60) <= self.position and not self.module.raw:
                label = self.fresh_label("back")
                edges.append((label, target))
            cases.append(f"i32 {i}, label %{label}")
        trap = self.fresh_label("notarget")
        self.line(f"switch i32 {index}, label %{trap} [ {' '.join(cases)} ]")
        for label, target in edges:
            self._back_edge(label, target, ins)
        self.label(trap)
        self.line("unreachable")
        return True

    def _ret(self, ins: Instruction) -> bool:
        self.line(f"br label %{self.return_label}")
        return True

    def _exit(self, ins: Instruction) -> bool:
        """The thread ends, from however deep."""
        self.store_field("Thread", "dead", state.DEAD_EXIT)
        self.line(f"br label %{self.dead_label}")
        return True

    def _trap(self, ins: Instruction) -> bool:
        if self.module.raw:
            self.line("unreachable")
        else:
            self.runtime_call("rt_fault", str(state.FAULT["trap"]), "0", "0", site=self.site(ins))
            self.line(f"br label %{self.dead_label}")
        return True

    def _mov(self, ins: Instruction) -> None:
        """Registers, constants, special registers, addresses of symbols, and packing of vectors."""
        type_ = ins.opcode.split(".")[-1]
        target, source = ins.operands
        if target[0] == "{" or source[0] == "{":
            self._mov_vector(ins, type_)
        elif re.match(r"[A-Za-z_$]", source) and source != "WARP_SZ":
            shared = self._is_shared(source.split("+")[0].strip())
            value = self.symbol(source, window=shared)
            self.set(target, self.resize(value, "i64", llvm_type(type_)), type_)
        else:
            if len(ins.opcode.split(".")) != 2:
                self.unsupported(ins)
            self.set(target, self.value(source, type_), type_)

    def _mov_vector(self, ins: Instruction, type_: str) -> None:
        t = llvm_type(type_)
        bits = int(t[1:])
        if ins.operands[0][0] == "{":
            targets = [p.strip() for p in ins.operands[0][1:-1].split(",")]
            value, width = self.value(ins.operands[1], type_), bits // len(targets)
            for i, target in enumerate(targets):
                part = self.op(f"lshr {t}", value, i * width) if i else value
                self.set(target, self.cast("trunc", t, part, f"i{width}"), f"b{width}")
        else:
            sources = [p.strip() for p in ins.operands[1][1:-1].split(",")]
            width, value = bits // len(sources), "0"
            for i, source in enumerate(sources):
                part = self.cast("zext", f"i{width}", self.value(source, f"b{width}"), t)
                value = self.op(f"or {t}", value, self.op(f"shl {t}", part, i * width))
            self.set(ins.operands[0], value, type_)

    # -- symbols ------------------------------------------------------------------------------------

    def _is_shared(self, name: str) -> bool:
        variable = self._variable(name)
        return variable is not None and variable.space == "shared"

    def _variable(self, name: str) -> Variable | None:
        current = self.module.ptx.functions[self.inlined[-1]] if self.inlined else self.function
        return current.variables.get(name) or self.module.ptx.variables.get(name)

    def symbol(self, text: str, window: bool) -> str:
        """The i64 address of `name` or `name+4`. window: shared symbols as offsets in the shared window."""
        name, _, offset = text.partition("+")
        name, extra = name.strip(), int(offset or 0)
        variable = self._variable(name)
        if (key := self.prefix + name) in self.depots:
            return self.op("add i64", self.depots[key], extra)
        if variable is not None and variable.space == "shared":
            offset = self._shared_offset(variable) + extra
            return str(offset) if window else self.op("add i64", self.shared_base, offset)
        if name in self.module.variables:
            return self.op("add i64", "%globals", self.module.variables[name][0] + extra)
        pointer, offset = self.params.get(self.prefix + name, ("", 0))
        if pointer == "%params":
            return self.op("add i64", "%paramaddress", offset + extra)
        if (function := self.module.ptx.functions.get(name)) and function.body is not None and not function.entry:
            return str(self.module.function_address(name))
        raise Unsupported(f"the address of {name}", self.module.name)

    def _shared_offset(self, variable: Variable) -> int:
        if self.function.entry:
            return self.dynamic_offset if variable.extern else self.shared_symbols[variable.name]
        offsets = set()
        for kernel in (f for f in defined(self.module.ptx) if f.entry):
            if self.function.name in self.module.closure(kernel.name):
                arrays, _, dynamic = self.module.shared_layout(kernel)
                offsets.add(dynamic if variable.extern else dict((n, o) for n, o, _ in arrays)[variable.name])
        if len(offsets) != 1:
            raise Unsupported(f"shared memory of {variable.name} used from several kernels", self.module.name)
        return offsets.pop()

    def parameter_pointer(self, operand: str) -> str | None:
        """Host pointer of `[param+offset]`, or None when the address is in a register."""
        name, _, offset = operand.strip()[1:-1].strip().partition("+")
        pointer, start = self.params.get(self.prefix + name.strip(), (None, 0))
        if pointer is None:
            return None
        start += int(offset or 0)
        return self.emit(f"getelementptr i8, ptr {pointer}, i64 {start}")

    # -- calls --------------------------------------------------------------------------------------

    def _call(self, ins: Instruction) -> bool:
        returns, name, arguments = call_parts(ins)
        function = self.module.ptx.functions.get(name)
        if function is None:
            self._call_pointer(ins, name, returns, arguments)
            return False
        if function.body is None:
            return self._external(ins, name, returns, arguments)
        if not self.module.raw and self.module.waits(name):
            self._expand(ins, function, returns, arguments)
        else:
            self._call_function(ins, function, returns, arguments)
        return False

    def _call_function(self, ins: Instruction, function: Function, returns, arguments) -> None:
        args = [] if self.module.raw else ["i64 %env", "i64 %thr", f"i32 {self.site(ins)}"]
        for formal, actual in zip(function.params, arguments, strict=True):
            if formal.is_array:
                args.append(f"ptr {self.params[self.prefix + actual][0]}")
            else:
                t = f"i{8 * formal.size}"
                args.append(f"{t} {self._argument(actual, formal)}")
        returned = "void"
        for formal, actual in zip(function.returns, returns, strict=False):
            if formal.is_array:
                args.append(f"ptr {self.params[self.prefix + actual][0]}")
            else:
                returned = f"i{8 * formal.size}"
        self.count_call()
        text = f"call {returned} {symbol_name(function.name, self.module.raw)}({', '.join(args)})"
        if returned == "void":
            self.line(text)
        else:
            result = self.fresh("result")
            self.line(f"{result} = {text}")
            if returns:
                self.line(f"store {returned} {result}, ptr {self.params[self.prefix + returns[0]][0]}")
        self.end_segment()
        if not self.module.raw:
            alive = self.fresh_label("returned")
            dead = self.op("icmp ne i32", self.load_field("Thread", "dead"), 0)
            self.branch(dead, self.dead_label, alive, unlikely=True)
            self.label(alive)

    def _call_pointer(self, ins: Instruction, register: str, returns, arguments) -> None:
        """A call through a pointer: a switch over the functions whose address is taken and that fit the call."""
        if self.register_type(register) is None:
            raise Unsupported(f"the function {register}")
        pointer, after = self.value(register, "u64"), self.fresh_label("after")
        candidates = [f for f in self.module.pointed if self._fits(f, returns, arguments)]
        if any(self.module.waits(f.name) for f in candidates):
            raise Unsupported("a barrier or warp collective in a function that is called through a pointer")
        labels = [self.fresh_label("target") for _ in candidates]
        cases = " ".join(f"i64 {self.module.function_address(f.name)}, label %{label}"
                         for f, label in zip(candidates, labels, strict=True))  # fmt: skip
        nowhere = self.fresh_label("nowhere")
        self.line(f"switch i64 {pointer}, label %{nowhere} [ {cases} ]")
        self.label(nowhere)
        self.runtime_call("rt_fault", str(state.FAULT["trap"]), "0", "0", site=self.site(ins))
        self.line(f"br label %{self.dead_label}")
        known = dict(self.known)
        for f, label in zip(candidates, labels, strict=True):
            self.label(label)
            self.known = dict(known)
            self._call_function(ins, f, returns, arguments)
            self.line(f"br label %{after}")
        self.label(after)
        self.known = known

    def _fits(self, function: Function, returns, arguments) -> bool:
        if len(function.params) != len(arguments) or len(function.returns) < len(returns):
            return False
        sizes = [self._variable(a).size if self._variable(a) else 0 for a in arguments]
        return all(not size or size == p.size for size, p in zip(sizes, function.params, strict=True))

    def _argument(self, actual: str, formal: Variable) -> str:
        key = self.prefix + actual
        if key in self.params:
            return self.emit(f"load i{8 * formal.size}, ptr {self.params[key][0]}, align 1")
        return self.value(actual, f"b{8 * formal.size}")

    def _expand(self, ins: Instruction, function: Function, returns, arguments) -> None:
        """A device function that may wait, in place."""
        if function.name in self.inlined or self.module.is_recursive(function.name):
            raise Unsupported(f"a barrier or warp collective inside the recursive function {function.name}",
                              ins.at.file or self.module.name, ins.at.line)  # fmt: skip
        saved = (self.prefix, self.return_label, self.inherited_site, self.position)
        counted = self.expanding()
        params = [(formal, self.params[self.prefix + actual]) for formal, actual in
                  list(zip(function.params, arguments, strict=True)) + list(zip(function.returns, returns, strict=False))]  # fmt: skip
        self.inherited_site = self.site(ins)
        self.inlined.append(function.name)
        prefix = f"{function.name}#{self.serial}:"
        for formal, place in params:
            self.params[prefix + formal.name] = place
        for formal in function.returns[len(returns) :]:
            self.entry.append(f'  %"{prefix}{formal.name}" = alloca [{formal.size} x i8], align 8')
            self.params[prefix + formal.name] = (f'%"{prefix}{formal.name}"', 0)
        self.return_label = self.fresh_return(prefix)
        known = dict(self.known)
        label = self.return_label
        self._body(function)
        self.prefix = prefix
        self.lines.append(f"{label}:")
        self.known = {}
        self._leave(function)
        self.inlined.pop()
        self.prefix, self.return_label, self.inherited_site, self.position = saved
        self.expanded(counted)
        self.known = known

    def fresh_return(self, prefix: str) -> str:
        return f'"{prefix}return"'

    def _external(self, ins: Instruction, name: str, returns, arguments) -> bool:
        """Functions that CUDA's device library leaves to the system."""
        if self.module.raw:
            self._external_raw(name, returns, arguments)
            return False
        if name == "vprintf":
            values = [self._argument(a, Variable("param", "b64", "", 8, 8)) for a in arguments]
            result = self.runtime_call("rt_printf", *values, site=self.site(ins))
            if returns:
                self.line(f"store i32 {result}, ptr {self.params[self.prefix + returns[0]][0]}")
            return False
        if name == "__assertfail":
            values = []
            for argument in arguments[:3]:
                pointer = self.params[self.prefix + argument][0]
                size = 4 if argument == arguments[2] else 8
                value = self.emit(f"load i{8 * size}, ptr {pointer}, align 1")
                values.append(self.resize(value, f"i{8 * size}", "i64"))
            self.runtime_call("rt_assert", values[0], values[2], site=self.site(ins))
            self.line(f"br label %{self.dead_label}")
            return True
        what = {"malloc": "malloc() on the device", "free": "free() on the device"}.get(name, f"the function {name}()")
        raise Unsupported(what)

    def _external_raw(self, name: str, returns, arguments) -> None:
        """The runtime calls host functions by name."""
        function = self.module.ptx.functions[name]
        args = [f"i{8 * f.size} {self._argument(a, f)}" for f, a in zip(function.params, arguments, strict=True)]
        returned = f"i{8 * function.returns[0].size}" if function.returns else "void"
        self.module.declare(name, returned, ", ".join(args))
        text = f"call {returned} @{name}({', '.join(args)})"
        if returned == "void":
            self.line(text)
        else:
            result = self.emit(text)
            if returns:
                self.line(f"store {returned} {result}, ptr {self.params[self.prefix + returns[0]][0]}")


# -- helpers --------------------------------------------------------------------------------------


def align_up(n: int, alignment: int) -> int:
    return -(-n // alignment) * alignment


def symbol_name(name: str, raw: bool) -> str:
    """A suffix that no name in C++ has keeps a student's functions apart from the runtime's and the system's."""
    return f'@"{name}"' if raw else f'@"{name}.function"'


def defined(module: Module):
    return (f for f in module.functions.values() if f.body is not None)


def pointed_functions(module: Module) -> list[Function]:
    """Functions whose address is taken: named in an operand that is no call, or in an initialiser."""
    named = {
        operand.split("+")[0].strip()
        for f in defined(module) for i in f.body
        if isinstance(i, Instruction) and i.base == "mov" for operand in i.operands[1:]
    }  # fmt: skip
    named |= {v[1] for variable in module.variables.values() for v in variable.init if isinstance(v, tuple)}
    return [f for f in defined(module) if f.name in named and not f.entry]


def call_parts(ins: Instruction) -> tuple[list[str], str, list[str]]:
    """`call.uni (ret), name, (a, b)` -> (["ret"], "name", ["a", "b"])."""
    operands = list(ins.operands)
    returns = operands.pop(0)[1:-1].split(",") if operands[0].startswith("(") else []
    name = operands.pop(0)
    arguments = operands.pop(0)[1:-1].split(",") if operands and operands[0].startswith("(") else []
    return [r.strip() for r in returns if r.strip()], name, [a.strip() for a in arguments if a.strip()]


def called(item) -> str | None:
    if isinstance(item, Instruction) and item.base == "call":
        return call_parts(item)[1]
    return None


def split_arguments(text: str) -> list[str]:
    """Split call arguments at top-level commas."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "(<{[") - (c in ")>}]")
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [p for p in parts + [text[start:]] if p.strip()]


def spinning_loops(function: Function, touches_order) -> set[int]:
    """Positions of backward branches whose loop holds an instruction that `touches_order`."""
    positions = {item.name: i for i, item in enumerate(function.body) if isinstance(item, Label)}
    found = set()
    for i, item in enumerate(function.body):
        if isinstance(item, Instruction) and item.base == "bra":
            start = positions.get(item.operands[0], 1 << 60)
            if start <= i and any(isinstance(x, Instruction) and touches_order(x) for x in function.body[start:i]):
                found.add(i)
    return found
