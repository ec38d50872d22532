"""Which registers a function may read before anything is assigned to them.

In unoptimised PTX a variable without an initialiser is a register that some path never writes. Copies (`mov`) are
not uses: the compiler moves variables about where paths join, whether or not they are used later. So copies
hand the state on, and only another instruction that reads the register is a fault.
"""

from __future__ import annotations

import re

from .flow import basic_blocks
from .guesses import guesses
from .ptx import Function, Instruction, Label

_REGISTER = re.compile(r"%[\w$.]+")
READS_ALL = {"st", "red", "bra", "brx", "ret", "exit", "bar", "barrier", "membar", "fence", "call", "prefetch", "trap"}


def _reads_all(ins: Instruction) -> bool:
    """No operand is a result; `bar.red` has one, other barriers do not."""
    return ins.base in READS_ALL and not ins.opcode.startswith(("bar.red", "barrier.red", "barrier.cta.red", "bar.cta.red"))


def reads(ins: Instruction) -> set[str]:
    """Registers an instruction reads, its guard included."""
    operands = ins.operands if _reads_all(ins) else ins.operands[1:]
    found = set(_REGISTER.findall(" ".join(operands)))
    if ins.pred:
        found.add(ins.pred)
    return found


def writes(ins: Instruction) -> set[str]:
    if _reads_all(ins) or not ins.operands:
        return set()
    return set(_REGISTER.findall(ins.operands[0]))


def maybe_undefined(body, registers) -> set[str]:
    """Registers that a path can read before they are assigned, and those that get copies of them."""
    number = {name: 1 << i for i, name in enumerate(registers)}
    blocks, uses = basic_blocks(body), [_uses(item, number) for item in body]
    assigned = {start: None for start in blocks}  # None: not reached
    assigned[0] = 0
    work = [0]
    while work:  # forward: what is assigned on every path
        start = work.pop()
        state, _ = _through(uses[start : blocks[start][0]], assigned[start])
        for target in blocks[start][1]:
            merged = state if assigned[target] is None else assigned[target] & state
            if merged != assigned[target]:
                assigned[target] = merged
                work.append(target)
    found = 0
    for start, (end, _) in blocks.items():
        if assigned[start] is not None:
            found |= _through(uses[start:end], assigned[start])[1]
    return _with_copies(body, {name for name, bit in number.items() if found & bit}, number)


def local_copies(body, names=()) -> set[int]:
    """Positions of loads from local memory whose values only go to local memory or into a call.

    names: of the local variables. The compiler copies a struct with its padding, which nothing ever writes: that is no use of it.
    """
    local = {"%SP", "%SPL", *names}
    loads: dict[str, list[int]] = {}
    used: set[str] = set()
    for position, ins in enumerate(body):
        if isinstance(ins, Label):
            continue
        if ins.base in ("add", "cvta", "mov") and len(ins.operands) > 1 and ins.operands[1].split("+")[0] in local:
            local.add(ins.operands[0])
        if ins.base == "ld" and not ins.pred and _base(ins.operands[1]) in local:
            for name in writes(ins):
                loads.setdefault(name, []).append(position)
        elif ins.base == "st" and (".param" in ins.opcode or _base(ins.operands[0]) in local):
            used |= set(_REGISTER.findall(ins.operands[0]))
        else:
            used |= reads(ins)
    return {p for name, positions in loads.items() if name not in used for p in positions}


def _base(address: str) -> str:
    match = _REGISTER.search(address)
    return match[0] if match else address.strip("[] ").split("+")[0]


def _with_copies(body, found: set[str], number) -> set[str]:
    copies = [(reads(i) & number.keys(), writes(i)) for i in body if isinstance(i, Instruction) and i.base == "mov"]
    changed = bool(found)
    while changed:
        changed = False
        for sources, targets in copies:
            if sources & found and not targets <= found:
                found |= targets
                changed = True
    return found


def _uses(item, number) -> tuple[int, int]:
    """(registers that an item of a body reads, those it assigns in any case), as bits."""
    if isinstance(item, Label):
        return 0, 0
    read = sum({number.get(name, 0) for name in reads(item)})
    return read, 0 if item.pred else sum({number.get(name, 0) for name in writes(item)})


def _through(uses, state: int) -> tuple[int, int]:
    """(assigned at the end, read while perhaps unassigned) of a block whose items have these `_uses`."""
    found = 0
    for read, assigned in uses:
        found |= read & ~state
        state |= assigned
    return state, found


class RegisterCheck:
    """Mixin of `function.Lowering`: a flag for each register that may be read before it is assigned."""

    def _flag(self, register: str) -> str:
        return f'%"defined {self.prefix}{register}"'

    def _declare_flags(self, function: Function) -> None:
        self.undefined, self.copies, self.guesses = set(), set(), set()
        if self.module.checks == "full" and not self.module.raw:
            self.undefined = maybe_undefined(function.body, function.regs)
            self.copies = local_copies(function.body, [v.name for v in function.variables.values() if v.space == "local"])
            self.guesses = guesses(function.body)
        for register in sorted(self.undefined):
            self.entry += [f"  {self._flag(register)} = alloca i1", f"  store i1 false, ptr {self._flag(register)}"]

    def _defined(self, registers) -> str:
        """i1: all of these registers have a value."""
        value = "true"
        for register in sorted(registers):
            value = self.op("and i1", value, self.emit(f"load i1, ptr {self._flag(register)}"))
        return value

    def _check_registers(self, ins: Instruction) -> None:
        used = reads(ins) & self.undefined
        if ins.base == "mov":
            used &= {ins.pred}
        if ins.at.trusted or ins.opcode == "st.param.b8":
            return  # an empty struct is passed as a byte that nobody sets
        if used:
            report, go_on = self.fresh_label("undefined"), self.fresh_label("defined")
            self.branch(self._defined(used), go_on, report)
            self.label(report)
            self.runtime_call("rt_uninitialised", site=self.site(ins))
            self.line(f"br label %{go_on}")
            self.label(go_on)

    def _assign_registers(self, ins: Instruction) -> None:
        targets = writes(ins) & self.undefined
        if not targets:
            return
        value = self._defined(reads(ins) & self.undefined - {ins.pred}) if ins.base == "mov" else "true"
        if ins.pred:
            guard = self.value(("!" if ins.negated else "") + ins.pred, "pred")
        for register in sorted(targets):
            new = value
            if ins.pred:
                before = self.emit(f"load i1, ptr {self._flag(register)}")
                new = self.emit(f"select i1 {guard}, i1 {value}, i1 {before}")
            self.line(f"store i1 {new}, ptr {self._flag(register)}")
