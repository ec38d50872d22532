"""Which values are unset, and whether that matters: initcheck.

Unset values may be copied: a struct has padding, and a float4 may use only three of its parts. They are a
fault where they matter: in a branch, an address, an atomic's operand, a warp's vote, or an array that the
kernel leaves behind.

Following values takes time, and few kernels have unset ones. So ordinary code only detects that something
unset is read at all; that ends the launch (`rt_suspect`), and the device runs it again with code that follows
values. There each register that may be unset has two more, one for which of its bits are unset and one for
where that comes from (an origin, see abi.py), and so does memory. Instructions that move bits (`mov`, `prmt`,
shifts, `and`) move these as well; anything else computed from an unset bit is unset as a whole.

Source: Stepanov, Serebryany, "MemorySanitizer", CGO 2015.
"""

from __future__ import annotations

from dataclasses import replace

from ..emit import opcodes
from ..emit.table import PACKED
from ..ptx.ir import Address, Function, Instruction, Operand, Vector, operand
from ..ptx.op import CARRY
from ..ptx.types import TYPES, is_signed, llvm_type
from ..rewrite.inline import plain_name
from ..runtime.abi import ORIGIN, ORIGIN_KIND, ORIGIN_SITE, USE

#: instructions that only move bits -> the operands they move; the other operands say where to
_MOVES = {
    "mov": (1,),
    "prmt": (1, 2),
    "shl": (1,),
    "shr": (1,),
    "shf": (1, 2),
    "bfe": (1,),
    "bfi": (1, 2),
    "brev": (1,),
    "cvt": (1,),
}
_COLLECTIVES = {"bar", "barrier", "vote", "match", "redux", "activemask", "elect"}
_HINTS = {"prefetch", "prefetchu", "applypriority", "discard"}
#: the results of these count as set, because their operands are checked
_CUTS = _COLLECTIVES | {"ld", "ldu", "atom", "shfl", "mbarrier", "ldmatrix", "movmatrix"}


def followed(function: Function, undefined: set[str]) -> set[str]:
    """The registers that may hold something unset. undefined: those that may be read before they are assigned."""
    found, grown = set(undefined), True
    body = [i for i in function.body if isinstance(i, Instruction)]
    while grown:
        grown = False
        for ins in body:
            targets = ins.writes | ({CARRY} if ins.op.leaves_carry else set())
            if targets <= found:
                continue
            inputs = set() if ins.base in _CUTS else set(_inputs(ins))
            if inputs & found or _brings(ins, function):
                found |= targets
                grown = True
    return found


def _brings(ins: Instruction, function: Function) -> bool:
    """Whether the result may be unset although no operand is."""
    if ins.base in ("ld", "ldu"):
        if ".param" in ins.opcode and function.entry:
            return ins.operands[1].base not in {p.name for p in function.params}
        return ".const" not in ins.opcode
    return (
        ins.base in ("shfl", "ldmatrix", "movmatrix")
        or ins.opcode.startswith(("wmma.load", "atom."))
        and (ins.base == "wmma" or ".exch" in ins.opcode)
    )


def _inputs(ins: Instruction) -> list[str]:
    found = [name for operand in ins.sources for name in operand.registers]
    return found + [CARRY] if ins.op.takes_carry else found


