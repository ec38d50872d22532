"""One PTX function -> LLVM text: a kernel as a loop over its threads or as a coroutine, a device function as
a function.

Source: LLVM Coroutines (switched-resume lowering).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ....errors import Unsupported
from ..analyse import debuginfo
from ..analyse.facts import Facts
from ..analyse.lanes import Lanes
from ..analyse.packs import packs
from ..analyse.phases import together
from ..analyse.places import places
from ..analyse.pointers import Likely
from ..compile.modules import KernelInfo, Parameter
from ..ptx.callgraph import align_up, symbol_name
from ..ptx.ir import Function, Instruction, Location, Variable
from ..rewrite import ranges, selects
from ..runtime import abi
from . import blocks, body, phases
from .control import DEAD
from .emitter import Emitter
from .lanes import body as lane_body
from .lanes.checks import Checks
from .lanes.lift import Unliftable
from .packs import Packs
from .text import memory_name
from .unit import Unit

_REGISTERS, _MOST = 1 << 16, 256  # of a multiprocessor; of a thread
#: a large frame is touched page by page, so that it cannot reach over the guard page of the host's stack
_PROBED = 'nounwind "probe-stack"="inline-asm"'
_CORO = (
    "token @llvm.coro.id(i32, ptr, ptr, ptr)",
    "i64 @llvm.coro.size.i64()",
    "ptr @llvm.coro.begin(token, ptr)",
    "i8 @llvm.coro.suspend(token, i1)",
    "void @llvm.coro.end(ptr, i1, token)",
)


class NotAsLanes(Exception):
    """Code whose threads were to run as lanes cannot."""


def emit(function: Function, unit: Unit) -> str:
    return _kernel(function, unit) if function.entry else _device_function(function, unit)


# -- kernels ---------------------------------------------------------------------------------------


def _kernel(f: Function, unit: Unit) -> str:
    coroutine = unit.waits.may_wait(f.name) or bool(unit.facts.segments)
    info = unit.kernels[f.name] = _info(f, unit, coroutine)
    site, found = str(unit.new_site(Location(unit.name, 0), f.name)), unit.facts.of(f).coarsening
    several = ""
    if found:
        together = Emitter(f, unit, site, coroutine, found)
        several = _coroutine(together, "together", body.emit) if coroutine else _together(together)
        info.coarsening = found.factor
    elif unit.facts.of(f).lanes and (several := _lanes(f, unit, site, coroutine)):
        info.lanes = unit.facts.of(f).width
        if unit.facts.of(f).block and (whole := _lanes(f, unit, site, False, unit.facts.of(f).rows)):
            info.block, info.coroutine = unit.facts.of(f).block, False
            return whole + blocks.of_lanes(f.name, info.together, alone=False)
        if (rows := unit.facts.of(f).rows) > 1 and (more := _lanes(f, unit, site, coroutine, rows)):
            several, info.rows = several + more, rows
    if unit.facts.of(f).phased:
        info.block, info.coroutine = unit.facts.block, False
        return _phases(f, unit, site)
    info.scouts = info.lanes > 1 and unit.waits.interleaved
    if unit.facts.of(f).lanes and unit.waits.interleaved and not several:
        raise NotAsLanes
    if info.scouts and not coroutine:
        return several + blocks.of_lanes(f.name, info.lanes, alone=False)
    if coroutine and info.lanes > 1:  # single threads have a module of their own
        return several + blocks.of_coroutines(f.name)
    e = Emitter(f, unit, site, coroutine)
    if coroutine:
        return _coroutine(e, "start", body.emit) + several + blocks.of_coroutines(f.name)
    if info.lanes > 1:
        return _plain(e) + several + blocks.of_lanes(f.name, info.lanes)
    return _plain(e) + several + blocks.of_threads(f.name, info.coarsening)


def _info(f: Function, unit: Unit, coroutine: bool) -> KernelInfo:
    arrays, static, dynamic = unit.shared_layout(f)
    external = [v.name for v in unit.facts.shared[f.name] if v.extern]
    graph, waits, barriers = unit.graph, unit.waits, unit.barriers
    params, grid = tuple(_parameters(f)), waits.grid_barriers(f.name)
    stored, variables = _stored(f, unit, params) if waits.interleaved else (None, False)
    return KernelInfo(
        f.name,
        params=params,
        shared=arrays,
        shared_static=static,
        reserved=graph.reads_special(f.name, "%reserved_smem"),
        dynamic_offset=dynamic,
        dynamic=external[0] if len(external) == 1 else "",
        coroutine=coroutine,
        grid_sync=bool(grid),
        grid_line=grid[0] if grid else 0,
        resident=coroutine and waits.meets(f.name),
        recursive=any(map(graph.is_recursive, graph.closure(f.name))),
        max_threads=f.max_threads,
        cluster=f.cluster,
        clustered=_clustered(f, unit),
        turns=waits.turn_lines(f.name),
        overwrites=waits.interleaved and waits.overwrites(f.name),
        symmetric=abi.ASYNCHRONOUS if _is_asynchronous(f, unit) else barriers.symmetric(f.name),
        ordered=barriers.ordered(f.name),
        registers=_registers(f),
        finals=waits.interleaved and barriers.block_barriers(f.name),
        epochs=_shows_in_epochs(f, unit),
        refused=unit.facts.refused.get(f.name, ""),
        stored=stored,
        stores_variables=variables,
        pointed=debuginfo.pointed(unit.ptx.debug, f.name),
    )


def _clustered(f: Function, unit: Unit) -> bool:
    """Whether a kernel has anything of clusters."""
    meets = unit.graph.any(f.name, lambda op: op.collective == "cluster" or op.base in ("mapa", "getctarank"))
    meets = meets or unit.graph.any(f.name, lambda op: "multicast::cluster" in op.mods)
    reads = any(unit.graph.reads_special(f.name, name) for name in ("%cluster", "%ncluster", "%is_explicit"))
    return f.cluster != (1, 1, 1) or meets or reads


def _stored(f: Function, unit: Unit, params: tuple[Parameter, ...]) -> tuple[tuple[int, ...] | None, bool]:
    """See `KernelInfo.stored`. What a called pointer does is not known, nor what tensor a map is of."""
    if unit.graph.any(f.name, lambda op: op.bulk and op.space == "global"):
        return None, False
    calls_pointers = unit.graph.any(f.name, lambda op: op.flow == "call") and unit.graph.pointed
    found = None if calls_pointers else Likely(unit.ptx, f.name).stored()
    if found is None:
        return None, True
    starts = {p.name: p.offset for p in params}
    places = {starts[o.name] + o.offset for o in found if o.kind == "param"}
    return tuple(sorted(places)), any(o.name in unit.variables for o in found)


def _shows_in_epochs(f: Function, unit: Unit) -> bool:
    """Whether epochs can show that a kernel has no race. Not if threads synchronize through memory, or texels
    have to be compared with stores; if blocks take turns, only with barriers of whole blocks."""
    name, waits, barriers = f.name, unit.waits, unit.barriers
    recorded = unit.graph.any(name, lambda op: op.texture) or _is_asynchronous(f, unit)
    if barriers.ordered(name) or waits.takes_turns(name) or recorded:
        return False
    return not waits.meets(name) or bool(barriers.symmetric(name) & abi.SYMMETRIC_LANES)


def _registers(f: Function) -> int:
    """How many registers a thread begins with, where setmaxnreg may change that: only with both bounds."""
    threads = f.max_threads * f.min_blocks
    return min(_REGISTERS // threads, _MOST) // 8 * 8 if threads else 0


def _is_asynchronous(f: Function, unit: Unit) -> bool:
    """Whether something that it starts goes on while it does (runtime/agents.cu), or threads of other blocks come to its
    shared memory."""
    return _clustered(f, unit) or unit.graph.any(f.name, lambda op: op.bulk or op.collective == "group")


def _parameters(f: Function) -> Iterator[Parameter]:
    offset = 0
    for p in f.params:
        offset = align_up(offset, p.align)
        yield Parameter(p.name, offset, p.size, p.align)
        offset += p.size


def _start(e: Emitter, first: bool = True) -> None:
    """The code at the start of every thread of a kernel. first: not where it goes on."""
    e.state.begin()
    if e.module.waits.interleaved and not e.facts.lanes:
        _follow_epoch(e)
    for p in _parameters(e.function):
        e.variables.place(p.name, "%params", p.offset)
    e.line("%paramaddress = add i64 0, " + e.state.load("Env", "params", invariant=True))
    e.line("%params = getelementptr i8, ptr %arena, i64 %paramaddress")
    if not first:
        return
    steps = e.state.load("Launch", "step_budget", invariant=True)
    for name, value in {"steps": steps, "dead": "0", "depth": "0", "clock": "0"}.items():
        for _ in e.threads.each():
            e.state.store("Thread", name, value)
    graph, name = e.module.graph, e.function.name
    called = (e.module.ptx.functions[f] for f in graph.closure(name))
    if any(v.space == "local" for function in called for v in function.variables.values()):
        e.state.call("rt_local_reset", site=0)
    if graph.any(name, lambda op: op.asynchronous and not op.is_mbarrier):
        e.state.call("rt_copy_reset", site=0)


def _follow_epoch(e: Emitter) -> None:
    barriers = e.module.barriers
    lanes = barriers.symmetric(e.function.name) & abi.SYMMETRIC_LANES
    e.state.follow_epoch(not lanes, not e.function.entry and barriers.has_barriers)


def _plain(e: Emitter) -> str:
    _start(e)
    body.emit(e)
    e.text.raw("return:", "  ret void", f"{DEAD}:", "  ret void")
    return _defined(e, f'internal void @"{e.function.name}.thread"(i64 %env, i64 %thr)')


def _together(e: Emitter) -> str:
    """The code of coarsened threads, which returns whether they agreed."""
    _start(e)
    body.emit(e)
    e.text.raw("return:", "  ret i1 true", f"{DEAD}:", "  ret i1 true", "disagree:", "  ret i1 false")
    arguments = ", ".join(f"i64 {e.threads.address}" for _ in e.threads.each())
    return _defined(e, f'internal i1 @"{e.function.name}.threads"(i64 %env, {arguments})')


def _lanes(f: Function, unit: Unit, site: str, coroutine: bool, rows: int = 1) -> str:
    """The code that a group of threads runs as lanes of vectors; "" if there is none. A coroutine always runs
    to its end; otherwise it returns whether that paid off."""
    facts, checked = unit.facts.of(f), any(isinstance(i, Instruction) and i.base == "check" for i in f.body)
    found = facts.find_lanes(rows)
    if found is None:
        return ""
    if rows == 1 and not unit.waits.interleaved:
        f, found = _for_lanes(f, found, facts)
    e = Emitter(f, unit, site, coroutine, lanes=found, width=facts.width)
    try:
        if coroutine:
            return _coroutine(
                e, "rows" if rows > 1 else "together", lambda e: lane_body.emit(e, found, checked)
            )
        _start(e)
        lane_body.emit(e, found, checked)
    except Unliftable:
        return ""
    e.text.raw(
        "return:", "  ret i1 true", f"{DEAD}:", "  ret i1 true", f"{lane_body.ALONE}:", "  ret i1 false"
    )
    return _defined(e, f'internal i1 @"{f.name}.lanes"(i64 %env, i64 %thr)')


def _for_lanes(f: Function, found: Lanes, facts: Facts) -> tuple[Function, Lanes]:
    """A function as it is best for lanes, and how it runs as lanes."""
    made = ranges.run(f)
    made = selects.run(made, found.parts) or made
    if made is f or (better := facts.find_lanes(of=made)) is None:
        return f, found
    return made, better


def _phases(f: Function, unit: Unit, site: str) -> str:
    """Single threads that run from barrier to barrier."""
    found, texts, products, facts = unit.facts.of(f).find_phases(), [], packs(f), unit.facts
    wide = facts.masks == "i1"  # vectors of 16 sums
    several = [
        together(found, number, products, f.regs, facts.block) if wide else None
        for number in range(len(found.bodies))
    ]
    fixed = places(f, facts.block)
    factors = [coarsening.factor if coarsening else 1 for coarsening in several]
    for number, items in enumerate(found.bodies):
        e = Emitter(replace(f, body=items), unit, site, coarsening=several[number])
        e.values.packs, e.limits = Packs(e, products), Checks(e, found, True, fixed)
        e.control.frames = frames = phases.Frames(found, f.regs, number, e.values.packs, max(factors))
        e.threads.place(e.text)
        frames.begin(e)
        _start(e, number == 0)
        if number:
            e.line(f"br label %{phases.label(number)}")
            e.text.block("unentered")
        body.emit(e)
        e.text.raw("return:", f"  ret i32 {phases.ENDED}", f"{DEAD}:", f"  ret i32 {phases.ENDED}")
        texts.append(_defined(e, phases.head(f.name, number)))
        multiplies = any(products.get(i) for i in items)
        texts.append(phases.of_all(f.name, frames, facts.block, factors[number], multiplies))
    e.module.declare("rt_fault")
    e.module.declare_intrinsic("i32 @llvm.cttz.i32(i32, i1)")
    sites = [e.sites.of(i) for i in found.waits]
    return "".join([*texts, phases.of_block(f.name, frames, facts.block, sites)])


def _coroutine(e: Emitter, kind: str, emit_body: Callable[[Emitter], None]) -> str:
    """kind: what the function is called, after the kernel's name."""
    e.threads.place(e.text)
    _start(e)
    frame = [
        f"  %id = call token @llvm.coro.id(i32 {abi.CACHE_LINE}, ptr null, ptr null, ptr null)",
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
    for text in _CORO:
        e.module.declare_intrinsic(text)
    e.module.declare("rt_frame")
    e.module.declare("rt_block")
    e.state.store("Thread", "handle", e.emit("ptrtoint ptr %handle to i64"))
    emit_body(e)
    e.text.raw("return:", "  br label %finish", f"{DEAD}:")
    if kind != "start":  # the dead one may not be the first
        e.state.store("Thread", "dead", abi.DEAD_FAULT)
    e.text.raw("  br label %finish", "finish:")
    e.state.store("Thread", "wait", abi.WAIT["exited"])
    e.text.raw(
        "  %last = call i8 @llvm.coro.suspend(token none, i1 true)",
        "  switch i8 %last, label %suspended [ i8 0, label %impossible i8 1, label %suspended ]",
        "impossible:",
        "  unreachable",
        "suspended:",
        "  call void @llvm.coro.end(ptr %handle, i1 false, token none)",
        "  ret void",
    )
    head = f'void @"{e.function.name}.{kind}"(i64 %env, i64 %thr) presplitcoroutine'
    return _defined(e, f"{head} coro_only_destroy_when_complete", frame)


def _defined(e: Emitter, head: str, frame: Sequence[str] = ()) -> str:
    return f"\ndefine {head} {_PROBED} {{\n{e.text.whole(frame)}\n}}\n"


# -- device functions ------------------------------------------------------------------------------


def _device_function(f: Function, unit: Unit) -> str:
    e = Emitter(f, unit, "0" if unit.raw else "%site")
    args, returns = [_formal(e, p) for p in f.params], "void"
    if len(f.returns) > 1:
        raise Unsupported(f"the function {f.name} with several results", unit.name)
    for p in f.returns:
        if p.is_array:
            args.append(f"ptr {memory_name(p.name)}")
        else:
            returns = f"i{8 * p.size}"
            e.variables.room_for(memory_name(p.name), returns, p.size)
        e.variables.place(p.name, memory_name(p.name))
    linkage = "" if unit.raw and f.name.startswith("rt_") else "internal "
    if not unit.raw:
        args = ["i64 %env", "i64 %thr", "i32 %site"] + args
        e.state.begin()
        if unit.waits.interleaved:
            _follow_epoch(e)
        if unit.graph.is_recursive(f.name):
            _guard_recursion(e)
    body.emit(e)
    e.text.raw("return:")
    if not unit.raw:
        _give_back(e)
    if returns == "void":
        e.line("ret void")
    else:
        value = e.emit(f"load {returns}, ptr {memory_name(f.returns[0].name)}")
        e.line(f"ret {returns} {value}")
    e.text.raw(f"{DEAD}:", f"  ret {returns}" + ("" if returns == "void" else " 0"))
    head = f"define {linkage}{returns} {symbol_name(f.name, unit.raw)}({', '.join(args)}) {_PROBED}"
    return f"{head} {{\n{e.text.whole()}\n}}\n"


def _formal(e: Emitter, p: Variable) -> str:
    """A parameter as LLVM declares it."""
    name = memory_name(p.name)
    e.variables.place(p.name, name)
    if p.is_array:
        return f"ptr {name}"
    t = f"i{8 * p.size}"
    e.text.first(f"{name} = alloca {t}", f'store {t} %"{p.name}.in", ptr {name}')
    return f'{t} %"{p.name}.in"'


def _guard_recursion(e: Emitter) -> None:
    ok, good = e.state.call("rt_enter", site=e.sites.inherited), e.fresh_label("entered")
    e.branch(e.op("icmp ne i32", ok, 0), good, DEAD)
    e.label(good)


def _give_back(e: Emitter) -> None:
    """Release the local memory and the call depth of a function that returns."""
    for name, variable in reversed(e.function.variables.items()):
        if variable.space == "local":
            e.variables.free(name)
    if e.module.graph.is_recursive(e.function.name):
        depth = e.state.load("Thread", "depth")
        e.state.store("Thread", "depth", e.op("sub i32", depth, 1))
