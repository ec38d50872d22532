"""Refuses invalid PTX, with its line, before any other pass sees it.

A compiler emits no invalid PTX, but `asm` can put any text into a kernel. Whatever passes can be lowered:
opcodes have rows in `isa`, operands have the kind, number, type and length of their row, all names are
declared, and `.param` memory, which is not checked at run time, is accessed within its bounds.

Source: PTX ISA, sections 5 (state spaces), 6.4 (operands), 7 (calls), 9.2 and 9.4 (types of operands).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ....errors import Unsupported
from . import declarations, special
from .callgraph import CallGraph
from .ir import (
    Address,
    Arguments,
    Function,
    Immediate,
    Instruction,
    Label,
    Location,
    Module,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Texel,
    Variable,
    Vector,
)
from .op import Role
from .types import BYTES, TYPES, integer_range, is_float

#: refused features, as a student would name them -> how their opcodes begin
_REFUSED = {
    "queries of textures and surfaces": ("txq.", "suq."),
    "formatted stores to surfaces, and their reductions": ("sust.p.", "sured."),
    "a product of four warps with other operands than the virtual GPU knows": ("wgmma.",),
    "Blackwell's tcgen05": ("tcgen05.",),
    "TMA with other operands than the virtual GPU knows": ("cp.async.bulk", "cp.reduce.async.bulk"),
    "tensor maps that kernels change": ("tensormap.",),
    "votes without a mask of lanes, as GPUs before Volta had them: write __any_sync(0xffffffff, ...) or vote.sync": (
        "vote.all.pred",
        "vote.any.pred",
        "vote.uni.pred",
        "vote.ballot.b32",
    ),
    "shuffles without a mask of lanes, as GPUs before Volta had them: write __shfl_sync(0xffffffff, ...) or shfl.sync": (
        "shfl.up.b32",
        "shfl.down.b32",
        "shfl.bfly.b32",
        "shfl.idx.b32",
    ),
    "barriers of clusters with other operands than PTX has": ("barrier.cluster",),
}
#: system functions -> bytes of their parameters, of their results
_EXTERNAL = {
    "vprintf": ([8, 8], [4]),
    "__assertfail": ([8, 8, 4, 8, 8], []),
    "malloc": ([8], [8]),
    "free": ([8], []),
}


#: operands that are the same in every function: registers or numbers
_PLAIN = {Register, Immediate, Special, Address}
_allowed: set[tuple] = set()  # see `_Body._alike`


def run(module: Module, name: str) -> None:
    """Errors: Unsupported, naming the instruction or the declaration and the student's line that leads to it."""
    declarations.run(module, name)
    for function in module.functions.values():
        if function.body is not None:
            _Body(module, function, name).check()


def _kind(type_: str) -> str:
    """What must match between types of one size: bit types match everything but predicates."""
    return (
        "p"
        if type_ == "pred"
        else "i"
        if type_[0] in "us"
        else "b"
        if type_[0] == "b" and type_[1] != "f"
        else "f"
    )


def fits(have: str, want: str, wide: bool) -> bool:
    """Whether a register of one type may be an operand of another. wide: it may have more bits than are
    used."""
    a, b = _kind(have), _kind(want)
    if "p" in (a, b):
        return a == b
    if TYPES[have][1] == TYPES[want][1]:
        return "b" in (a, b) or a == b
    return wide and TYPES[have][1] > TYPES[want][1] and a != "f"


def _is_plain(ins: Instruction) -> bool:
    return all(type(o) in _PLAIN and type(getattr(o, "base", o)) is not Symbol for o in ins.operands)


