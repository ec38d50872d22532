"""Which array an address was computed from: follows the data flow of one PTX operand back to its origin.

A stray index may land anywhere, so the address alone does not tell which array was meant. The registers do:
`[%rd4]` is `%rd1 + %rd3`, and `%rd1` came from the parameter `k_param_0`. Only followed after a fault.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..ptx.ir import Function, Instruction, Location, Module

_ADDRESS = re.compile(r"\[\s*([%\w$.]+)\s*(?:\+\s*(-?\w+))?\s*\]")
_OFFSET = re.compile(r"([%\w$.]+)\s*\+\s*(\d+)")
_MEMORY = {"ld": 1, "ldu": 1, "st": 0, "atom": 1, "red": 0}  # the place of the address among the operands
_COPIES = {"mov", "cvta", "cvt", "and", "sub"}  # in these, the first operand is the pointer
_LIMIT = 2000  # registers examined at most
WHOLE = -1


@dataclass(frozen=True)
class Origin:
    """The origin of a pointer.

    kind "param": bytes [offset, offset + 8) of the kernel's parameter `name`. "symbol": a variable.
    "local": byte `offset` of the depot `name`, WHOLE where only the depot is known. "unknown": read from
    memory.
    function: whose parameter or depot it is.
    """

    kind: str
    name: str = ""
    offset: int = 0
    function: str = ""


class Provenance:
    """The pointers of one kernel and the functions it calls."""

    def __init__(self, module: Module, kernel: str):
        self.module = module
        self.functions = [module.functions[name] for name in _closure(module, kernel)]
        self._definitions: dict[str, dict[str, list[Instruction]]] = {}
        self._stores: dict[str, dict[str, list[Instruction]]] = {}  # st.param, by symbol

    def origins(self, at: Location, text: str) -> set[Origin]:
        """The origins of the address in the instruction `text` at `at`; empty if unknown.

        A call stands for an access within the function it calls: its pointers are examined.
        """
        found: set[Origin] = set()
        for function in self.functions:
            for ins in function.body or ():
                if (
                    isinstance(ins, Instruction)
                    and ins.at.line == at.line
                    and ins.at == at
                    and str(ins) == text
                ):
                    if ins.base == "call":
                        found |= self._arguments(function, ins)
                    elif (place := _MEMORY.get(ins.base)) is not None:
                        found |= self._trace(function, _address(ins.operands[place]), set())
        return found

    # -- one value ----------------------------------------------------------------------------

    def _trace(self, function: Function, operand: str, seen: set) -> set[Origin]:
        if (function.name, operand) in seen or len(seen) > _LIMIT:
            return set()
        seen.add((function.name, operand))
        match = _OFFSET.fullmatch(operand)
        name, offset = (match[1], int(match[2])) if match else (operand, 0)
        variable = function.variables.get(name) or self.module.variables.get(name)
        if variable is not None and variable.space != "param":
            if variable.space == "local":
                return {Origin("local", name, offset or WHOLE, function.name)}
            return {Origin("symbol", name)}
        found: set[Origin] = set()
        for ins in self._defined(function).get(name, ()):
            found |= self._source(function, ins, seen)
        return found

    def _source(self, function: Function, ins: Instruction, seen: set) -> set[Origin]:
        """The origin of the pointer that `ins` computes."""
        if ins.base == "ld" and ins.opcode.endswith("64"):
            if ".param" in ins.opcode:
                return self._parameter(function, ins.operands[1], seen)
            return self._loaded(function, ins.operands[1], seen)
        if ins.base in _COPIES and len(ins.operands) > 1:
            return self._trace(function, ins.operands[1], seen)
        if ins.base == "mad":
            return self._trace(function, ins.operands[3], seen)
        if ins.base == "add":
            return self._sum(function, ins.operands[1], ins.operands[2], seen)
        if ins.base in ("selp", "min", "max"):
            return self._trace(function, ins.operands[1], seen) | self._trace(function, ins.operands[2], seen)
        return set()

    def _sum(self, function: Function, a: str, b: str, seen: set) -> set[Origin]:
        """A pointer and an index, in either order. A constant leads from a depot to an array in it."""
        left, right = self._trace(function, a, seen), self._trace(function, b, seen)
        if b.lstrip("-").isdigit():
            return {_moved(o, int(b)) for o in left}
        unknown = Origin("unknown")
        if left - {unknown} and right == {unknown}:  # an index read from memory
            return left
        if right - {unknown} and left == {unknown}:
            return right
        return left | right

    def _loaded(self, function: Function, operand: str, seen: set) -> set[Origin]:
        """A pointer kept in local memory: whatever the function stores in that place."""
        place = self._local_place(function, operand)
        found: set[Origin] = set()
        for ins in function.body or () if place else ():
            if (
                isinstance(ins, Instruction)
                and ins.base == "st"
                and self._local_place(function, ins.operands[0]) == place
            ):
                found |= self._trace(function, ins.operands[1], seen)
        return found or {Origin("unknown")}

    def _local_place(self, function: Function, operand: str) -> tuple[str, int] | None:
        """(depot, offset) of `[%SP+8]`, or of `[%rd1+4]` where %rd1 is the depot plus a constant."""
        match = _ADDRESS.fullmatch(operand.strip())
        if not match:
            return None
        name, offset = match[1], int(match[2] or "0", 0)
        for _ in range(8):
            variable = function.variables.get(name)
            if variable is not None:
                return (name, offset) if variable.space == "local" else None
            definitions = self._defined(function).get(name, ())
            if len(definitions) != 1:
                return None
            ins = definitions[0]
            if ins.base == "add" and ins.operands[2].isdigit():
                offset += int(ins.operands[2])
            elif ins.base not in ("mov", "cvta"):
                return None
            name = ins.operands[1]
        return None

    def _parameter(self, function: Function, operand: str, seen: set) -> set[Origin]:
        name, offset = operand.base, operand.offset
        if function.entry:
            return {Origin("param", name, offset, function.name)}
        position = next((i for i, p in enumerate(function.params) if p.name == name), None)
        found: set[Origin] = set()
        if position is None:  # the result of a call
            for ins in calls(function):
                returns, callee, _ = ins.called
                target = self.module.functions.get(callee)
                if name in returns and target and target.returns:
                    found |= self._stored(target, target.returns[returns.index(name)].name, offset, seen)
            return found
        for caller in self.functions:
            for ins in calls(caller):
                _, callee, arguments = ins.called
                if callee == function.name and position < len(arguments):
                    found |= self._stored(caller, arguments[position], offset, seen)
        return found

    def _stored(self, function: Function, symbol: str, offset: int, seen: set) -> set[Origin]:
        """What `st.param [symbol+offset]` stores."""
        found: set[Origin] = set()
        for ins in self._param_stores(function).get(symbol, ()):
            if ins.operands[0].offset == offset and not ins.operands[1].startswith("{"):
                found |= self._trace(function, ins.operands[1], seen)
        return found

    def _arguments(self, function: Function, ins: Instruction) -> set[Origin]:
        _, _, arguments = ins.called
        found: set[Origin] = set()
        for argument in arguments:
            found |= self._stored(function, argument, 0, set())
        return found

    # -- indexes of a function ------------------------------------------------------------------

    def _defined(self, function: Function) -> dict[str, list[Instruction]]:
        if function.name not in self._definitions:
            table = self._definitions.setdefault(function.name, {})
            for ins in function.body or ():
                if isinstance(ins, Instruction):
                    for name in ins.writes:
                        table.setdefault(name, []).append(ins)
        return self._definitions[function.name]

    def _param_stores(self, function: Function) -> dict[str, list[Instruction]]:
        if function.name not in self._stores:
            table = self._stores.setdefault(function.name, {})
            for ins in function.body or ():
                if isinstance(ins, Instruction) and ins.opcode.startswith("st.param"):
                    table.setdefault(ins.operands[0].base, []).append(ins)
        return self._stores[function.name]


def calls(function: Function) -> list[Instruction]:
    return [i for i in function.body or () if isinstance(i, Instruction) and i.base == "call"]


def _closure(module: Module, kernel: str) -> list[str]:
    """A kernel and the functions it can call, in the order of discovery."""
    found = [kernel]
    for name in found:
        for ins in calls(module.functions[name]):
            callee = ins.called[1]
            if callee in module.functions and callee not in found:
                found.append(callee)
    return found


def _moved(origin: Origin, by: int) -> Origin:
    if origin.kind != "local":
        return origin
    return Origin("local", origin.name, max(origin.offset, 0) + by, origin.function)


def _address(operand: str) -> str:
    """The register or symbol in `[%rd1+4]`; an offset of a symbol is kept."""
    match = _ADDRESS.fullmatch(operand.strip())
    if not match:
        return ""
    if match[2] and match[2].isdigit() and not match[1].startswith("%"):
        return f"{match[1]}+{match[2]}"
    return match[1]
