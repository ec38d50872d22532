"""Bodies of functions: blocks, branches, `mov`.

Source: PTX ISA, section 9.7.12 (control flow).
"""

from __future__ import annotations

from ....errors import Unsupported
from ..ptx.ir import Function, Instruction, Label, Location, Symbol, Variable, Vector
from ..ptx.types import BITS, llvm_type
from ..runtime import abi
from . import async_copies, calls, collectives, matrices, memory, opcodes
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
        expanded = {
            name
            for i in function.body
            if isinstance(i, Instruction) and i.base == "enter"
            for name in i.expansion.variables
        }
        for name, variable in function.variables.items():
            if name not in expanded:
                self.declare_variable(name, variable, self.inherited_site)
        self.known = {}
        if not self._items(function.body, 0, len(function.body), False):
            self.line(f"br label %{self.return_label}")

    def _items(self, body, start: int, end: int, ended: bool) -> bool:
        """Lower the positions [start, end). ended: the block before has ended. Returns whether the last one has."""
        i = start
        while i < end:
            item = body[i]
            if region := self.region_at(i):
                ended, i = self.each_in_turn(region, ended), region.end
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
                ended = self.coarsened(item) if self.coarsening else self._lower(item)
            i += 1
        return ended

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

    def _lower(self, ins: Instruction) -> bool:
        """Like `_instruction`; anything that cannot be lowered is Unsupported, with the line that leads
        here."""
        try:
            return self._instruction(ins)
        except Unsupported as error:
            if error.line:
                raise
            at = self.location(ins)
            raise Unsupported(error.what, at.file or self.module.name, at.line) from error

    def location(self, ins: Instruction) -> Location:
        return self.module.graph.location(ins, self.function.name)

    def _instruction(self, ins: Instruction) -> bool:
        """Lower one instruction; True when it ends the block."""
        op = ins.op
        if op.flow == "call":
            return calls.emit(self, ins)
        if op.flow:
            return getattr(self, f"_{op.flow}")(ins)
        if op.nothing or opcodes.emit(self, ins):
            return False
        if op.asynchronous:
            async_copies.emit(self, ins)
        elif op.memory or ins.base in ("cvta", "isspacep"):
            memory.emit(self, ins)
        elif op.collective:
            (matrices if op.collective == "matrix" else collectives).emit(self, ins)
        elif op.is_fence:
            self.line("fence seq_cst")
        else:
            getattr(self, f"_{ins.base}")(ins)  # mov, createpolicy
        return False

    def _branch(self, ins: Instruction) -> bool:
        goal = target = self._label(ins.operands[0])
        if ins in self.facts.unrolled:
            goal = self.fresh_label("back")
        if ins.pred:
            next_ = self.fresh_label("next")
            condition = self.value(("!" if ins.negated else "") + ins.pred, "pred")
            self.branch(condition, goal, next_, likely="likely" in ins.op.mods)
        else:
            self.line(f"br label %{goal}")
        if ins in self.facts.unrolled:
            self.label(goal)
            self.line(f"br label %{target}, !llvm.loop !{self._loop(target)}")
        if ins.pred:
            self.label(next_)
        return not ins.pred

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
        cases = (f"i32 {i}, label %{self._label(target)}" for i, target in enumerate(targets))
        trap = self.fresh_label("notarget")
        self.line(f"switch i32 {index}, label %{trap} [ {' '.join(cases)} ]")
        self.label(trap)
        if self.module.raw:
            self.line("unreachable")
        else:
            self.fault_here(ins)
        return True

    def _return(self, ins: Instruction) -> bool:
        self.line(f"br label %{self.return_label}")
        return True

    def _exit(self, ins: Instruction) -> bool:
        """The thread ends, at any call depth."""
        self.store_field("Thread", "dead", abi.DEAD_EXIT)
        self.line(f"br label %{self.dead_label}")
        return True

    def _trap(self, ins: Instruction) -> bool:
        if self.module.raw:
            self.line("unreachable")
        else:
            self.fault_here(ins)
        return True

    def fault_here(self, ins: Instruction) -> None:
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
