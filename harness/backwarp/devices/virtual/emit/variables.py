"""Variables, parameters and functions: their memory, and the addresses of operands."""

from __future__ import annotations

from ....errors import Unsupported
from ..ptx.callgraph import defined
from ..ptx.ir import Address, Function, Immediate, Symbol, Variable
from ..ptx.types import BITS
from .state import State
from .text import Text, memory_name
from .unit import Unit
from .values import Values


class Variables:
    """Of one function. dead: the label of a thread that ends."""

    def __init__(self, function: Function, unit: Unit, text: Text, state: State, values: Values, dead: str):
        self.function, self.unit, self.dead = function, unit, dead
        self.text, self.state, self.values = text, state, values
        self._params: dict[str, tuple[str, int]] = {}  # .param symbol -> (host pointer, offset)
        self._local: dict[str, str] = {}  # .local symbol -> its device address

    def find(self, name: str) -> Variable | None:
        return self.function.variables.get(name) or self.unit.ptx.variables.get(name)

    def is_shared(self, name: str) -> bool:
        variable = self.find(name)
        return variable is not None and variable.space == "shared"

    # -- their memory ----------------------------------------------------------------------------

    def declare(self, name: str, variable: Variable, site: str) -> None:
        if variable.space == "param":
            pointer, align = memory_name(name), max(variable.align, 8)
            self.room_for(pointer, f"[{max(variable.size, 1)} x i8], align {align}", variable.size)
            self.place(name, pointer)
        elif variable.space == "local" and self.unit.raw:
            pointer = memory_name(name)
            self.text.first(f"{pointer} = alloca [{variable.size} x i8], align {variable.align}")
            self._local[name] = self.text.emit(f"ptrtoint ptr {pointer} to i64")
        elif variable.space == "local":
            what = f"i64 %env, i64 %thr, i32 {site}, i64 {variable.size}, i64 {max(variable.align, 16)}, i64 {self.unit.padding(variable)}"
            address = self.text.emit(f"call i64 @rt_local({what})")
            good = self.text.fresh_label("local")
            self.text.branch(self.text.op("icmp ne i64", address, 0), good, self.dead)
            self.text.label(good)
            self._local[name] = address

    def seems_at(self, name: str, address: int) -> None:
        """A local variable whose address nothing but its accesses sees."""
        self._local[name] = str(address)

    def free(self, name: str) -> None:
        """Give back the memory of a local variable."""
        self.state.call("rt_local_free", self._local[name], str(self.function.variables[name].size), site=0)

    def room_for(self, pointer: str, what: str, size: int) -> None:
        """Memory for a parameter or a result. To LLVM, using memory that was never written is undefined
        behaviour."""
        self.text.first(f"{pointer} = alloca {what}")
        if not self.unit.raw:
            self.unit.declare("llvm.memset.p0.i64", "void", "ptr to, i8 value, i64 bytes, i1 volatile")
            self.text.first(f"call void @llvm.memset.p0.i64(ptr {pointer}, i8 127, i64 {size}, i1 false)")

    # -- parameters ------------------------------------------------------------------------------

    def place(self, name: str, pointer: str, offset: int = 0) -> None:
        """Set the location of a parameter in host memory."""
        self._params[name] = pointer, offset

    def parameter(self, name: str) -> str:
        """The host pointer of a parameter of this function, or of one that it passes; "" of anything else."""
        return self._params.get(name, ("", 0))[0]

    def parameter_pointer(self, operand: Address) -> str:
        """Host pointer of `[param+offset]`; "" where the address is in a register."""
        pointer, start = self._params.get(operand.base, ("", 0))
        return pointer and self.text.emit(f"getelementptr i8, ptr {pointer}, i64 {start + operand.offset}")

    # -- addresses -------------------------------------------------------------------------------

    def address(self, operand: Address, space: str) -> str:
        """The i64 address in `space` (an offset in the shared window, else a device address).

        A 32-bit one wraps around: NVRTC generates `[%r1+2048]` with a %r1 before the start of the window. No
        window is as large as 2 GB, so sign-extending the base has the same effect.
        """
        base, offset, value = operand.base, operand.offset, self.values.value
        if isinstance(base, Immediate):
            address = base
        elif isinstance(base, Symbol):
            address = self.symbol(base, space == "shared")
        elif BITS[self.values.types[base]] == 32:
            address = self.text.once(f"sext i32 {value(base, 'u32')} to i64")
        else:
            address = value(base, "u64")
        return self.text.once(f"add i64 {address}, {offset}") if offset else address

    def symbol(self, name: str, window: bool, extra: int = 0) -> str:
        """The i64 address of a variable, plus `extra`. window: shared ones as offsets in the shared window."""
        variable, once = self.find(name), self.text.once
        if name in self._local:
            return once(f"add i64 {self._local[name]}, {extra}")
        if variable is not None and variable.space == "shared":
            offset = self.shared_offset(variable) + extra
            return str(offset) if window else once(f"add i64 %sharedbase, {offset}")
        if name in self.unit.variables:
            return once(f"add i64 %globals, {self.unit.variables[name][0] + extra}")
        pointer, offset = self._params.get(name, ("", 0))
        if pointer == "%params":
            return once(f"add i64 %paramaddress, {offset + extra}")
        function = self.unit.ptx.functions.get(name)
        if function and function.body is not None and not function.entry:
            return str(self.unit.function_address(name))
        raise Unsupported(f"the address of {name}", self.unit.name)

    def shared_offset(self, variable: Variable) -> int:
        """Where it is in the shared window: the same in all kernels that come here."""
        kernels = [f for f in defined(self.unit.ptx) if f.entry]
        if self.function.entry:
            kernels = [self.function]
        offsets = set()
        for kernel in kernels:
            if self.function.name in self.unit.graph.closure(kernel.name):
                arrays, _, dynamic = self.unit.shared_layout(kernel)
                offsets.add(dynamic if variable.extern else dict((n, o) for n, o, _ in arrays)[variable.name])
        if len(offsets) != 1:
            raise Unsupported(f"shared memory of {variable.name} used from several kernels", self.unit.name)
        return offsets.pop()
