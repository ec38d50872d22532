"""Addresses: of operands, variables, parameters and functions."""

from __future__ import annotations

from ....errors import Unsupported
from ..ptx.callgraph import defined
from ..ptx.ir import Address, Immediate, Symbol, Variable
from ..ptx.types import BITS


class Symbols:
    """Mixin of `function.Lowering`."""

    def _is_shared(self, name: str) -> bool:
        variable = self.variable(name)
        return variable is not None and variable.space == "shared"

    def variable(self, name: str) -> Variable | None:
        return self.function.variables.get(name) or self.module.ptx.variables.get(name)

    def symbol(self, name: str, window: bool, extra: int = 0) -> str:
        """The i64 address of a variable, plus `extra`. window: shared ones as offsets in the shared window."""
        variable = self.variable(name)
        if name in self.depots:
            return self.once(f"add i64 {self.depots[name]}, {extra}")
        if variable is not None and variable.space == "shared":
            offset = self.shared_offset(variable) + extra
            return str(offset) if window else self.once(f"add i64 {self.shared_base}, {offset}")
        if name in self.module.variables:
            return self.once(f"add i64 %globals, {self.module.variables[name][0] + extra}")
        pointer, offset = self.params.get(name, ("", 0))
        if pointer == "%params":
            return self.once(f"add i64 %paramaddress, {offset + extra}")
        if (
            (function := self.module.ptx.functions.get(name))
            and function.body is not None
            and not function.entry
        ):
            return str(self.module.function_address(name))
        raise Unsupported(f"the address of {name}", self.module.name)

    def address(self, operand: Address, space: str) -> str:
        """The i64 address in `space` (an offset in the shared window, else a device address).

        A 32-bit one wraps around: NVRTC generates `[%r1+2048]` with a %r1 before the start of the window. No
        window is as large as 2 GB, so sign-extending the base has the same effect.
        """
        base, offset = operand.base, operand.offset
        if isinstance(base, Immediate):
            address = base
        elif isinstance(base, Symbol):
            address = self.symbol(base, space == "shared")
        elif BITS[self.regs[base]] == 32:
            address = self.once(f"sext i32 {self.value(base, 'u32')} to i64")
        else:
            address = self.value(base, "u64")
        return self.once(f"add i64 {address}, {offset}") if offset else address

    def shared_offset(self, variable: Variable) -> int:
        if self.function.entry:
            return self.dynamic_offset if variable.extern else self.shared_symbols[variable.name]
        offsets = set()
        for kernel in (f for f in defined(self.module.ptx) if f.entry):
            if self.function.name in self.module.graph.closure(kernel.name):
                arrays, _, dynamic = self.module.shared_layout(kernel)
                offsets.add(dynamic if variable.extern else dict((n, o) for n, o, _ in arrays)[variable.name])
        if len(offsets) != 1:
            raise Unsupported(f"shared memory of {variable.name} used from several kernels", self.module.name)
        return offsets.pop()

    def _createpolicy(self, ins) -> None:
        """How long caches keep data changes no result: every policy is 0, and no access asks which it is given."""
        self.set(ins.operands[0], "0", "b64")

    def parameter_pointer(self, operand: Address) -> str | None:
        """Host pointer of `[param+offset]`, or None when the address is in a register."""
        pointer, start = self.params.get(operand.base, (None, 0))
        if pointer is None:
            return None
        start += operand.offset
        return self.emit(f"getelementptr i8, ptr {pointer}, i64 {start}")
