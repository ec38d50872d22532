"""Memory instructions: address -> checked host pointer -> load, store, atomic. Also cvta and isspacep.

The check of an n-byte access at device address A: rotate A right by log2(n), so that a misaligned address
becomes a huge index and one comparison against the arena's size finds both; then one load of the shadow
of those n bytes. A correct program never takes either branch; the slow path decides exactly.

Source: PTX ISA, section 9.7.9 (data movement) and 9.7.13.8 (atom, red).
"""

from __future__ import annotations

from ..analyse.access_groups import GAP, SHARED_GAP
from ..analyse.pointers import root_of
from ..compile.recipes import Check
from ..ptx.ir import Address, Immediate, Symbol, Variable, operand
from ..ptx.op import Op
from ..ptx.types import BITS, is_float, is_signed, llvm_type
from ..runtime.abi import (
    INFO_ACQUIRE,
    INFO_ATOMIC,
    INFO_RELEASE,
    INFO_SHARED,
    INFO_VOLATILE,
    INFO_WRITE,
    PARAM_BYTES,
    READ,
    SCOPE_SHIFT,
    SCOPES,
    SHARED_WINDOW,
    WRITE,
)

#: what an atomic does -> LLVM's name for it, where that is another
_RMW = {"exch": "xchg", "inc": "uinc_wrap", "dec": "udec_wrap"}