class _Body:
    """The instructions of one function."""

    def __init__(self, module: Module, function: Function, name: str):
        self.module, self.function, self.name = module, function, name
        self.regs = function.regs
        self.formals = {v.name: v for v in (*function.params, *function.returns)}
        self.labels: frozenset[str] = frozenset()

    def check(self) -> None:
        names = [item.name for item in self.function.body if isinstance(item, Label)]
        self.labels = frozenset(names)
        if len(self.labels) < len(names):
            twice = next(n for n, count in Counter(names).items() if count > 1)
            at = self._called_at()
            raise Unsupported(f"PTX with two labels {twice}", at.file or self.name, at.line)
        known: set = set()
        for ins in self.function.body:
            if isinstance(ins, Instruction):
                key = self._alike(ins)
                if key not in known and key not in _allowed:
                    self.instruction(ins)
                    (_allowed if _is_plain(ins) else known).add(key)
                if ins.pred and self.regs.get(ins.pred) != "pred":
                    self.refuse(ins, f"whose guard {ins.pred} is no predicate")

    def _alike(self, ins: Instruction) -> tuple:
        """A key shared by instructions that differ only in their registers: all are allowed if one is."""
        types = self.regs.get
        return ins.opcode, *[
            types(o)
            if type(o) is Register
            else (Address, types(o.base))
            if type(o) is Address and type(o.base) is Register
            else (type(o), o)
            for o in ins.operands
        ]

    def _called_at(self) -> Location:
        return CallGraph(self.module).called_at(self.function.name)

    def refuse(self, ins: Instruction, why: str = "") -> None:
        what = f"the PTX instruction `{ins}`" + f", {why}" * bool(why)
        if words := next((w for w, starts in _REFUSED.items() if ins.opcode.startswith(starts)), ""):
            what = f"{words} ({what})"
        at = ins.at if ins.at.line else self._called_at()
        raise Unsupported(what, at.file or self.name, at.line)

    # -- one instruction -----------------------------------------------------------------------

    def instruction(self, ins: Instruction) -> None:
        op = ins.op
        if op is None or op.mark:
            self.refuse(ins)
        if op.flow == "call":
            return self.call(ins)
        roles = op.roles.get(len(ins.operands))
        if roles is None:
            counts = " or ".join(map(str, sorted(op.roles)))
            self.refuse(ins, f"which takes {counts} operand{'s' * (counts != '1')}")
        for role, operand in zip(roles, ins.operands, strict=True):
            if role.kind == "value":
                self.value(ins, role, operand)
            elif role.kind == "address":
                self.address(ins, role, operand)
            elif role.kind == "texel":
                self.texel(ins, operand)
            elif role.kind == "imm":
                self.number(ins, operand)
            else:
                self.target(ins, role, operand)
        self.limits(ins)

    def limits(self, ins: Instruction) -> None:
        op = ins.op
        if op.base == "setmaxnreg" and not (24 <= (count := ins.named["n"].value) <= 256 and count % 8 == 0):
            self.refuse(ins, f"in which {count} must be a multiple of 8 from 24 to 256")
        cluster = op.to_cluster and (op.is_mbarrier or "multicast::cluster" in op.mods)
        if op.bulk and "multicast::cluster" in op.mods and not op.to_cluster:
            self.refuse(ins, "whose destination must be in shared::cluster")
        if cluster and op.is_mbarrier and op.has_result and type(ins.operands[0]) is not Sink:
            self.refuse(ins, "whose result must be _, since the barrier may be another block's")
        if cluster and "noComplete" in op.mods:
            self.refuse(ins, "which cannot be at another block's barrier")
        if op.nbytes * op.vector > 16:
            self.refuse(ins, f"which accesses {op.nbytes * op.vector} bytes at once")
        if (
            op.memory == "copy"
            and not op.bulk
            and ins.named["n"].value not in ((16,) if "cg" in op.mods else (4, 8, 16))
        ):
            self.refuse(ins, "which copies 16 bytes" + ", 8 or 4" * ("ca" in op.mods))
        if ins.base == "cvt" and "sat" in op.mods and not any(map(is_float, op.types)):
            (low, high), (source_low, source_high) = map(integer_range, op.types)
            if low <= source_low and source_high <= high:
                self.refuse(ins, f"in which every {op.types[1]} is a {op.types[0]}")

    def target(self, ins: Instruction, role: Role, operand: Operand) -> None:
        targets = self.function.tables.get(operand, ()) if role.kind == "table" else (operand,)
        if not targets or not self.labels.issuperset(targets):
            self.refuse(ins, "whose target is missing")

    def number(self, ins: Instruction, operand: Operand) -> None:
        lowest = -1 if ins.op.collective == "group" else 0
        if type(operand) is not Immediate or operand.format or not lowest <= operand.value < 1 << 32:
            self.refuse(ins, f"in which {operand} must be a number of 32 bits")

    # -- values --------------------------------------------------------------------------------

    def value(self, ins: Instruction, role: Role, operand: Operand) -> None:
        if role.type == "tile":
            of_registers = isinstance(operand, Vector)
            role = replace(role, type="b32" if of_registers else "b64", vector=4 * of_registers)
        if isinstance(operand, Pair):
            first, *others = operand.parts
            if not role.pair or len(others) != 1:
                self.refuse(ins, f"which has no two results {operand}")
            self.value(ins, replace(role, pair=""), first)
            self.scalar(ins, "pred", others[0], True)
        elif role.pair == "must":
            self.refuse(ins, f"which needs a predicate beside {operand}")
        elif isinstance(operand, Vector):
            self.vector(ins, role, operand)
        elif role.vector > 1:
            self.refuse(ins, f"whose operand {operand} must be a vector of {role.vector}")
        else:
            self.scalar(ins, role.type, operand, role.written)

    def vector(self, ins: Instruction, role: Role, operand: Vector) -> None:
        type_, n = role.type, len(operand.parts)
        if ins.base == "mov":  # mov packs and unpacks
            other = ins.operands[0 if operand is ins.operands[1] else 1]
            bits = TYPES[type_][1]
            if isinstance(other, Vector) or _kind(type_) not in "bi" or n not in (2, 4) or bits // n < 8:
                self.refuse(ins, f"which cannot take {operand}")
            type_ = f"b{bits // n}"
        elif n != role.vector:
            self.refuse(
                ins,
                f"whose operand {operand} must be {f'a vector of {role.vector}' if role.vector else 'one value'}",
            )
        for part in operand.parts:
            self.scalar(ins, type_, part, role.written)

    def scalar(self, ins: Instruction, type_: str, operand: Operand, written: bool) -> None:
        kind = type(operand)
        if kind is Register:
            have = self.regs.get(operand)
            if have is None:
                self.refuse(ins, f"whose register {operand} is not declared")
            if type_ == "ignore":  # of a copy: how many bytes to read, or whether to read none
                type_ = "pred" if have == "pred" else "u32"
            if not fits(have, type_, ins.op.wide):
                self.refuse(ins, f"in which {operand} must be of type .{type_}, not .{have}")
        elif written:
            if kind is not Sink:
                self.refuse(ins, f"which cannot write to {operand}")
        elif kind is Immediate:
            self.constant(ins, type_, operand)
        elif kind is Special:
            self.special(ins, type_, operand)
        elif kind is Negated:
            if type_ != "pred" or self.regs.get(operand.register) != "pred":
                self.refuse(ins, f"in which {operand} must be a predicate")
        elif (
            kind is Symbol and ins.base in ("mov", "cvta", "mapa", "getctarank") and operand in ins.operands
        ):  # not of a vector
            self.symbol(ins, type_, operand)
        else:
            self.refuse(ins, f"whose operand {operand} is not one that PTX has")

    def constant(self, ins: Instruction, type_: str, operand: Immediate) -> None:
        kind, half = (
            _kind(type_) if type_ != "ignore" else "i",
            type_ in ("f16", "f16x2", "bf16", "bf16x2", "tf32"),
        )
        if type_ == "pred" and ins.op.collective == "group":  # whether a product adds to what is there
            good = operand.value in (0, 1)
        elif operand.format:
            good = type_ in ("f32", "f64") or kind == "b" and BYTES[type_] == BYTES[operand.format]
        else:
            good = (kind != "f" or half) and -(1 << 63) <= operand.value < 1 << 64
        if not good:
            self.refuse(ins, f"in which the number {operand} does not fit the type .{type_}")

    def special(self, ins: Instruction, type_: str, operand: Special) -> None:
        have = special.ROWS[operand].type
        if (have == "pred") != (type_ == "pred") or BYTES[have] < BYTES[type_] or _kind(type_) not in "bip":
            self.refuse(ins, f"in which {operand} cannot be of type .{type_}")

    def symbol(self, ins: Instruction, type_: str, operand: Symbol) -> None:
        """Checks a symbol whose address is taken."""
        if type_ not in ("u32", "u64", "b32", "b64", "s32", "s64"):
            self.refuse(ins, f"in which the address of {operand.name} cannot be of type .{type_}")
        variable, f = self.variable(operand.name), self.module.functions.get(operand.name)
        if variable is None and (f is None or f.body is None or f.entry):
            self.refuse(ins, f"which takes the address of {operand.name}")
        if variable is not None and self.is_hidden(variable):
            self.refuse(ins, f"which takes the address of the parameter {operand.name}")

    # -- memory --------------------------------------------------------------------------------

    def variable(self, name: str) -> Variable | None:
        return self.function.variables.get(name) or self.formals.get(name) or self.module.variables.get(name)

    def is_hidden(self, variable: Variable) -> bool:
        """Whether it has no address: only a kernel's parameters are in memory."""
        return variable.space == "param" and not (self.function.entry and variable in self.function.params)

    def address(self, ins: Instruction, role: Role, operand: Operand) -> None:
        op = ins.op
        space = op.space
        if op.memory == "copy" and not role.written:
            space = "shared" if role.name == "m" else op.spaces[1]
        if not isinstance(operand, Address):
            self.refuse(ins, f"in which {operand} must be an address")
        base = operand.base
        if type(base) is Symbol:
            variable = self.variable(base)
            if variable is None:
                self.refuse(ins, f"whose address {operand} names nothing that is declared")
            if variable.space == "param" and space == "param":
                self.parameter(ins, variable, operand)
            elif variable.space != space and (space != "generic" or self.is_hidden(variable)):
                self.refuse(ins, f"whose address {operand} is not one of {space} memory")
        elif type(base) is Register:
            have = self.regs.get(base)
            if have is None or _kind(have) not in "bi" or BYTES[have] < 4:
                self.refuse(ins, f"in which {base} must be a register of 32 or 64 bits")
            if space == "param" and op.memory != "load":
                self.refuse(ins, "which writes to parameters through a pointer")
        elif type(base) is not Immediate or space == "param" or base.format:
            self.refuse(ins, f"in which {operand} must be an address")

    def parameter(self, ins: Instruction, variable: Variable, operand: Address) -> None:
        """Checks an access to parameters, which is not checked at run time."""
        nbytes = ins.op.nbytes * ins.op.vector
        if (
            ins.op.memory not in ("load", "store")
            or operand.offset < 0
            or operand.offset + nbytes > variable.size
        ):
            self.refuse(ins, f"which leaves the {variable.size} bytes of {variable.name}")
        if ins.op.memory == "store" and variable in self.function.params:
            self.refuse(ins, f"which writes to the parameter {variable.name}")

    # -- textures and surfaces -----------------------------------------------------------------

    def texel(self, ins: Instruction, operand: Operand) -> None:
        letters = ins.op.coordinates
        if type(operand) is not Texel or type(operand.handle) is not Register:
            self.refuse(ins, f"in which {operand} must be an object in a register, and coordinates")
        if len(operand.coordinates) != len(letters):
            self.refuse(
                ins, f"in which {operand} must have {len(letters)} coordinate{'s' * (len(letters) > 1)}"
            )
        self.scalar(ins, "b64", operand.handle, False)
        kind = ins.op.types[-1] if ins.op.texture else "b32"
        for letter, coordinate in zip(letters, operand.coordinates, strict=True):
            self.scalar(ins, "b32" if letter in "l_" else kind, coordinate, False)

    # -- calls ---------------------------------------------------------------------------------

    def call(self, ins: Instruction) -> None:
        kinds = [isinstance(o, Arguments) for o in ins.operands]
        if kinds[:1] == [True] and kinds[1:2] == [False]:
            kinds = kinds[1:]
        if kinds not in ([False], [False, True], [False, True, False]):
            self.refuse(ins, "which is no call")
        returns, target, arguments = ins.called
        if type(target) is Register:
            return self.call_pointer(ins, target, returns, arguments)
        f = self.module.functions.get(target)
        if f is None or f.entry:
            self.refuse(ins, f"which calls {target}: there is no such function")
        if f.body is None and f.name in _EXTERNAL:
            sizes = [v.size for v in f.params], [v.size for v in f.returns]
            if sizes != _EXTERNAL[f.name] or any(v.is_array for v in f.params + f.returns):
                self.refuse(ins, f"which calls {target} with other parameters than it has")
        if len(arguments) != len(f.params) or len(returns) not in (0, len(f.returns)):
            self.refuse(ins, f"which calls {target} with another number of arguments or results than it has")
        for formal, actual in zip(f.params, arguments, strict=True):
            one = type(actual) in (Register, Immediate) and f"b{8 * formal.size}" in TYPES
            if formal.is_array or not one:
                self.handed_over(ins, actual, formal.size)
            else:
                self.scalar(ins, f"b{8 * formal.size}", actual, False)
        for formal, actual in zip(f.returns, returns, strict=False):
            self.handed_over(ins, actual, formal.size)

    def call_pointer(self, ins: Instruction, target: Register, returns, arguments) -> None:
        if self.regs.get(target) not in ("b64", "u64", "s64"):
            self.refuse(ins, f"in which {target} must be a pointer to a function")
        if ins.operands[-1] not in self.function.tables:
            self.refuse(ins, "whose prototype is missing")
        for actual in (*returns, *arguments):
            self.handed_over(ins, actual, None)

    def handed_over(self, ins: Instruction, actual: Operand, size: int | None) -> None:
        """Checks an argument, or the place for a result: `.param` memory of this function."""
        variable = self.function.variables.get(actual)
        if variable is None or variable.space != "param":
            self.refuse(ins, f"in which {actual} must be a .param variable of the function")
        if size is not None and variable.size != size:
            self.refuse(ins, f"in which {actual} has {variable.size} bytes, and the parameter {size}")
