"""One PTX function -> LLVM text: a kernel as a loop over its threads or as a coroutine, a device function as itself.

Source: LLVM Coroutines (switched-resume lowering).
"""

from __future__ import annotations

from ....errors import Unsupported
from ..analyse.uniformity import Coarsening
from ..compile.modules import KernelInfo, Parameter
from ..ptx.callgraph import align_up, symbol_name
from ..ptx.ir import Expansion, Function, Location, Variable
from ..runtime import abi
from .addresses import Symbols
from .body import Body
from .coarsened import Coarsened
from .special_registers import Special
from .unit import Unit
from .values import Emitter, memory_name

#: a large frame is touched page by page, so that it cannot reach over the guard page of the host's stack
_PROBED = 'nounwind "probe-stack"="inline-asm"'


class Lowering(
    Body,
    Coarsened,
    Special,
    Symbols,
    Emitter,
):
    """One function. `kernel()` or `device_function()` gives its text."""

    def __init__(self, function: Function, module: Unit):
        super().__init__(function, module)
        self.slow_paths: list[str] = []
        self.frame: list[str] = []  # of a coroutine: where its state gets its memory
        self.params: dict[str, tuple[str, int]] = {}  # .param symbol -> (host pointer, offset)
        self.depots: dict[str, str] = {}  # .local symbol -> its device address
        self.specials: dict[str, str] = {}
        self.inherited_site = "%site"  # of the call that led here, for code that is not the student's
        self.facts = module.facts.of(function)
        self.call_sites: dict[Expansion, str] = {}
        self.return_label = "return"
        self.dead_label = "dead"
        self.coroutine = False
        self.places: dict = {}  # item of the body -> its position
        self.held: dict[str, str] = {}  # .local symbol that LLVM keeps -> how its memory is called
        self.tags: dict[tuple[str, str], str] = {}  # see `memory.apart`
        self.written: set[tuple[str, int]] = (
            set()
        )  # addresses, as LLVM's values, that hold something, and how much
        self.loops: dict[str, int] = {}
        self.shared_symbols: dict[str, int] = {}
        self.raw_locals: dict[str, str] = {}

    # -- whole functions ------------------------------------------------------------------------

    def kernel(self) -> str:
        f, module = self.function, self.module
        self.coroutine = module.waits.may_wait(f.name) or bool(module.facts.segments)
        arrays, static, dynamic = module.shared_layout(f)
        self.shared_symbols = {name: offset for name, offset, _ in arrays}
        self.dynamic_offset = dynamic
        offset, params = 0, []
        for p in f.params:
            offset = align_up(offset, p.align)
            params.append(Parameter(p.name, offset, p.size, p.align))
            self.params[p.name] = ("%params", offset)
            offset += p.size
        recursive = any(map(module.graph.is_recursive, module.graph.closure(f.name)))
        reserved = module.graph.reads_special(f.name, "%reserved_smem")
        info = KernelInfo(f.name, tuple(params), arrays, static, reserved, dynamic, self.coroutine,
                          module.waits.syncs_grid(f.name), self.coroutine and module.waits.meets(f.name), recursive,
                          f.max_threads, module.waits.turn_lines(f.name), module.barriers.symmetric(f.name), module.barriers.ordered(f.name))  # fmt: skip
        if module.waits.interleaved:
            info.finals = module.barriers.block_barriers(f.name)
        module.kernels[f.name] = info
        self.inherited_site = str(module.new_site(Location(module.name, 0), f.name))
        found = self.facts.coarsening
        several = Lowering(f, module)._several(self, found) if found else ""
        self._start()
        if found:
            info.coarsening = found.factor
        if not self.coroutine:
            return self._plain_loop() + several + _block(f.name, info.coarsening)
        return self._coroutine("start") + several + _RUN_COROUTINES.format(name=f.name)

    def _start(self) -> None:
        """The code at the start of every thread of a kernel."""
        f, module = self.function, self.module
        self._prologue()
        self.line("%paramaddress = add i64 0, " + self.load_field("Env", "params", invariant=True))
        self.line("%params = getelementptr i8, ptr %arena, i64 %paramaddress")
        for name, value in (("steps", self.load_field("Launch", "step_budget", invariant=True)),
                            ("dead", "0"), ("depth", "0"), ("clock", "0")):  # fmt: skip
            for self.member in range(self.factor):
                self.store_field("Thread", name, value)
        self.member = 0
        called = (module.ptx.functions[name] for name in module.graph.closure(f.name))
        if any(v.space == "local" for function in called for v in function.variables.values()):
            self.runtime_call("rt_local_reset", site=0)
        if module.graph.any(f.name, lambda op: op.asynchronous and not op.is_mbarrier):
            self.runtime_call("rt_copy_reset", site=0)

    def _plain_loop(self) -> str:
        name = self.function.name
        self._body(self.function)
        self.lines += ["return:", "  ret void", "dead:", "  ret void"]
        return f"""
define internal void @"{name}.thread"(i64 %env, i64 %thr) {_PROBED} {{
{self._text()}
}}
"""

    def _several(self, one: Lowering, found: Coarsening) -> str:
        """The code that several threads run together: a coroutine, or a function that returns whether they
        agreed."""
        self.coarsening, self.varying, self.factor = found, found.varying, found.factor
        self.params, self.shared_symbols, self.dynamic_offset = (
            dict(one.params),
            one.shared_symbols,
            one.dynamic_offset,
        )
        self.inherited_site, self.coroutine = one.inherited_site, one.coroutine
        if self.coroutine:
            size = abi.DTYPES["Thread"].itemsize
            self.entry += [f"  %thr.{lane} = add i64 %thr, {lane * size}" for lane in range(self.factor)]
            self._start()
            return self._coroutine("together")
        self._start()
        self._body(self.function)
        self.lines += ["return:", "  ret i1 true", "dead:", "  ret i1 true", "disagree:", "  ret i1 false"]
        arguments = ", ".join(f"i64 %thr.{lane}" for lane in range(self.factor))
        return f"""
define internal i1 @"{self.function.name}.threads"(i64 %env, {arguments}) {_PROBED} {{
{self._text()}
}}
"""

    def _coroutine(self, kind: str) -> str:
        """kind: what the function is called, after the kernel's name."""
        self.frame = [
            "  %id = call token @llvm.coro.id(i32 0, ptr null, ptr null, ptr null)",
            "  %size = call i64 @llvm.coro.size.i64()",
            "  %frame = call i64 @rt_frame(i64 %env, i64 %thr, i64 %size)",
            "  %fits = icmp ne i64 %frame, 0",
            "  br i1 %fits, label %framed, label %unframed, !prof !2",
            "unframed:",  # the runtime has ended the thread
            "  ret void",
            "framed:",
            "  %framep = inttoptr i64 %frame to ptr",
            "  %handle = call noalias ptr @llvm.coro.begin(token %id, ptr %framep)",
        ]
        for text in ("token @llvm.coro.id(i32, ptr, ptr, ptr)", "i64 @llvm.coro.size.i64()",
                     "ptr @llvm.coro.begin(token, ptr)", "i8 @llvm.coro.suspend(token, i1)",
                     "void @llvm.coro.end(ptr, i1, token)"):  # fmt: skip
            self.module.declarations[text] = text
        self.module.declare("rt_frame")
        self.module.declare("rt_block")
        handle = self.emit("ptrtoint ptr %handle to i64")
        self.store_field("Thread", "handle", handle)
        self._body(self.function)
        self.lines += ["return:", "  br label %finish", "dead:"]
        if self.coarsening:  # the dead one may not be the first
            self.store_field("Thread", "dead", abi.DEAD_FAULT)
        self.lines += ["  br label %finish", "finish:"]
        self.store_field("Thread", "wait", abi.WAIT["exited"])
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
define void @"{self.function.name}.{kind}"(i64 %env, i64 %thr) presplitcoroutine coro_only_destroy_when_complete {_PROBED} {{
{self._text()}
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
                args.append(f"ptr {memory_name(p.name)}")
            else:
                returns = f"i{8 * p.size}"
                self.room_for(memory_name(p.name), returns, p.size)
            self.params[p.name] = (memory_name(p.name), 0)
        if module.raw:
            linkage = "" if f.name.startswith("rt_") else "internal "
            self.inherited_site = "0"
        else:
            linkage = "internal "
            args = ["i64 %env", "i64 %thr", "i32 %site"] + args
        self._prologue()
        if not module.raw and module.graph.is_recursive(f.name):
            self._guard_recursion()
        self._body(f)
        self.lines.append("return:")
        self._give_back(f)
        if returns == "void":
            self.line("ret void")
        else:
            value = self.emit(f"load {returns}, ptr {memory_name(f.returns[0].name)}")
            self.line(f"ret {returns} {value}")
        self.lines += ["dead:", f"  ret {returns}" + ("" if returns == "void" else " 0")]
        return f"define {linkage}{returns} {symbol_name(f.name, module.raw)}({', '.join(args)}) {_PROBED} {{\n{self._text()}\n}}\n"

    def _formal(self, p: Variable, args: list[str]) -> None:
        name = memory_name(p.name)
        self.params[p.name] = (name, 0)
        if p.is_array:
            args.append(f"ptr {name}")
        else:
            t = f"i{8 * p.size}"
            args.append(f'{t} %"{p.name}.in"')
            self.entry += [f"  {name} = alloca {t}", f'  store {t} %"{p.name}.in", ptr {name}']

    def _text(self) -> str:
        memory = [line for line in self.entry if " = alloca " in line]
        others = [line for line in self.entry if " = alloca " not in line]
        start = ["entry:", *memory, *self.frame, *others, "  br label %begin", "begin:"]
        return "\n".join(start + self.lines + self.slow_paths)

    def _prologue(self) -> None:
        """Pointers that everything else needs; LLVM drops unused ones."""
        if self.module.raw:
            self.arena = self.shadow = "null"
            return
        self.entry.append("  %envp = inttoptr i64 %env to ptr")
        for self.member in range(self.factor):
            self.entry.append(f"  {self.thread}.p = inttoptr i64 {self.thread} to ptr")
        self.member = 0
        for name, struct, field_ in (("launch", "Env", "launch"), ("arena", "Env", "arena"),
                                     ("shadow", "Env", "shadow")):  # fmt: skip
            self.entry.append(f"  %{name}.a = getelementptr i8, ptr %envp, i64 {abi.offset(struct, field_)}")
            self.entry.append(f"  %{name} = load ptr, ptr %{name}.a, !invariant.load !1")
        self.entry += [
            f"  %sharedbase.a = getelementptr i8, ptr %envp, i64 {abi.offset('Env', 'shared_base')}",
            "  %sharedbase = load i64, ptr %sharedbase.a, !invariant.load !1",
            "  %shared = getelementptr i8, ptr %arena, i64 %sharedbase",
            f"  %sharedbase.g = lshr i64 %sharedbase, {abi.GRANULE.bit_length() - 1}",
            "  %sharedshadow = getelementptr i8, ptr %shadow, i64 %sharedbase.g",
            f"  %globals.a = getelementptr i8, ptr %envp, i64 {abi.offset('Env', 'globals_base')}",
            "  %globals = load i64, ptr %globals.a, !invariant.load !1",
        ]
        self.arena, self.shadow, self.shared_base = "%arena", "%shadow", "%sharedbase"
        self.shared_memory, self.shared_shadow = "%shared", "%sharedshadow"

    def _guard_recursion(self) -> None:
        ok = self.runtime_call("rt_enter", site=self.inherited_site)
        good = self.fresh_label("entered")
        self.branch(self.op("icmp ne i32", ok, 0), good, "dead")
        self.label(good)


_RUN_COROUTINES = """
define void @"{name}.block"(i64 %env) nounwind {{
  call void @rt_block(i64 %env)
  ret void
}}
"""
_BLOCK = """
define void @"{name}.block"(i64 %env) nounwind {{
entry:
  %envp = inttoptr i64 %env to ptr
  %la = getelementptr i8, ptr %envp, i64 {launch}
  %launch = load ptr, ptr %la, !invariant.load !1
  %ta = getelementptr i8, ptr %envp, i64 {threads}
  %threads = load i64, ptr %ta, !invariant.load !1
  %na = getelementptr i8, ptr %launch, i64 {count}
  %n = load i32, ptr %na, !invariant.load !1
  %oa = getelementptr i8, ptr %launch, i64 {order}
  %order = load ptr, ptr %oa, !invariant.load !1
  %ka = getelementptr i8, ptr %launch, i64 {factor_field}
  %k = load i32, ptr %ka, !invariant.load !1
  %together = icmp ugt i32 %k, 1
  br label %some
some:
  %first = phi i32 [ 0, %entry ], [ %after, %several ], [ %stop, %one ]
  %after = add i32 %first, {factor}
  %left = icmp ule i32 %after, %n
  %enough = and i1 %left, %together
  br i1 %enough, label %several, label %rest
several:
{several}
  br i1 %went, label %some, label %alone
rest:
  %any = icmp ult i32 %first, %n
  br i1 %any, label %alone, label %done
alone:
  %stop = phi i32 [ %after, %several ], [ %n, %rest ]
  br label %one
one:
  %i = phi i32 [ %first, %alone ], [ %next, %one ]
{address}
  call void @"{name}.thread"(i64 %env, i64 %thr)
  %next = add i32 %i, 1
  %more = icmp ult i32 %next, %stop
  br i1 %more, label %one, label %some
done:
  ret void
}}
"""


def _block(name: str, factor: int) -> str:
    """The function that runs a block of threads, `factor` at a time where they run together."""
    several = "  %went = icmp ugt i32 %first, %after"  # never comes here
    if factor > 1:
        lines = [f"  %i.{i} = add i32 %first, {i}\n" + _address(f"%i.{i}", f".{i}") for i in range(factor)]
        arguments = ", ".join(f"i64 %thr.{i}" for i in range(factor))
        several = "\n".join([*lines, f'  %went = call i1 @"{name}.threads"(i64 %env, {arguments})'])
    offsets = {"launch": abi.offset("Env", "launch"), "threads": abi.offset("Env", "threads"),
               "count": abi.offset("Launch", "threads"), "order": abi.offset("Launch", "order"),
               "factor_field": abi.offset("Launch", "coarsening")}  # fmt: skip
    return _BLOCK.format(name=name, factor=factor, several=several, address=_address("%i", ""), **offsets)


def _address(number: str, suffix: str) -> str:
    """The state of the thread at a place in the order."""
    return f"""\
  %ip{suffix} = getelementptr i32, ptr %order, i32 {number}
  %id{suffix} = load i32, ptr %ip{suffix}, !invariant.load !1
  %wide{suffix} = zext i32 %id{suffix} to i64
  %at{suffix} = mul i64 %wide{suffix}, {abi.DTYPES["Thread"].itemsize}
  %thr{suffix} = add i64 %threads, %at{suffix}"""