class Access:
    """Mixin of `function.Lowering`: what touches memory."""

    def memory(self, ins) -> None:
        """Lower a load, a store or an atomic."""
        {"load": self._load, "store": self._store}.get(ins.op.memory, self._atomic)(ins)

    # -- addresses ------------------------------------------------------------------------------

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
            address = self.cast("sext", "i32", self.value(base, "u32"), "i64")
        else:
            address = self.value(base, "u64")
        return self.op("add i64", address, offset) if offset else address

    def pointer(
        self, ins, operand: Address, space: str, nbytes: int, write: bool, flags: int = 0, value=None
    ) -> str:
        """The checked host pointer of an access of `nbytes` (1, 2, 4, 8 or 16).

        flags: INFO_ATOMIC, INFO_VOLATILE. value: what a store writes, as i64, if known.
        """
        address = self.address(operand, space)
        return self.checked(ins, address, space, nbytes, write, flags, value, self.root(operand))

    def root(self, operand: Address) -> Variable | None:
        """The array that an address operand is meant for, if known."""
        return root_of(operand, self.roots, self.rooted) if self.rooted else None

    def checked(
        self, ins, address: str, space: str, nbytes: int, write: bool, flags: int = 0, value=None, root=None
    ) -> str:
        """Like `pointer`, for an i64 address already computed. root: see `pointers`."""
        if self.module.raw:
            return self.cast("inttoptr", "i64", address, "ptr")
        shared = space == "shared"
        if (
            root and shared and root.space != "shared"
        ):  # the address of another array, taken for one of the window
            root = None
        base = self.shared_memory if shared else self.arena
        if self.module.recipe.checks:
            need = (READ if flags & INFO_ATOMIC or not write else 0) | (WRITE if write else 0)
            info = nbytes | write * INFO_WRITE | shared * INFO_SHARED | flags
            if root and root.name in self.private:
                return self.check_private(ins, address, nbytes, info, root)
            if Check.BOUNDS in self.module.recipe:
                self.check_fully(ins, address, nbytes, need, info, value, root)
            elif (group := self.facts.groups.get(ins)) is None:
                self._check(ins, address, nbytes, need, info, shared)
            elif (id(group), self.member) not in self.checked_groups:
                self.checked_groups.add((id(group), self.member))
                self._check_group(group, need, info)
        return self.emit(f"getelementptr i8, ptr {base}, i64 {address}")

    def _check(self, ins, address: str, nbytes: int, need: int, info: int, shared: bool) -> None:
        """One access: in range and aligned, and its granules in a state that allows it."""
        slow, good = self.fresh_label("slow"), self.fresh_label("good")
        index = self.granule(address, nbytes, nbytes, shared, slow)
        self.check_shadow(index, max(1, nbytes // 4), need, shared, slow)
        self._slow_path(slow, good, [(address, 0, self.site(ins))], info)

    def _check_group(self, group, need: int, info: int) -> None:
        """All accesses of a group at once; the slow path checks each of them."""
        shared = group.space == "shared"
        first, span, nbytes = group.first, group.span, group.nbytes
        base = self.address(operand(f"[{group.base}]"), group.space)
        start = self.op("add i64", base, first) if first else base
        slow, good = self.fresh_label("slow"), self.fresh_label("good")
        index = self.granule(start, nbytes, span, shared, slow)
        for at, width in _windows(span // 4, (SHARED_GAP if shared else GAP) // 4):
            self.check_shadow(self.op("add i64", index, at) if at else index, width, need, shared, slow)
        each = [(base, offset, self.site(ins)) for _, ins, offset in group.members]
        self._slow_path(slow, good, each, info)

    def granule(self, address: str, nbytes: int, span: int, shared: bool, slow: str) -> str:
        """Index of the first granule; goes to `slow` when [address, address + span) is misaligned or outside."""
        shift = nbytes.bit_length() - 1
        limit = ((SHARED_WINDOW if shared else self.module.arena_size) - span >> shift) + 1
        index = address
        if shift:
            index = self.emit(f"call i64 @llvm.fshr.i64(i64 {address}, i64 {address}, i64 {shift})")
        inside = self.fresh_label("inside")
        self.branch(self.op("icmp uge i64", index, limit), slow, inside, unlikely=True)
        self.label(inside)
        if nbytes < 4:
            return self.op("lshr i64", index, 2 - shift)
        return self.op("shl i64", index, shift - 2) if nbytes > 4 else index

    def check_shadow(
        self, index: str, granules: int, need: int, shared: bool, slow: str, tag: str = ""
    ) -> str:
        """Go to `slow` unless all granules have all bits of `need`. In full mode the shadow changes as the kernel runs.

        Returns the shadow bytes, as an integer.
        """
        fixed = tag if Check.INITIALISED in self.module.recipe else ", !invariant.load !1"
        t = f"i{8 * granules}"
        where = self.emit(
            f"getelementptr i8, ptr {self.shared_shadow if shared else self.shadow}, i64 {index}"
        )
        state = self.emit(f"load {t}, ptr {where}, align 1{fixed}")
        wanted = int.from_bytes(bytes([need]) * granules, "little")
        bits = self.op(f"and {t}", state, wanted)
        valid = self.fresh_label("valid")
        self.branch(self.op(f"icmp ne {t}", bits, wanted), slow, valid, unlikely=True)
        self.label(valid)
        return state

    def _slow_path(self, slow: str, good: str, accesses, info: int) -> None:
        self.line(f"br label %{good}")
        self.slow_check(slow, good, accesses, info)
        self.label(good)

    def slow_check(self, slow: str, good: str, accesses, info: int, unread: int = 0) -> None:
        """Out of line, at the end of the function: the runtime decides exactly, one access after the other.

        unread: a bit for each byte that does not count.
        """
        self.module.declare("rt_check")
        label = slow
        for i, (base, offset, site) in enumerate(accesses):
            next_ = good if i == len(accesses) - 1 else f"{slow}.{i}"
            self.slow_paths += [
                f"{label}:",
                f"  %at.{label} = add i64 {base}, {offset}",
                f"  %ok.{label} = call i32 @rt_check(i64 %env, i64 {self.thread}, i64 %at.{label}, i32 {site}, i32 {info}, i64 {unread})",
                f"  %good.{label} = icmp ne i32 %ok.{label}, 0",
                f"  br i1 %good.{label}, label %{next_}, label %{self.dead_label}",
            ]
            label = next_

    # -- ld, st -----------------------------------------------------------------------------------

    def _load(self, ins) -> None:
        op, operand, nbytes = ins.op, ins.address, ins.op.nbytes
        if op.space == "param" and (pointer := self.parameter_pointer(operand)):
            align = 1
        else:
            flags = _order_flags(op) if op.ordering or self.races and ins in self.facts.guesses else 0
            pointer, align = (
                self.pointer(ins, operand, op.space, nbytes * op.vector, False, flags),
                nbytes * op.vector,
            )
        how = f"load {'volatile ' * bool(op.ordering)}{llvm_type(op.type)}"
        tag = "" if op.ordering else self.data_tag(self.root(operand))
        for i, target in enumerate(ins.operands[0].parts):
            where = pointer
            if i:
                where = self.emit(f"getelementptr i8, ptr {pointer}, i64 {i * nbytes}")
                align = nbytes if align > 1 else 1
            self.set(target, self.emit(f"{how}, ptr {where}, align {align}{tag}"), op.type)
        if op.ordering:
            self.line("fence acquire")

    def _store(self, ins) -> None:
        op, operand, nbytes = ins.op, ins.address, ins.op.nbytes
        if op.space == "param" and (pointer := self.parameter_pointer(operand)):
            align = 1
        else:
            flags, value, align = (
                _order_flags(op) if op.ordering else 0,
                self._stored_bits(ins),
                nbytes * op.vector,
            )
            pointer = self.pointer(ins, operand, op.space, align, True, flags, value)
        if op.ordering:
            self.line("fence release")
        how = f"store {'volatile ' * bool(op.ordering)}{llvm_type(op.type)}"
        tag = "" if op.ordering else self.data_tag(self.root(operand))
        for i, source in enumerate(ins.operands[1].parts):
            where = pointer
            if i:
                where = self.emit(f"getelementptr i8, ptr {pointer}, i64 {i * nbytes}")
                align = nbytes if align > 1 else 1
            self.line(f"{how} {self.value(source, op.type)}, ptr {where}, align {align}{tag}")

    def _stored_bits(self, ins) -> str | None:
        """What a store writes, as i64, if racecheck needs to know whether two threads write the same
        value."""
        if Check.RACES not in self.module.recipe or ins.op.vector > 1:
            return None
        bits = 8 * ins.op.nbytes
        return self.resize(self.value(ins.operands[1], f"b{bits}"), f"i{bits}", "i64")

    # -- atom, red ------------------------------------------------------------------------------

    def _atomic(self, ins) -> None:
        op, t = ins.op, llvm_type(ins.op.type)
        value = self.value(ins.named["b"], op.type)
        compares = op.operation == "cas"
        self.compared = (t, value) if compares else None
        pointer = self.pointer(ins, ins.address, op.space, op.nbytes, True, INFO_ATOMIC | _order_flags(op))
        self.compared = None
        if compares:
            new = self.value(ins.named["c"], op.type)
            pair = self.emit(f"cmpxchg ptr {pointer}, {t} {value}, {t} {new} seq_cst seq_cst")
            old = self.emit(f"extractvalue {{ {t}, i1 }} {pair}, 0")
        elif op.type == "f16x2":
            old = self._atomic_add_half2(pointer, value)
        else:
            name = _RMW.get(op.operation, op.operation)
            if name in ("min", "max") and not is_signed(op.type):
                name = f"u{name}"
            name = "f" * is_float(op.type) + name
            old = self.emit(f"atomicrmw {name} ptr {pointer}, {t} {value} seq_cst")
        if op.has_result:
            self.set(ins.operands[0], old, op.type)

    def _atomic_add_half2(self, pointer: str, value: str) -> str:
        """Two halves in one word: a compare-and-swap loop."""
        start, loop, done = (self.fresh_label(h) for h in ("first", "retry", "done"))
        self.line(f"br label %{start}")
        self.label(start)
        first = self.emit(f"load i32, ptr {pointer}, align 4")
        self.line(f"br label %{loop}")
        self.label(loop)
        old, seen = self.fresh("old"), self.fresh("seen")
        self.line(f"{old} = phi i32 [ {first}, %{start} ], [ {seen}, %{loop} ]")
        both = self.cast("bitcast", "i32", old, "<2 x half>")
        new = self.cast("bitcast", "<2 x half>", self.op("fadd <2 x half>", both, value), "i32")
        pair = self.emit(f"cmpxchg ptr {pointer}, i32 {old}, i32 {new} seq_cst seq_cst")
        self.line(f"{seen} = extractvalue {{ i32, i1 }} {pair}, 0")
        self.branch(self.emit(f"extractvalue {{ i32, i1 }} {pair}, 1"), done, loop)
        self.label(done)
        return self.cast("bitcast", "i32", old, "<2 x half>")

    # -- generic addressing -------------------------------------------------------------------------

    def _cvta(self, ins) -> None:
        """Only the shared window is separate; every other space uses the arena's own addresses."""
        type_, shared, operand = ins.op.type, ins.op.space == "shared", ins.operands[1]
        if isinstance(operand, Symbol):
            value = self.symbol(operand.name, shared, operand.offset)
        else:
            value = self.value(operand, type_)
        if shared and not self.module.raw:
            value = self.resize(value, llvm_type(type_), "i64")
            value = self.op("sub i64" if "to" in ins.op.mods else "add i64", value, self.shared_base)
            value = self.resize(value, "i64", llvm_type(type_))
        self.set(ins.operands[0], value, type_)

    def _isspacep(self, ins) -> None:
        address = self.value(ins.operands[1], "u64")
        worker = self.op("sub i64", address, self.shared_base)
        in_shared = self.op("icmp ult i64", worker, SHARED_WINDOW)
        in_slots = self.op("sub i64", address, self.module.slots_start)
        # which is as long as what comes before it
        local = self.op("icmp ult i64", in_slots, self.module.slots_start)
        outside = self.op("xor i1", in_shared, "true")
        params = self.load_field("Env", "params", invariant=True)
        first, nbytes = self.module.constants
        constant = self.op("sub i64", address, self.op("add i64", "%globals", first))
        in_const = self.op("icmp ult i64", constant, nbytes)
        result = {
            "shared": in_shared,
            "local": self.op("and i1", local, outside),
            "const": in_const,
            "param": self.op("icmp ult i64", self.op("sub i64", address, params), PARAM_BYTES),
            "global": self.op("xor i1", self.op("or i1", local, in_const), "true"),
        }[ins.op.space]
        self.set(ins.operands[0], result, "pred")


def _order_flags(op: Op) -> int:
    """How an access that is not a plain one orders others, and its scope."""
    flags = INFO_VOLATILE | SCOPES.index(op.scope) << SCOPE_SHIFT
    return flags | INFO_ACQUIRE * op.acquires | INFO_RELEASE * op.releases


def _windows(granules: int, gap: int) -> list[tuple[int, int]]:
    """(first granule, how many) of the shadow words that prove `granules` in a row valid.

    A short run is covered whole, by words that may overlap; in a long one two words are never a red zone apart.
    """
    if granules <= 16:
        width = next(w for w in (8, 4, 2, 1) if w <= granules)
        return [(at, width) for at in range(0, granules - width, width)] + [(granules - width, width)]
    return [(at, 1) for at in range(0, granules - 1, gap)] + [(granules - 1, 1)]
