"""Pointer analysis: what the address in a register was computed from. `&tile[i]` is in `tile`, whatever i is.

A register stands for all values it ever holds, a call's parameter for all values ever passed. If these have a
single origin, a variable, full checks need not look up which array an access is meant for; in unoptimised
code, which computes an address just before using it, that is the usual case. After a fault the likely origins
name the array, which a stray address alone does not reveal (explain/owners.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from ..ptx.ir import (
    Address,
    Function,
    Immediate,
    Instruction,
    Location,
    Module,
    Operand,
    Register,
    Symbol,
    Variable,
    operand,
)
from .dataflow import reached, solve

WHOLE = -1


@dataclass(frozen=True)
class Origin:
    """What a value is computed from.

    kind "param": bytes [offset, offset + 8) of the parameter `name` of `function`. "local": the local
    variable `name` of `function`, at `offset`, or WHOLE if that is unknown. "symbol": another variable.
    "unknown": an address, or a number, from memory. "number": not an address.
    """

    kind: str
    name: str = ""
    offset: int = 0
    function: str = ""

    @property
    def is_variable(self) -> bool:
        return self.kind in ("symbol", "local")


Origins = frozenset[Origin]
NUMBER, UNKNOWN = Origin("number"), Origin("unknown")
_NUMBER, _UNKNOWN = frozenset([NUMBER]), frozenset([UNKNOWN])


class Pointers:
    """The pointers in a module's functions."""

    def __init__(self, module: Module):
        self.functions, self.variables = module.functions, module.variables
        self._returned: dict[str, dict[int, Origins]] = {}

    def returned(self, name: str) -> dict[int, Origins]:
        """Offset in a function's return value -> its origins, which may be parameters of the function."""
        if name not in self._returned:
            self._returned[name] = {}  # for recursion
            function = self.functions.get(name)
            if function and function.body is not None and len(function.returns) == 1:
                found = Values(self, function).found
                places = ((key.rpartition("+"), origins) for key, origins in found.items())
                self._returned[name] = {
                    int(at): origins for (of, _, at), origins in places if of == function.returns[0].name
                }
        return self._returned[name]


def rooted(found: dict[str, Origins]) -> dict[str, str]:
    """Register -> the variable that all its addresses were computed from. found: `Values.found`."""
    names = {key: {o.name if o.is_variable else "" for o in origins} for key, origins in found.items()}
    return {key: name for key, (name, *more) in names.items() if name and not more}


def root_of(operand: Operand, roots: dict[str, str], variables: dict[str, Variable]) -> Variable | None:
    """The variable that an address operand like `[%rd1+4]` refers to, if known."""
    return variables.get(operand.base) or variables.get(roots.get(operand.base))