class Following:
    """Mixin of `function.Lowering`: the code that follows unset values."""

    def start_following(self, function: Function) -> None:
        """At the beginning of a body: nothing is assigned to its registers yet."""
        self.followed = followed(function, self.facts.undefined) if self.module.tracking else set()
        for register in sorted(self.followed):
            unset, origin = self._slots_of(register)
            self.entry += [f"  {unset} = alloca {self._int(register)}", f"  {origin} = alloca i64"]
        self.unset_followed(self.followed)

    def unset_followed(self, registers) -> None:
        """Nothing is assigned to these registers any more."""
        for register in sorted(self.followed.intersection(registers)):
            unset, origin = self._slots_of(register)
            self.line(f"store {self._int(register)} {0 if register == CARRY else -1}, ptr {unset}")
            self.line(f"store i64 0, ptr {origin}")

    def suspect_at(self, label: str) -> None:
        """Out of line: something unset has been read."""
        self.module.declare("rt_suspect")
        self.slow_paths += [f"{label}:", f"  %suspect.{label} = call i32 @rt_suspect(i64 %env, i64 {self.thread}, i32 0)",
                            f"  br label %{self.dead_label}"]  # fmt: skip

    def follow(self, ins: Instruction):
        """Check what an instruction uses; returns what to do after it."""
        base = ins.base
        addresses = [name for o in ins.sources if o.startswith("[") for name in o.registers]
        if base not in _HINTS:
            self.check_used(ins, addresses, "address")
        if base in ("ld", "ldu"):
            return self._follow_load(ins)
        if base == "st":
            return self._follow_store(ins)
        if base in ("atom", "red", "mbarrier") or ins.opcode.startswith("cp.async.mbarrier"):
            return self._follow_atomic(ins)
        if base == "shfl":
            return self._follow_shuffle(ins)
        if base in ("mma", "wmma"):
            return self.follow_matrix(ins)
        if base in _HINTS or base in ("ldmatrix", "movmatrix", "call"):
            if base == "call":
                self.check_used(ins, [o for o in ins.operands if o.startswith("%")], "address")
            return _nothing
        if base in _COLLECTIVES | {"brx", "cp"} or ins.op.nothing:
            how = "collective" if base in _COLLECTIVES else "branch" if base == "brx" else "operand"
            self.check_used(ins, _inputs(ins), how)
            return lambda: self._set_all(ins)
        return self._flow(ins)

    # -- of a register -----------------------------------------------------------------------------

    def _slots_of(self, register: str) -> tuple[str, str]:
        return f'%"unset {register}"', f'%"from {register}"'

    def _int(self, register: str) -> str:
        return "i1" if register == CARRY else f"i{TYPES[self.register_type(register)][1]}"

    def unset(self, operand: str) -> str:
        """Which bits of an operand are unset, as an integer of its register's width."""
        name = operand.lstrip("!")
        if name not in self.followed:
            return "0"
        return self.emit(f"load {self._int(name)}, ptr {self._slots_of(name)[0]}")

    def _from(self, register: str, ins: Instruction) -> str:
        """The origin of what is unset in a register."""
        origin = self.emit(f"load i64, ptr {self._slots_of(register)[1]}")
        if register not in self.facts.undefined or ins.base == "mov":
            return origin
        if not ins.at.line:
            site = self.site(ins)
        else:
            function = ins.expansion.function if ins.expansion else self.function.name
            site = str(self.module.new_site(ins.at, f"{plain_name(register)} of {function}"))
        own = self.op("shl i64", self.resize(site, "i32", "i64"), ORIGIN_SITE)
        own = self.op("or i64", own, ORIGIN["register"] << ORIGIN_KIND)
        return self.emit(f"select i1 {self.op('icmp eq i64', origin, 0)}, i64 {own}, i64 {origin}")

    def any_unset(self, ins: Instruction, names) -> tuple[str, str]:
        """(i1: something of these registers is unset, its origin)."""
        bad, origin = "false", "0"
        for name in reversed(list(dict.fromkeys(names))):
            if name in self.followed:
                this = self.op(f"icmp ne {self._int(name)}", self.unset(name), 0)
                origin = self.emit(f"select i1 {this}, i64 {self._from(name, ins)}, i64 {origin}")
                bad = self.op("or i1", bad, this)
        return bad, origin

    def set_unset(self, target: str, unset: str, bits: int, origin: str, signed: bool = False) -> None:
        """Of a result: which bits are unset, given as an integer of `bits` bits."""
        target = target.strip()
        if target in self.followed:
            t = self._int(target)
            slots = self._slots_of(target)
            self.line(f"store {t} {self.resize(unset, f'i{bits}', t, signed)}, ptr {slots[0]}")
            self.line(f"store i64 {origin}, ptr {slots[1]}")

    def _set_all(self, ins: Instruction) -> None:
        """All results of an instruction are set."""
        for name in ins.writes & self.followed:
            self.set_unset(name, "0", self._bits(name), "0")

    def check_used(self, ins: Instruction, names, how: str) -> None:
        """A fault where one of these registers is unset; then it counts as set."""
        names = [name for name in dict.fromkeys(names) if name in self.followed]
        if not names:
            return
        bad, origin = self.any_unset(ins, names)
        unset, go_on = self.fresh_label("unset"), self.fresh_label("set")
        self.branch(bad, unset, go_on, unlikely=True)
        self.label(unset)
        self.runtime_call("rt_unset_used", str(USE[how]), origin, site=self.site(ins))
        for name in names:
            self.set_unset(name, "0", self._bits(name), "0")
        self.line(f"br label %{go_on}")
        self.label(go_on)

    # -- of memory -----------------------------------------------------------------------------------

    def _place(self, operand: str, space: str) -> str:
        """The device address that an operand means."""
        address = self.address(operand, space)
        return self.op("add i64", address, self.shared_base) if space == "shared" else address

    def unset_at(self, place: str) -> str:
        return self.emit(f"getelementptr i8, ptr %unset, i64 {place}")

    def loaded_unset(self, ins: Instruction, place: str, nbytes: int, used: int = -1) -> tuple[str, str]:
        """(which bits of memory are unset, their origin). used: a bit for each byte that counts."""
        t, slot = f"i{8 * nbytes}", "%unset.from"
        unset = self.emit(f"load {t}, ptr {self.unset_at(place)}, align 1")
        if used & (1 << nbytes) - 1 != (1 << nbytes) - 1:
            mask = sum(255 << 8 * i for i in range(nbytes) if used >> i & 1)
            unset = self.op(f"and {t}", unset, mask)
        if not any(line.startswith(f"  {slot} =") for line in self.entry):
            self.entry.append(f"  {slot} = alloca i64")
        self.line(f"store i64 0, ptr {slot}")
        slow, on = self.fresh_label("unset"), self.fresh_label("loaded")
        self.branch(self.op(f"icmp ne {t}", unset, 0), slow, on, unlikely=True)
        self.label(slow)
        self.module.declare("rt_unset_loaded")
        origin = self.emit(f"call i64 @rt_unset_loaded(i64 %env, i64 {self.thread}, i32 {self.site(ins)}, i64 {place},"
                           f" i64 {nbytes}, i64 {used & (1 << nbytes) - 1})")  # fmt: skip
        self.line(f"store i64 {origin}, ptr {slot}")
        self.line(f"br label %{on}")
        self.label(on)
        return unset, self.emit(f"load i64, ptr {slot}")

    def store_unset(self, ins: Instruction, place: str, nbytes: int, unset: str, origin: str) -> None:
        """Store a value of which these bits are unset."""
        t = f"i{8 * nbytes}"
        self.line(f"store {t} {unset}, ptr {self.unset_at(place)}, align 1")
        if unset == "0":
            return
        slow, on = self.fresh_label("unset"), self.fresh_label("stored")
        self.branch(self.op(f"icmp ne {t}", unset, 0), slow, on, unlikely=True)
        self.label(slow)
        self.runtime_call("rt_unset_stored", place, str(nbytes), origin, site=self.site(ins))
        self.line(f"br label %{on}")
        self.label(on)

    def _follow_load(self, ins: Instruction):
        space, type_, nbytes, targets = ins.op.space, ins.op.type, ins.op.nbytes, ins.operands[0].parts
        if space == "param" and (found := self._parameter(ins.operands[1])) is not None:
            return lambda: [
                self._load_parameter(found, i * nbytes, nbytes, t, type_) for i, t in enumerate(targets)
            ]
        place = self._place(ins.operands[1], space)

        def after() -> None:
            for i, target in enumerate(targets):
                at = self.op("add i64", place, i * nbytes) if i else place
                unset, origin = self.loaded_unset(ins, at, nbytes, ins.used >> i * nbytes)
                self.set_unset(target, unset, 8 * nbytes, origin, is_signed(type_))

        return after

    def _follow_store(self, ins: Instruction):
        space, nbytes, values = ins.op.space, ins.op.nbytes, []
        for source in ins.operands[1].parts:
            unset, origin = self.unset(source), "0"
            if source in self.followed:
                unset = self.resize(unset, self._int(source), f"i{8 * nbytes}")
                origin = self._from(source, ins)
            values.append((unset, origin))
        if space == "param" and (found := self._parameter(ins.operands[0])) is not None:
            return lambda: [
                self._store_parameter(found, i * nbytes, nbytes, *v) for i, v in enumerate(values)
            ]
        place = self._place(ins.operands[0], space)

        def after() -> None:
            for i, value in enumerate(values):
                self.store_unset(ins, self.op("add i64", place, i * nbytes) if i else place, nbytes, *value)

        return after

    def _follow_atomic(self, ins: Instruction):
        """atom, red, mbarrier: their operands, and the memory that they change, must be set."""
        values = [name for o in ins.sources if not o.startswith("[") for name in o.registers]
        self.check_used(ins, values, "atomic")
        if ins.op.address is None:  # mbarrier.pending_count
            return lambda: self._set_all(ins)
        nbytes, place = ins.op.nbytes, self._place(ins.address, ins.op.space)

        def after() -> None:
            unset, origin = self.loaded_unset(ins, place, nbytes)
            self.line(f"store i{8 * nbytes} 0, ptr {self.unset_at(place)}, align 1")
            if ins.op.operation == "exch":
                return self.set_unset(ins.operands[0], unset, 8 * nbytes, origin)
            if ins.op.operation != "init":
                bad, on = self.fresh_label("unset"), self.fresh_label("set")
                self.branch(self.op(f"icmp ne i{8 * nbytes}", unset, 0), bad, on, unlikely=True)
                self.label(bad)
                self.runtime_call("rt_unset_used", str(USE["read"]), origin, site=self.site(ins))
                self.line(f"br label %{on}")
                self.label(on)
            self._set_all(ins)

        return after

    def _follow_shuffle(self, ins: Instruction):
        """A lane's value is followed to the lane that gets it; the choice of lane must be set."""
        self.check_used(ins, [n for o in ins.operands[2:] for n in o.registers], "collective")
        value = ins.operands[1]
        unset = self.resize(self.unset(value), "i32", "i64") if value in self.followed else "0"
        self.store_field("Extra", "unset", unset)
        self.store_field("Extra", "from", self._from(value, ins) if value in self.followed else "0")

        def after() -> None:
            self._set_all(ins)
            given = self.load_field("Extra", "given_unset")
            self.set_unset(ins.operands[0].parts[0], self.cast("trunc", "i64", given, "i32"), 32,
                           self.load_field("Extra", "given_from"))  # fmt: skip

        return after

    # -- of parameters ---------------------------------------------------------------------------------

    def follow_parameter(self, pointer: str, size: int) -> None:
        """Make room for the unset bits of a parameter. pointer: the LLVM name of its memory."""
        if self.module.tracking and not self.module.raw:
            self.serial += 1
            unset, origins = f"%unset.param.{self.serial}", f"%from.param.{self.serial}"
            self.parameters[pointer] = unset, origins, size
            for name, nbytes in ((unset, size), (origins, 8 * -(-size // 4))):
                self.entry += [f"  {name} = alloca [{max(nbytes, 1)} x i8], align 8",
                               f"  call void @llvm.memset.p0.i64(ptr {name}, i8 0, i64 {nbytes}, i1 false)"]  # fmt: skip
            self.module.declare("llvm.memset.p0.i64", "void", "ptr to, i8 value, i64 bytes, i1 volatile")

    def _parameter(self, address: Address) -> tuple[str, int] | None:
        """(LLVM name, offset) of a parameter; None for an address in a register."""
        pointer, start = self.params.get(address.base, (None, 0))
        return None if pointer is None else (pointer, start + address.offset)

    def _load_parameter(
        self, found: tuple[str, int], more: int, nbytes: int, target: str, type_: str
    ) -> None:
        unset = origin = "0"
        if found[0] in self.parameters:
            unset, origin = (self.emit(f"load {t}, ptr {where}, align 1")
                             for t, where in zip((f"i{8 * nbytes}", "i64"), self._of_parameter(found, more)))  # fmt: skip
        self.set_unset(target, unset, 8 * nbytes, origin, is_signed(type_))

    def _store_parameter(
        self, found: tuple[str, int], more: int, nbytes: int, unset: str, origin: str
    ) -> None:
        if found[0] in self.parameters:
            where, from_ = self._of_parameter(found, more)
            self.line(f"store i{8 * nbytes} {unset}, ptr {where}, align 1")
            self.line(f"store i64 {origin}, ptr {from_}, align 8")

    def _of_parameter(self, found: tuple[str, int], more: int) -> list[str]:
        unset, origins, _ = self.parameters[found[0]]
        at = found[1] + more
        return [
            self.emit(f"getelementptr i8, ptr {p}, i64 {o}") for p, o in ((unset, at), (origins, at // 4 * 8))
        ]

    def hand_over(self, places, formals, back: bool = False) -> None:
        """Copy the unset bits of parameters to where the called function finds them; back: from there.

        places: their LLVM names, None for a value that has none.
        """
        at = 0
        for place, formal in zip(places, formals, strict=False):
            mine, size = self.parameters.get(place), formal.size
            for kind, start, nbytes in (("unset", at, size), ("from", 2 * at, 8 * -(-size // 4))):
                there = f"getelementptr (i8, ptr @given.{kind}, i64 {start})"
                here = mine[kind == "from"] if mine else None
                if here:
                    to, from_ = (here, there) if back else (there, here)
                    self.module.declare(
                        "llvm.memcpy.p0.p0.i64", "void", "ptr to, ptr from, i64 bytes, i1 volatile"
                    )
                    self.line(
                        f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {from_}, i64 {nbytes}, i1 false)"
                    )
                elif not back:
                    self.module.declare(
                        "llvm.memset.p0.i64", "void", "ptr to, i8 value, i64 bytes, i1 volatile"
                    )
                    self.line(f"call void @llvm.memset.p0.i64(ptr {there}, i8 0, i64 {nbytes}, i1 false)")
            at += -(-size // 8) * 8

    # -- of what is computed ---------------------------------------------------------------------------

    def _flow(self, ins: Instruction):
        """An instruction that only computes."""
        targets = [t for t in ins.writes if t in self.followed]
        carry = ins.op.leaves_carry
        inputs = [name for name in _inputs(ins) if name in self.followed]
        if not inputs:
            return lambda: [
                self.set_unset(t, "0", self._bits(t), "0") for t in (*targets, *([CARRY] if carry else ()))
            ]
        if not targets and not carry:
            return _nothing
        bad, origin = self.any_unset(ins, inputs)
        found = self._bitwise(ins) or {}
        for name in (*targets, *([CARRY] if carry else ())):
            if name not in found:
                found[name] = self.emit(f"select i1 {bad}, {self._int(name)} -1, {self._int(name)} 0")
        return lambda: [
            self.set_unset(name, unset, self._bits(name), origin) for name, unset in found.items()
        ]

    def _bits(self, register: str) -> int:
        return int(self._int(register)[1:])

    def _bitwise(self, ins: Instruction) -> dict[str, str] | None:
        """Result -> its unset bits, for an instruction of which they are known bit by bit."""
        base, mods = ins.base, ins.opcode.split(".")[1:]
        if base == "cvt":
            if "sat" in mods or not all(t[0] in "us" and t in TYPES for t in mods[-2:]):
                return self._two_halves(ins) if mods[-2] in PACKED else None
        if base in _MOVES:
            return self._moved(ins, _MOVES[base])
        if base in ("and", "or", "xor", "not") and "." not in ins.opcode.split(".", 1)[1]:
            return {ins.operands[0]: self._logic(ins)}
        if base == "selp":
            return {ins.operands[0]: self._selected(ins)}
        if mods[-1] in PACKED and all(self._width(o) == 32 for o in ins.operands):
            return {ins.operands[0]: self._by_halves(ins)}
        return None

    def _width(self, operand: str) -> int:
        type_ = self.register_type(operand)
        return TYPES[type_][1] if type_ else 0

    def _moved(self, ins: Instruction, data: tuple[int, ...]) -> dict[str, str]:
        """The instruction itself, applied to which bits are unset. data: the operands that it moves."""
        made = {}

        def replaced(given: Operand, is_result: bool) -> Operand:
            parts = []
            for part in given.parts:
                type_ = self.register_type(part)
                if type_ is None:
                    parts.append(part if is_result else "0")
                    continue
                parts.append(part + "'")
                self.regs[part + "'"] = type_
                if is_result:
                    made[part] = part + "'"
                else:
                    self.known[part + "'"] = self.convert(self.unset(part), self._int(part), llvm_type(type_))
            return operand("{" + ", ".join(parts) + "}" if isinstance(given, Vector) else parts[0])

        operands = list(ins.operands)
        for i in data:
            operands[i] = replaced(operands[i], False)
        operands[0] = replaced(operands[0], True)
        moved = replace(ins, operands=tuple(operands))
        if ins.base == "mov":
            self._mov(moved)
        else:
            opcodes.emit(self, moved)
        where = [name for i, o in enumerate(ins.operands) if i and i not in data for name in o.registers]
        lost, _ = self.any_unset(ins, where)
        found = {}
        for name, other in made.items():
            t = self._int(name)
            unset = self.convert(self.known[other], llvm_type(self.register_type(name)), t)
            found[name] = self.emit(f"select i1 {lost}, {t} -1, {t} {unset}") if lost != "false" else unset
        return found

    def _logic(self, ins: Instruction) -> str:
        """`and` with a 0 bit, and `or` with a 1 bit, are set whatever the other bit is."""
        t = self._int(ins.operands[0])
        shadows = [self.unset(o) for o in ins.operands[1:]]
        if ins.base == "not":
            return shadows[0]
        both = self.op(f"or {t}", *shadows)
        if ins.base == "xor":
            return both
        kind = "pred" if t == "i1" else f"b{t[1:]}"
        passes = []
        for source, unset in zip(ins.operands[1:], shadows, strict=True):
            value = self.value(source, kind)
            if ins.base == "or":
                value = self.op(f"xor {t}", value, -1)
            passes.append(self.op(f"or {t}", value, unset))
        return self.op(f"and {t}", both, self.op(f"and {t}", *passes))

    def _selected(self, ins: Instruction) -> str:
        """If the condition is unset, so are the bits in which the two values differ."""
        t = self._int(ins.operands[0])
        a, b = (self.unset(o) for o in ins.operands[1:3])
        condition = ins.operands[3]
        one = self.emit(f"select i1 {self.value(condition, 'pred')}, {t} {a}, {t} {b}")
        if condition.lstrip("!") not in self.followed:
            return one
        values = [self.value(o, f"b{t[1:]}") for o in ins.operands[1:3]]
        either = self.op(f"or {t}", self.op(f"or {t}", a, b), self.op(f"xor {t}", *values))
        return self.emit(f"select i1 {self.unset(condition)}, {t} {either}, {t} {one}")

    def _by_halves(self, ins: Instruction) -> str:
        """Packed halves: each separately."""
        unset = "0"
        for source in ins.operands[1:]:
            unset = self.op("or i32", unset, self.unset(source))
        return self._halves(
            self.op("icmp ne i32", self.op("and i32", unset, 0xFFFF), 0),
            self.op("icmp ugt i32", unset, 0xFFFF),
        )

    def _two_halves(self, ins: Instruction) -> dict[str, str]:
        """cvt of two values to packed halves, the upper one first."""
        high, low = (self.any_unset(ins, o.registers)[0] for o in ins.operands[1:3])
        return {ins.operands[0]: self._halves(low, high)}

    def _halves(self, low: str, high: str) -> str:
        low = self.emit(f"select i1 {low}, i32 {0xFFFF}, i32 0")
        return self.op("or i32", low, self.emit(f"select i1 {high}, i32 {0xFFFF << 16}, i32 0"))


def _nothing() -> None:
    """After an instruction whose results are not followed."""
