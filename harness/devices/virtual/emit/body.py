"""Bodies of functions: blocks, branches, steps of the watchdog, `mov`.

Source: PTX ISA, section 9.7.12 (control flow).
"""

from __future__ import annotations

from ....errors import Unsupported
from ..compile.modules import KernelInfo
from ..compile.recipes import Check
from ..ptx.ir import Function, Instruction, Label, Location, Symbol, Variable, Vector
from ..ptx.types import BITS, llvm_type
from ..runtime import abi
from . import opcodes
from .values import memory_name


class Body:
    """Mixin of `function.Lowering`."""

    def _body(self, function: Function) -> None:
        """Lower the body of the function; ends in a branch to `self.return_label`."""
        self.declare_registers(function)
        if any(isinstance(i, Instruction) and (i.op.takes_carry or i.op.leaves_carry) for i in function.body):
            self.slots["%carry"] = "%carry"
            self.entry += ["  %carry = alloca i1", "  store i1 false, ptr %carry"]
        self.places = {item: i for i, item in enumerate(function.body)}
        self.look_at_arrays()
        self.expanded_variables = {
            name
            for i in function.body
            if isinstance(i, Instruction) and i.base == "enter"
            for name in i.expansion.variables
        }
        for name, variable in function.variables.items():
            if name not in self.expanded_variables:
                self.declare_variable(name, variable, self.inherited_site)
        self.known = {}
        self.start_scopes()
        if not self._items(function.body, 0, len(function.body), False):
            self.line(f"br label %{self.return_label}")

    def _items(self, body, start: int, end: int, ended: bool) -> bool:
        """Lower the positions [start, end). ended: the block before has ended. Returns whether the last one has."""
        i = start
        while i < end:
            item = body[i]
            if region := self.region_at(i):
                ended, i = self.each_in_turn(body, region, ended), region.end
                continue
            if isinstance(item, Label):
                if ended:
                    self.lines.append(f"{self._label(item.name)}:")
                    self.known.clear()
                else:
                    self.join(self._label(item.name))
                ended = False
            else:
                if ended:  # unreachable code after a branch
                    self.lines.append(f"{self.fresh_label('unreachable')}:")
                    self.known.clear()
                ended = self.coarsened(i, item) if self.coarsening else self._lower(i, item)
            i += 1
        return ended

    def _count_steps(self) -> None:
        """At the entry of a function that loops: its back edges are taken from the slice of the worker's block."""
        self.entry.append("  %steps = alloca i32")
        self.slots["%steps"] = "%steps"
        if self.module.counting:
            self.entry.append(f"  store i32 {abi.COUNT_SLICE}, ptr %steps")
        self._take_steps()

    def _take_steps(self) -> None:
        """Other functions, or other threads, have taken from the slice."""
        if "%steps" in self.slots and not self.module.counting:
            self.line(f"store i32 {self.load_field('Env', 'slice', volatile=True)}, ptr %steps")

    def _give_steps(self) -> None:
        """Other threads are about to run."""
        if "%steps" in self.slots and not self.module.counting:
            self.store_field("Env", "slice", self.emit("load i32, ptr %steps"))

    def _label(self, name: str) -> str:
        return self.own_label(name) or f'"${name}"'

    def declare_variable(self, name: str, variable: Variable, site: str) -> None:
        if variable.space == "param":
            pointer = memory_name(name)
            self.room_for(
                pointer, f"[{max(variable.size, 1)} x i8], align {max(variable.align, 8)}", variable.size
            )
            self.params[name] = (pointer, 0)
        elif variable.space == "local":
            if self.module.raw:
                pointer = memory_name(name)
                self.entry.append(f"  {pointer} = alloca [{variable.size} x i8], align {variable.align}")
                self.depots[name] = self.emit(f"ptrtoint ptr {pointer} to i64")
                return
            address = self.emit(f"call i64 @rt_local(i64 %env, i64 %thr, i32 {site}, i64 {variable.size})")
            good = self.fresh_label("local")
            self.branch(self.op("icmp ne i64", address, 0), good, self.dead_label)
            self.label(good)
            self.depots[name] = address
            if name in self.private:
                self.hold_privately(name, variable)

    def room_for(self, pointer: str, what: str, size: int) -> None:
        """Memory for a parameter or a result. LLVM may do anything with a program that uses what was never written."""
        self.entry.append(f"  {pointer} = alloca {what}")
        if not self.module.raw:
            self.module.declare("llvm.memset.p0.i64", "void", "ptr to, i8 value, i64 bytes, i1 volatile")
            self.entry.append(f"  call void @llvm.memset.p0.i64(ptr {pointer}, i8 127, i64 {size}, i1 false)")

    def _give_back(self, function: Function) -> None:
        """Give back the local memory and the depth of a device function that returns."""
        if self.module.raw:
            return
        for name, variable in reversed(function.variables.items()):
            if variable.space == "local":
                self.free(name)
        if self.module.graph.is_recursive(function.name):
            depth = self.load_field("Thread", "depth")
            self.store_field("Thread", "depth", self.op("sub i32", depth, 1))

    def free(self, name: str) -> None:
        self.runtime_call("rt_local_free", self.depots[name], str(self.function.variables[name].size), site=0)

    # -- instructions -----------------------------------------------------------------------------

    def site(self, ins: Instruction) -> str:
        """The site number of an instruction: its own line, or the call that led here from the student's code."""
        if self.module.raw:
            return self.inherited_site
        if ins.at.line:
            return str(self.module.new_site(ins.at, str(ins.original or ins)))
        if ins.expansion is None:
            return self.inherited_site
        if ins.expansion not in self.call_sites:
            self.call_sites[ins.expansion] = self.site(ins.expansion.call)
        return self.call_sites[ins.expansion]

    def _lower(self, index: int, ins: Instruction) -> bool:
        """Like `_instruction`; anything that cannot be lowered is Unsupported, with the line that leads
        here."""
        try:
            return self._instruction(index, ins)
        except Unsupported as error:
            if error.line:
                raise
            at = self.location(ins)
            raise Unsupported(error.what, at.file or self.module.name, at.line) from error

    def location(self, ins: Instruction) -> Location:
        return self.module.graph.location(ins, self.function.name)

    def _instruction(self, index: int, ins: Instruction) -> bool:
        """Lower one instruction; True when it ends the block."""
        self.position = index
        if ins.op.flow == "branch":
            return self._branch(ins)
        if ins.op.mark:
            opcodes.emit(self, ins)
            return False
        return self._plainly(ins)

    def _plainly(self, ins: Instruction) -> bool:
        op = ins.op
        if ins.opcode == "ld.acquire.cta.u32" and self.coroutine and self._info.reserved:
            # cooperative groups of several warps assume that the lanes which skip an `if` wait for those in
            # it
            self.store_field("Thread", "wait", abi.WAIT["ready"])
            self.suspend()
        if op.flow:
            return getattr(self, f"_{op.flow}")(ins)
        if op.nothing or opcodes.emit(self, ins):
            return False
        if op.asynchronous:
            self.asynchronous(ins)
        elif op.memory:
            self.memory(ins)
        elif op.collective:
            (self.matrix if op.collective == "matrix" else self.collective)(ins)
        elif op.is_fence:
            self.line("fence seq_cst")
        else:
            getattr(self, f"_{ins.base}")(ins)  # mov, cvta, isspacep, activemask
        return False

    def _leads_back(self, target: str) -> bool:
        """Whether a branch from here to a label begins another iteration, which takes a step."""
        return self.places[Label(target)] <= self.position and not self.module.raw

    def _branch(self, ins: Instruction) -> bool:
        target = ins.operands[0]
        back = self._leads_back(target)
        goal = self.fresh_label("back") if back else self._label(target)
        if ins.pred:
            next_ = self.fresh_label("next")
            condition = self.value(("!" if ins.negated else "") + ins.pred, "pred")
            self.branch(condition, goal, next_)
        else:
            self.line(f"br label %{goal}")
        if back:
            self._back_edge(goal, target, ins)
        if ins.pred:
            self.label(next_)
        return not ins.pred

    def _back_edge(self, label: str, target: str, ins: Instruction) -> None:
        """Count a step; from time to time ask the watchdog, and let others run that this loop may be waiting
        for, or that count together with this thread.
        """
        known = dict(self.known)
        self.label(label)
        if ins in self.unrolled:
            self.line(f"br label %{self._label(target)}, !llvm.loop !{self._loop(self._label(target))}")
            return
        spin = self.coroutine and ins in self.facts.spins
        left = self.op("sub i32", self.emit("load i32, ptr %steps"), 1)
        self.line(f"store i32 {left}, ptr %steps")
        slice_ = self.fresh_label("slice")
        ends = self.op("icmp eq i32", left, 0)
        if spin and Check.RACES in self.module.recipe:  # of a wait, every turn is one too many
            ends = self.op(
                "or i1", ends, self.op("icmp ne i32", self.load_field("Extra", "in_vain", volatile=True), 0)
            )
        self.branch(ends, slice_, self._label(target), unlikely=True)
        self.label(slice_)
        counting = self.module.counting and self.coroutine
        size = abi.SPIN_SLICE if spin else abi.COUNT_SLICE if counting else abi.SLICE
        if spin and self._looks(target, ins):
            size = abi.TURN_SLICE
        if self.watches_grid and ins in self.facts.grid_waits:
            self.store_field("Extra", "polls", self.site(ins))
        granted = self.runtime_call("rt_slice", str(size), "0", site=self.site(ins))
        go_on = self.fresh_label("alive")
        self.branch(self.op("icmp ne i32", granted, 0), go_on, self.dead_label)
        self.label(go_on)
        self.line(f"store i32 {granted}, ptr %steps")
        if spin or counting:
            self.suspend()
        self.line(f"br label %{self._label(target)}")
        self.known = known

    @property
    def watches_grid(self) -> bool:
        """Whether threads say that they wait at the barrier of their grid."""
        return self.coroutine and Check.BARRIERS in self.module.recipe and self._info.grid_sync

    @property
    def _info(self) -> KernelInfo:
        """For the kernel being lowered."""
        return self.module.kernels[self.function.name]

    def _looks(self, target: str, back: Instruction) -> bool:
        """Whether a loop, in a kernel whose threads take turns, reads what others change; loops of CUDA's
        headers do."""
        if not self.module.waits.takes_turns(self.function.name):
            return False
        loop = self.function.body[self.places[Label(target)] : self.position]
        return back.at.trusted or any(isinstance(i, Instruction) and i.base == "turn" for i in loop)

    def _loop(self, header: str) -> int:
        """LLVM metadata for a loop: unroll it, if possible."""
        if header not in self.loops:
            how = self.module.metadata('!{{!"llvm.loop.unroll.full"}}')
            self.loops[header] = self.module.metadata(f"distinct !{{{{!{{n}}, !{how}}}}}")
        return self.loops[header]

    def suspend(self) -> None:
        if not self.coroutine:
            raise Unsupported("a barrier in a function that is called recursively or through a pointer",
                              self.module.name)  # fmt: skip
        resumed = self.fresh_label("resumed")
        state_ = self.fresh("suspend")
        self.line(f"{state_} = call i8 @llvm.coro.suspend(token none, i1 false)")
        self.line(f"switch i8 {state_}, label %suspended [ i8 0, label %{resumed} i8 1, label %suspended ]")
        self.label(resumed)

    def _switch(self, ins: Instruction) -> bool:
        targets = self.function.tables.get(ins.operands[1], ())
        index = self.value(ins.operands[0], "u32")
        cases, edges = [], []
        for i, target in enumerate(targets):
            label = self._label(target)
            if self._leads_back(target):
                label = self.fresh_label("back")
                edges.append((label, target))
            cases.append(f"i32 {i}, label %{label}")
        trap = self.fresh_label("notarget")
        self.line(f"switch i32 {index}, label %{trap} [ {' '.join(cases)} ]")
        for label, target in edges:
            self._back_edge(label, target, ins)
        self.label(trap)
        if self.module.raw:
            self.line("unreachable")
        else:
            self._fault_here(ins)
        return True

    def _return(self, ins: Instruction) -> bool:
        self.line(f"br label %{self.return_label}")
        return True

    def _exit(self, ins: Instruction) -> bool:
        """The thread ends, at any call depth."""
        self._give_steps()
        self.store_field("Thread", "dead", abi.DEAD_EXIT)
        self.line(f"br label %{self.dead_label}")
        return True

    def _trap(self, ins: Instruction) -> bool:
        if self.module.raw:
            self.line("unreachable")
        else:
            self._fault_here(ins)
        return True

    def _fault_here(self, ins: Instruction) -> None:
        """The thread ends; which instruction did it tells why."""
        self.runtime_call("rt_fault", str(abi.FAULT["trap"]), "0", "0", site=self.site(ins))
        self.line(f"br label %{self.dead_label}")

    def _mov(self, ins: Instruction) -> None:
        """Registers, constants, special registers, addresses of symbols, and packing of vectors."""
        type_ = ins.op.type
        target, source = ins.operands
        if isinstance(target, Vector):
            self._unpack(target, self.value(source, type_), type_)
        elif isinstance(source, Vector):
            self.set(target, self._pack(source, type_), type_)
        elif isinstance(source, Symbol):
            value = self.symbol(source.name, self._is_shared(source.name), source.offset)
            self.set(target, self.resize(value, "i64", llvm_type(type_)), type_)
        else:
            self.set(target, self.value(source, type_), type_)

    def _unpack(self, targets: Vector, value: str, type_: str) -> None:
        t, width = llvm_type(type_), BITS[type_] // len(targets.parts)
        for i, target in enumerate(targets.parts):
            part = self.op(f"lshr {t}", value, i * width) if i else value
            self.set(target, self.cast("trunc", t, part, f"i{width}"), f"b{width}")

    def _pack(self, sources: Vector, type_: str) -> str:
        t, width, value = llvm_type(type_), BITS[type_] // len(sources.parts), "0"
        for i, source in enumerate(sources.parts):
            part = self.cast("zext", f"i{width}", self.value(source, f"b{width}"), t)
            value = self.op(f"or {t}", value, self.op(f"shl {t}", part, i * width))
        return value
