"""Which values are unset, and whether that matters: initcheck.

Unset values may be copied: a struct has padding, and a float4 may use only three of its parts. They are a
fault when they matter: in a branch, an address, an atomic's operand, a warp vote, or an array that the kernel
outputs.

Tracking values takes time, and few kernels have unset ones. So ordinary code only detects that something
unset is read at all; that ends the launch (`rt_suspect`), and the device runs it again with code that tracks
values, which this pass makes:

    ld.u32 %r1, [%rd1+4];        ->   add.s64 %unset.t1, %rd1, 4;
    st.param.b32 [param0], %r1;       ld.u32 %r1, [%rd1+4];
    call f, (param0);                 add.u64 %unset.t2, %unset.t1, %unset.base;
                                      peek.b32 %unset.t3, %unset.t2;
                                      setp.ne.b32 %unset.t4, %unset.t3, 0;
                                      runtime.if %unset.t4, %unset.t5, rt_unset_loaded, %unset.t1, 4, 15;
                                      mov.b32 %r1.unset, %unset.t3;
                                      mov.b64 %r1.from, %unset.t5;
                                      st.param.b32 [param0], %r1;
                                      st.param.b32 [param0.unset], %r1.unset;
                                      st.param.b64 [param0.from], %r1.from;
                                      call f, (param0, param0.unset, param0.from);

A register that may be unset has two shadow registers, one for which of its bits are unset and one for where
they come from (an origin, see abi.py); so have memory and every parameter. Instructions that move bits
(`mov`, `prmt`, shifts, `and`) move these as well; anything else computed from an unset bit is unset as a
whole (`unset_bits`).

Source: Stepanov, Serebryany, "MemorySanitizer", CGO 2015.
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.facts import Facts
from ..analyse.unset import inputs, may_be_unset
from ..ptx.callgraph import align_up
from ..ptx.ir import Address, Arguments, Function, Instruction, Label, Module, Symbol, Variable, operand
from ..ptx.op import CARRY
from ..ptx.types import BITS, is_signed
from ..runtime.abi import USE
from .unset_bits import UnsetBits

_BASE = "%unset.base"  # host address of the unset bits of device memory
_A, _B, _C = 0, 8, 16  # where the operands of a product are in Extra.unset


def run(function: Function, facts: Facts) -> None:
    """In place. Called functions get additional parameters, which their callers pass."""
    followed = may_be_unset(function, facts.undefined)
    _Following(function, followed, facts.undefined).run(facts.known.module)


class _Following(UnsetBits):
    def run(self, module: Module) -> None:
        self.module, function, items = module, self.function, self.function.body
        self.params: dict[str, Variable] = {}
        own = {name: v for name, v in function.variables.items() if v.space == "param"}
        for name, parameter in own.items():
            self._declare(name, parameter)
        if not function.entry:
            formals = [*function.params, *function.returns]
            self.params |= {p.name: p for p in formals}
            function.params = [*function.params, *(v for p in formals for v in _shadows(p.name, p))]
        function.regs[_BASE] = "b64"
        self.ins = next(i for i in items if isinstance(i, Instruction))
        self.put("fetch", _BASE, "Env.unset")
        for name in own:
            self._clear(name)
        self.set(CARRY)
        self.forget(self.undefined)
        for item in items:
            if isinstance(item, Label):
                self.body.append(item)
            else:
                self.ins, self.tested = item, {}
                self._look(item)
        function.body = self.body

    def _look(self, ins: Instruction) -> None:
        op = ins.op
        if op.flow == "branch":
            self.check([ins.pred] if ins.pred else [], "branch")
        elif ins.base == "enter":
            self.body.append(ins)
            return self.forget(ins.expansion.registers)
        if op.geometry:  # of textures and surfaces; the runtime checks the texels
            self.check(inputs(ins), "address")
            self.body.append(ins)
            return self.set_all()
        if op.mark or op.flow not in ("", "call", "switch") or op.nothing and op.address is not None:
            self.body.append(ins)
            return None
        self.check([r for o in ins.sources if isinstance(o, Address) for r in o.registers], "address")
        if ins.op.flow == "call":
            return self._call(ins)
        if op.memory in ("load", "store"):
            return self._load(ins) if op.memory == "load" else self._store(ins)
        if (
            op.memory in ("atomic", "reduction")
            or op.asynchronous
            and not op.memory
            and op.address is not None
        ):
            return self._atomic(ins)
        if op.collective == "matrix":
            return self._matrix(ins)
        if op.collective == "warp" and op.moves:
            return self._shuffle(ins)
        if op.collective or op.flow or op.own or op.asynchronous or op.nothing:
            self.check(inputs(ins), "collective" if op.collective else "branch" if op.flow else "operand")
            self.body.append(ins)
            return self.set_all()
        return self.compute()

    # -- of memory -----------------------------------------------------------------------------------

    def _place(self, address: Address, space: str) -> str:
        """The device address that an operand denotes."""
        base = address.base
        narrow = BITS.get(self.function.regs.get(base)) == 32
        place = self.make("b64", "cvt.s64.s32" if narrow else "mov.b64", base)
        if address.offset:
            place = self.make("b64", "add.s64", place, address.offset)
        variable = self.function.variables.get(base) or self.module.variables.get(base)
        shared = space == "shared" or variable is not None and variable.space == "shared"
        return self.make("b64", "cvta.shared.u64", place) if shared else place

    def _host(self, place: str) -> str:
        return self.make("b64", "add.u64", place, _BASE)

    def _read(
        self, place: str, nbytes: int, type_: str, signed: bool = False, used: int = -1
    ) -> tuple[str, str]:
        """(which bits of memory are unset, as a register of a type, their origin). used: a bit for each byte that
        counts."""
        every = (1 << nbytes) - 1
        unset = self.make(type_, f"peek.{'s' if signed else 'b'}{8 * nbytes}", self._host(place))
        if used & every != every:
            mask = sum(255 << 8 * i for i in range(nbytes) if used >> i & 1)
            unset = self.make(type_, f"and.{type_}", unset, mask)
        self.serial += 1
        origin = f"%unset.t{self.serial}"
        self.function.regs[origin] = "b64"
        self.put(
            "runtime.if", self.any_bit(unset, type_), origin, "rt_unset_loaded", place, nbytes, used & every
        )
        return unset, origin

    def _write(self, place: str, nbytes: int, unset: str, type_: str, origin: str) -> None:
        """Store a value with these bits unset."""
        self.put(f"poke.b{8 * nbytes}", self._host(place), unset)
        if unset != "0":
            self.put("runtime.if", self.any_bit(unset, type_), "_", "rt_unset_stored", place, nbytes, origin)

    def _load(self, ins: Instruction) -> None:
        op, targets = ins.op, ins.operands[0].parts
        if op.space == "param" and type(ins.address.base) is Symbol:
            self.body.append(ins)
            return self._load_parameter(ins)
        place = self._place(ins.address, op.space)
        self.body.append(ins)
        for i, target in enumerate(targets):
            if target in self.followed:
                at = self.make("b64", "add.s64", place, i * op.nbytes) if i else place
                used = ins.used >> i * op.nbytes
                self.set(target, *self._read(at, op.nbytes, self.type(target), is_signed(op.type), used))
        return None

    def _store(self, ins: Instruction) -> None:
        op = ins.op
        self.body.append(ins)
        if op.space == "param" and type(ins.address.base) is Symbol:
            return self._store_parameter(ins)
        place = self._place(ins.address, op.space)
        for i, source in enumerate(ins.operands[1].parts):
            at = self.make("b64", "add.s64", place, i * op.nbytes) if i else place
            unset, type_, origin = "0", "b32", "0"
            if source in self.followed:
                unset, type_, origin = self.unset(source), self.type(source), self.origin(source)
                if BITS[type_] > 8 * op.nbytes:  # of a wider register only these are stored
                    unset = self.make(type_, f"and.{type_}", unset, (1 << 8 * op.nbytes) - 1)
            self._write(at, op.nbytes, unset, type_, origin)
        return None

    def _atomic(self, ins: Instruction) -> None:
        """atom, red, mbarrier: their operands, and the memory that they change, must be set."""
        op, type_ = ins.op, f"b{8 * ins.op.nbytes}"
        self.check([r for o in ins.sources if not isinstance(o, Address) for r in o.registers], "atomic")
        place = self._place(ins.address, op.space)
        self.body.append(ins)
        unset, origin = self._read(place, op.nbytes, type_)
        self.put(f"poke.{type_}", self._host(place), 0)
        if op.operation == "exch":
            return self.set(ins.operands[0], unset, origin)
        if op.operation != "init":
            self.put("runtime.if", self.any_bit(unset, type_), "_", "rt_unset_used", USE["read"], origin)
        return self.set_all()

    # -- of parameters ---------------------------------------------------------------------------------

    def _clear(self, name: str) -> None:
        """All of a parameter counts as set."""
        for at in range(0, self.params[name].size, 8):
            self.put("st.param.b64", f"[{name}.unset+{at}]", 0)

    def _load_parameter(self, ins: Instruction) -> None:
        nbytes, name = ins.op.nbytes, ins.address.base
        for i, target in enumerate(ins.operands[0].parts):
            at = ins.address.offset + i * nbytes
            if name not in self.params:
                self.set(target)
            elif target in self.followed:
                kind = "s" if is_signed(ins.op.type) else "b"
                self.put(f"ld.param.{kind}{8 * nbytes}", f"{target}.unset", f"[{name}.unset+{at}]")
                origin = self._origin_of_granule(name, at)
                if nbytes == 8:
                    low = self.make("b32", "ld.param.b32", f"[{name}.unset+{at}]")
                    other = self._origin_of_granule(name, at + 4)
                    origin = self.make("b64", "selp.b64", origin, other, self.any_bit(low, "b32"))
                self.put("mov.b64", f"{target}.from", origin)

    def _store_parameter(self, ins: Instruction) -> None:
        nbytes, name = ins.op.nbytes, ins.address.base
        for i, source in enumerate(ins.operands[1].parts if name in self.params else ()):
            at = ins.address.offset + i * nbytes
            self.put(f"st.param.b{8 * nbytes}", f"[{name}.unset+{at}]", self.unset(source))
            origin = self.origin(source) if source in self.followed else ""
            if origin and nbytes < 4:  # another byte of the granule may be the unset one
                old = self._origin_of_granule(name, at)
                origin = self.make("b64", "selp.b64", origin, old, self.is_unset(source))
            for granule in range(at // 4, (at + nbytes + 3) // 4 if origin else 0):
                self.put("st.param.b64", f"[{name}.from+{8 * granule}]", origin)

    def _origin_of_granule(self, name: str, at: int) -> str:
        return self.make("b64", "ld.param.b64", f"[{name}.from+{at // 4 * 8}]")

    def _call(self, ins: Instruction) -> None:
        """Every argument and every result is accompanied by its unset bits."""
        returns, name, arguments = ins.called
        callee = self.module.functions.get(name)
        if callee is not None and callee.body is None:  # of the system
            self.body.append(ins)
            for result in returns:
                self._clear(result)
            return
        self.check(name.registers, "address")  # of a pointer
        passed = [self._passed(argument) for argument in (*arguments, *returns)]
        if callee is not None:
            passed += [self._passed("0") for _ in callee.returns[len(returns) :]]
        more = [f"{argument}{kind}" for argument in passed for kind in (".unset", ".from")]
        rest = list(ins.operands)
        head = [rest.pop(0) for _ in range(1 + isinstance(rest[0], Arguments))]
        if rest and isinstance(rest[0], Arguments):
            del rest[0]
        operands = (*head, operand(f"({', '.join([*arguments, *more])})"), *rest)
        self.body.append(replace(ins, operands=operands, original=ins.original or ins))

    def _passed(self, argument: str) -> str:
        """The name of a parameter, or of the one for the unset bits of an unnamed argument."""
        if argument in self.params:
            return argument
        self.serial += 1
        name = f"unset.t{self.serial}"
        self._declare(name, Variable("param", "b64", name, 8, 8))
        self._clear(name)
        if argument in self.followed:
            self.put(f"st.param.{self.type(argument)}", f"[{name}.unset+0]", self.unset(argument))
            self.put("st.param.b64", f"[{name}.from+0]", self.origin(argument))
        return name

    def _declare(self, name: str, parameter: Variable) -> None:
        self.params[name] = parameter
        self.function.variables |= {v.name: v for v in _shadows(name, parameter)}

    # -- of a warp ---------------------------------------------------------------------------------------

    def _shuffle(self, ins: Instruction) -> None:
        """A lane's value is tracked to the lane that receives it; the source lane's number must be set."""
        self.check([r for o in ins.operands[2:] for r in o.registers], "collective")
        value = ins.operands[1]
        self._give(0, value)
        self.put("note", "Extra.from", self.origin(value) if value in self.followed else 0)
        self.body.append(ins)
        self.set_all()
        given, origin = (self.make("b64", "fetch", f"Extra.given_{what}") for what in ("unset", "from"))
        self.set(ins.operands[0].parts[0], self.make("b32", "cvt.u32.u64", given), origin)

    def _give(self, place: int, register: str) -> None:
        unset = self.unset(register)
        if register in self.followed and self.type(register) == "b32":
            unset = self.make("b64", "cvt.u64.u32", unset)
        self.put("note", f"Extra.unset+{8 * place}", unset)

    def _matrix(self, ins: Instruction) -> None:
        (self._product if ins.op.address is None else self._rows)(ins)

    def _product(self, ins: Instruction) -> None:
        """Every lane provides the unset bits of its operands and receives those of its results."""
        results, *groups = (o.parts for o in ins.operands)
        for start, registers in zip((_A, _B, _C), groups, strict=True):
            for i, register in enumerate(registers[:8]):
                self._give(start + i, register)
        registers = [r for group in groups for r in group]
        origin, bad = self.first_origin(registers), self.is_any_unset(registers)
        self.put("note", "Extra.from", self.make("b64", "selp.b64", origin, 0, bad))
        self.body.append(ins)
        origin = self.make("b64", "fetch", "Extra.given_from")
        for i, target in enumerate(results):
            if target in self.followed:
                unset = self.make("b64", "fetch", f"Extra.unset+{8 * i}")
                narrow = self.type(target) == "b32"
                self.set(target, self.make("b32", "cvt.u32.u64", unset) if narrow else unset, origin)

    def _rows(self, ins: Instruction) -> None:
        """ldmatrix, stmatrix."""
        self.body.append(ins)
        each, places = self._places_in_rows(ins)
        for i, register in enumerate(ins.named["d" if ins.op.has_result else "b"].parts):
            mine = places[each * i : each * (i + 1)]
            if ins.op.has_result:
                self._set_packed(register, [self._read(place, 4 // each, "b32") for place in mine])
                continue
            unset, origin = self.unset(register), "0"
            if register in self.followed:
                origin = self.origin(register)
            for place in mine:
                half = self.make("b16", "cvt.u16.u32", unset) if each == 2 and unset != "0" else unset
                self._write(place, 4 // each, half, "b16" if each == 2 else "b32", origin)
                unset = self.make("b32", "shr.u32", unset, 16) if unset != "0" else unset

    def _places_in_rows(self, ins: Instruction) -> tuple[int, list[str]]:
        """How many places a register's two halves have, and where those are: the lanes have exchanged the rows."""
        transposed = "trans" in ins.op.mods
        lane = self.make("b64", "cvt.u64.u32", "%laneid")
        if transposed:  # a column: an element of each of two rows
            within = self.make("b64", "shl.b64", self.make("b64", "shr.u64", lane, 2), 1)
        else:
            within = self.make("b64", "shl.b64", self.make("b64", "and.b64", lane, 3), 2)
        each = 2 if transposed else 1
        rows = [
            self.make("b64", "fetch", f"Extra.data+{8 * i}") for i in range(each * ins.op.moved_rows // 8)
        ]
        return each, [self.make("b64", "add.u64", row, within) for row in rows]

    def _set_packed(self, register: str, parts: list[tuple[str, str]]) -> None:
        """(unset bits, origin) of one element, or of two halves, -> those of the register that holds them."""
        origin = "0"
        for unset, its in reversed(parts):
            origin = self.make("b64", "selp.b64", its, origin, self.any_bit(unset, "b32"))
        whole, *others = (unset for unset, _ in parts)
        for unset in others:
            whole = self.make("b32", "or.b32", whole, self.make("b32", "shl.b32", unset, 16))
        self.set(register, whole, origin)


def _shadows(name: str, parameter: Variable) -> list[Variable]:
    """What is kept of a parameter: a byte for each of its bytes, an origin for each of its granules."""
    sizes = {".unset": align_up(parameter.size, 8), ".from": 8 * (align_up(parameter.size, 4) // 4)}
    return [Variable("param", "b8", name + kind, max(n, 8), 8, True) for kind, n in sizes.items()]