class Values:
    """The values of one function, by name: a register, `parameter+offset` of a call, `[variable+offset]` of local memory.

    Each instruction is an equation: the origins of its result, from those of its operands.
    """

    def __init__(self, pointers: Pointers, function: Function):
        self.pointers, self.function = pointers, function
        self.variables = {**pointers.variables, **function.variables}
        self.formals = {p.name: p for p in function.params}
        self.body = [ins for ins in function.body or () if isinstance(ins, Instruction)]
        self._constants: dict[str, Origins] = {}
        self._equations: list[tuple[str, tuple[str, ...], Callable[..., Origins]]] = []
        for ins in self.body:
            self._add(ins)

    def of(self, name: str) -> Origins:
        """The origins of a register, a symbol, a constant, or a part of a parameter."""
        return self.found.get(name) or self._elsewhere(name)

    @cached_property
    def found(self) -> dict[str, Origins]:
        """Name -> its origins. An equation contributes nothing until all its inputs have origins."""
        start, using = dict(self._constants), {}
        for equation in self._equations:
            for name in set(equation[1]):
                using.setdefault(name, []).append(equation)
        for name in using.keys() - start.keys() - {result for result, _, _ in self._equations}:
            start[name] = self._elsewhere(name)

        def flow(name: str, found: dict[str, Origins]) -> Iterable[tuple[str, Origins]]:
            for result, inputs, combine in using.get(name, ()):
                given = [found.get(i) for i in inputs]
                if all(given):
                    yield result, combine(*given)

        return solve(start, flow, frozenset.union)

    def _elsewhere(self, name: str) -> Origins:
        """The origins of a value that no instruction of this function computes."""
        if type(name) is Symbol:
            variable = self.variables.get(name.name)
            if variable is None:
                return _NUMBER
            if variable.space == "local":
                return frozenset([Origin("local", name.name, name.offset or WHOLE, self.function.name)])
            return frozenset([Origin("symbol", name.name)]) if variable.space != "param" else _UNKNOWN
        base, plus, offset = name.partition("+")
        if plus and base in self.formals:
            return frozenset([Origin("param", base, int(offset), self.function.name)])
        return _UNKNOWN if plus or name[0] == "{" else _NUMBER

    # -- equations ------------------------------------------------------------------------------

    def _add(self, ins: Instruction) -> None:
        operands, op = ins.operands, ins.op
        if ins.op.flow == "call":
            self._call(ins)
        elif op.memory == "store" and op.space == "param":
            for place, value in zip(_places(operands[0], ins), _parts(operands[1]), strict=True):
                self._equal(place, value)
        elif (
            op.memory == "load"
            and op.space == "param"
            and (op.nbytes == 8 or operands[1].base not in self.formals)
        ):
            for target, place in zip(_parts(operands[0]), _places(operands[1], ins), strict=True):
                self._equal(target, place)
        elif op.memory in ("load", "store") and (place := self._local_place(operands[op.address])):
            self._in_local_memory(ins, place)
        elif op.formula and type(operands[0]) is Register:
            self._computed(ins)
        else:
            self._no_address(ins)

    def _computed(self, ins: Instruction) -> None:
        target, formula = ins.operands[0], ins.op.formula
        if formula == "a+b" and isinstance(ins.operands[2], Immediate):
            by = ins.operands[2].value
            inputs, combine = (1,), lambda origins: frozenset(_moved(o, by) for o in origins)
        else:
            inputs, combine = _FORMULAS.get(formula, (ins.op.bases, _same))
        self._equations.append((target, tuple(ins.operands[i] for i in inputs), combine))

    def _equal(self, result: str, name: str) -> None:
        self._equations.append((result, (name,), _same))

    def _constant(self, result: str, origins: Origins) -> None:
        self._constants[result] = self._constants.get(result, frozenset()) | origins

    def _no_address(self, ins: Instruction) -> None:
        """The result is not a known address."""
        for name in ins.writes:
            self._constant(name, _UNKNOWN if ins.op.memory and ins.op.nbytes == 8 else _NUMBER)

    def _call(self, ins: Instruction) -> None:
        """A call's result may be computed from its arguments."""
        returns, name, arguments = ins.called
        callee = self.pointers.functions.get(name)
        for offset, origins in (self.pointers.returned(name) or {0: _UNKNOWN}).items() if returns else ():
            result = f"{returns[0]}+{offset}"
            for origin in origins:
                if origin.kind == "param" and origin.function == name:
                    position = [p.name for p in callee.params].index(origin.name)
                    self._equal(result, f"{arguments[position]}+{origin.offset}")
                else:
                    self._constant(result, frozenset([origin]))

    def _in_local_memory(self, ins: Instruction, place: str) -> None:
        """A pointer loaded from local memory is likely one that the function stored there."""
        if ins.op.memory == "store":
            self._equal(place, ins.operands[1])
        elif ins.op.nbytes == 8 and ins.op.vector == 1:
            self._equations.append((ins.operands[0], (place,), _perhaps))
        else:
            self._no_address(ins)

    def _local_place(self, address: Address) -> str:
        """`[depot+8]` for `[%SP+8]`, or for `[%rd1+4]` if %rd1 is the depot plus 4; "" if unclear."""
        name, offset = address.base, address.offset
        for _ in range(8):
            if type(name) is Symbol:
                variable = self.variables.get(name.name)
                local = variable is not None and variable.space == "local"
                return f"[{name.name}+{offset + name.offset}]" if local else ""
            definitions = self._definitions.get(name, ())
            if len(definitions) != 1:
                return ""
            ins = definitions[0]
            if ins.op.formula == "a+b" and isinstance(ins.operands[2], Immediate):
                offset += ins.operands[2].value
            elif ins.op.formula != "a":
                return ""
            name = ins.operands[1]
        return ""

    @cached_property
    def _definitions(self) -> dict[str, list[Instruction]]:
        found: dict[str, list[Instruction]] = {}
        for ins in self.body:
            for name in ins.writes:
                found.setdefault(name, []).append(ins)
        return found


def _same(origins: Origins) -> Origins:
    return origins


def _perhaps(origins: Origins) -> Origins:
    return origins | _NUMBER


