"""Calls: of device functions (expanded in place if they may wait), through pointers, and of system functions.

Source: PTX ISA, section 7 (abstracting the ABI) and 9.7.12.5 (call).
"""

from __future__ import annotations

from ....errors import CompileError, Diagnostic, Unsupported
from ...nvrtc.compiler import demangle
from ..ptx.callgraph import symbol_name
from ..ptx.ir import Function, Instruction, Variable


class Calls:
    """Mixin of `function.Lowering`."""

    def _call(self, ins: Instruction) -> bool:
        returns, name, arguments = ins.called
        function = self.module.ptx.functions.get(name)
        if function is None:
            self._call_pointer(ins, name, returns, arguments)
            return False
        if function.body is None:
            return self._external(ins, name, returns, arguments)
        self._call_function(ins, function, returns, arguments)
        return False

    def _call_function(self, ins: Instruction, function: Function, returns, arguments) -> None:
        args = [] if self.module.raw else ["i64 %env", "i64 %thr", f"i32 {self.site(ins)}"]
        for formal, actual in zip(function.params, arguments, strict=True):
            if formal.is_array:
                args.append(f"ptr {self.params[actual][0]}")
            else:
                t = f"i{8 * formal.size}"
                args.append(f"{t} {self._argument(actual, formal)}")
        returned = "void"
        for formal, actual in zip(function.returns, returns, strict=False):
            if formal.is_array:
                args.append(f"ptr {self.params[actual][0]}")
            else:
                returned = f"i{8 * formal.size}"
        text = f"call {returned} {symbol_name(function.name, self.module.raw)}({', '.join(args)})"
        if returned == "void":
            self.line(text)
        else:
            result = self.fresh("result")
            self.line(f"{result} = {text}")
            if returns:
                self.line(f"store {returned} {result}, ptr {self.params[returns[0]][0]}")
        if not self.module.raw:
            alive = self.fresh_label("returned")
            dead = self.op("icmp ne i32", self.load_field("Thread", "dead", volatile=True), 0)
            self.branch(dead, self.dead_label, alive, unlikely=True)
            self.label(alive)

    def _call_pointer(self, ins: Instruction, register: str, returns, arguments) -> None:
        """A call through a pointer: a switch over the functions whose address is taken and whose signature
        fits."""
        if self.register_type(register) is None:
            raise Unsupported(f"the function {register}")
        pointer, after = self.value(register, "u64"), self.fresh_label("after")
        candidates = [f for f in self.module.graph.pointed if self._fits(f, returns, arguments)]
        if any(self.module.waits.must_wait(f.name) for f in candidates):
            raise Unsupported("a barrier or warp collective in a function that is called through a pointer")
        labels = [self.fresh_label("target") for _ in candidates]
        cases = " ".join(f"i64 {self.module.function_address(f.name)}, label %{label}"
                         for f, label in zip(candidates, labels, strict=True))  # fmt: skip
        nowhere = self.fresh_label("nowhere")
        self.line(f"switch i64 {pointer}, label %{nowhere} [ {cases} ]")
        self.label(nowhere)
        self.fault_here(ins)
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
        given, wanted = (*arguments, *returns), (*function.params, *function.returns[: len(returns)])
        return all(self._variable(a).size == v.size for a, v in zip(given, wanted, strict=True))

    def _argument(self, actual: str, formal: Variable) -> str:
        key = actual
        if key in self.params:
            return self.emit(f"load i{8 * formal.size}, ptr {self.params[key][0]}, align 1")
        return self.value(actual, f"b{8 * formal.size}")

    def _external(self, ins: Instruction, name: str, returns, arguments) -> bool:
        """Functions that CUDA's device library leaves to the system."""
        if self.module.raw:
            self._external_raw(name, returns, arguments)
            return False
        if name == "vprintf":
            values = [self._argument(a, Variable("param", "b64", "", 8, 8)) for a in arguments]
            result = self.runtime_call("rt_printf", *values, site=self.site(ins))
            if returns:
                self.line(f"store i32 {result}, ptr {self.params[returns[0]][0]}")
            return False
        if name == "__assertfail":
            values = []
            for argument, size in ((arguments[0], 8), (arguments[2], 4)):
                value = self._argument(argument, Variable("param", f"b{8 * size}", "", size, size))
                values.append(self.resize(value, f"i{8 * size}", "i64"))
            self.runtime_call("rt_assert", *values, site=self.site(ins))
            self.line(f"br label %{self.dead_label}")
            return True
        if name.startswith("_Z"):
            at = self.location(ins)
            message = f"{demangle(name, qualified=True)}() is called here, but nothing in this file says what it does"
            place = at.file or self.module.name, at.line
            raise CompileError(message, (Diagnostic("error", message, *place),))
        what = {"malloc": "malloc() on the device", "free": "free() on the device"}.get(
            name, f"the function {name}()"
        )
        raise Unsupported(what)

    def _external_raw(self, name: str, returns, arguments) -> None:
        """The runtime calls host functions by name."""
        function = self.module.ptx.functions[name]
        args = [
            f"i{8 * f.size} {self._argument(a, f)}" for f, a in zip(function.params, arguments, strict=True)
        ]
        returned = f"i{8 * function.returns[0].size}" if function.returns else "void"
        self.module.declare(name, returned, ", ".join(args))
        text = f"call {returned} @{name}({', '.join(args)})"
        if returned == "void":
            self.line(text)
        else:
            result = self.emit(text)
            if returns:
                self.line(f"store {returned} {result}, ptr {self.params[returns[0]][0]}")