def _sum(a: Origins, b: Origins) -> Origins:
    """One of two summands is the address: the more certain one."""
    certain = _certainty(a), _certainty(b)
    if certain[0] == certain[1]:
        return a | b | _NUMBER if certain[0] else a | b
    return a if certain[0] > certain[1] else b


def _certainty(origins: Origins) -> int:
    if all(o.is_variable for o in origins):
        return 2
    return int(any(o.is_variable or o.kind == "param" for o in origins))


def _difference(a: Origins, b: Origins) -> Origins:
    """An address minus a number is an address; minus another address, a number."""
    return a if b == _NUMBER else a | _NUMBER


#: how an address is computed, in the terms of `isa` -> (the operands that count, the origins of the result from theirs)
_FORMULAS = {
    "a?": ((1,), _perhaps),
    "a|b": ((1, 2), frozenset.union),
    "a+b": ((1, 2), _sum),
    "a-b": ((1, 2), _difference),
}


def _moved(origin: Origin, by: int) -> Origin:
    """The first constant added to the address of local memory selects one of the variables there."""
    return replace(origin, offset=by) if origin.kind == "local" and origin.offset == WHOLE else origin


def _places(address: Address, ins: Instruction) -> list[str]:
    """The parts of a parameter that an instruction loads or stores."""
    return [f"{address.base}+{address.offset + i * ins.op.nbytes}" for i in range(ins.op.vector)]


def _parts(operand: Operand) -> tuple[Operand, ...]:
    return getattr(operand, "parts", (operand,))


class Likely:
    """What the addresses in a kernel, and in the functions it calls, are likely computed from."""

    def __init__(self, module: Module, kernel: str):
        self.pointers = Pointers(module)
        names = reached([kernel], lambda name: {i.called[1] for i in calls(module.functions.get(name))})
        self.functions = [f for f in module.functions.values() if f.name in names]
        self._values: dict[str, Values] = {}

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
                    found |= self.of_instruction(function, ins)
        return found

    def of_instruction(self, function: Function, ins: Instruction) -> set[Origin]:
        """The same of an instruction of a function."""
        return self._sources(o for name in _addresses(ins) for o in self._of(function).of(name))

    def stored(self) -> set[Origin] | None:
        """What the kernel stores to, beside its own memory; None if that is not known."""
        found: set[Origin] = set()
        for function in self.functions:
            for ins in (i for i in function.body or () if isinstance(i, Instruction)):
                op = ins.op
                own = op.of_parameters or op.space in ("local", "shared") or op.memory == "copy"
                if own or not (op.writes_memory or op.stores_matrix):
                    continue
                origins = self._sources(self._of(function).of(ins.address.base))
                if not origins or UNKNOWN in origins:
                    return None
                found |= origins
        return {o for o in found if o.kind != "local"}

    def _sources(self, found: Iterable[Origin]) -> set[Origin]:
        """What callers give counts instead of the parameters of the functions that they call."""
        return {o for o in reached(found, self._passed) if not self._is_passed(o)} - {NUMBER}

    def _of(self, function: Function) -> Values:
        if function.name not in self._values:
            self._values[function.name] = Values(self.pointers, function)
        return self._values[function.name]

    def _is_passed(self, origin: Origin) -> bool:
        return origin.kind == "param" and not self.pointers.functions[origin.function].entry

    def _passed(self, origin: Origin) -> set[Origin]:
        """The origins of the values passed for a called function's parameter."""
        found: set[Origin] = set()
        if self._is_passed(origin):
            place = [p.name for p in self.pointers.functions[origin.function].params].index(origin.name)
            for caller in self.functions:
                for ins in calls(caller):
                    _, name, arguments = ins.called
                    if name == origin.function:
                        found |= self._of(caller).of(f"{arguments[place]}+{origin.offset}")
        return found


def calls(function: Function | None) -> list[Instruction]:
    body = function.body if function and function.body else ()
    return [i for i in body if isinstance(i, Instruction) and i.op.flow == "call"]


def _addresses(ins: Instruction) -> list[str]:
    """The registers, symbols or parameters whose values an instruction uses as addresses."""
    if ins.op.flow == "call":
        return [f"{argument}+0" for argument in ins.called[2]]
    if not ins.op.memory or ins.op.memory == "copy":
        return []
    address = ins.operands[ins.op.address]
    offset = address.offset if type(address.base) is Symbol else 0
    return [operand(f"{address.base}+{offset}") if offset > 0 else address.base]
