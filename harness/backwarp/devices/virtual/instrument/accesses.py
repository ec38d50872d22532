"""All checks of an access: bounds, then whether what is read has been written, then races.

                                          apart tile;
    st.shared.f32 [%rd1], %f1;            check.access.shared tile, 1284, 0, [%rd1], %f1;
                                    ->    st.shared.f32 [%rd1], %f1;
    ld.global.f32 %f2, [%rd2+4];          check.access.set.global _, 4, 0, [%rd2+4], _;
                                          ld.global.f32 %f2, [%rd2+4];

A check names the array that the address was computed from, if known: the access must stay in it. The numbers
describe the access (abi.INFO_...) and which of its bytes do not count; the last operand is what a store
writes, or what a compare-and-swap (`.cas`) compares with, for racecheck. `.set`: what is read must have been
written.

`apart` names arrays that are only touched by accesses checked against them. Local arrays whose address never
escapes the function are kept in LLVM values, with a record of what has been written for each so many bits:

    hold.b32 depot;
    check.held.local depot, 4, -1, [%rd3];
    ld.local.f32 %f3, [%rd3];
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.facts import Facts
from ..analyse.pointers import root_of
from ..compile.recipes import Check
from ..ptx.ir import Function, Instruction, Variable
from ..runtime.abi import INFO_ATOMIC, INFO_BLIND, INFO_FINAL, INFO_WRITE
from .bounds import info, is_checked, of_rows, order
from .insert import mark


def run(function: Function, facts: Facts, checks: frozenset[Check]) -> None:
    """In place. The last pass: nothing may come between an access and its check."""
    _Accesses(function, facts, Check.INITIALISED in checks).run()


def described(ins: Instruction, function: Function, facts: Facts) -> int:
    """The description of an access for the runtime, with what is known of its surroundings."""
    what = info(ins)
    if ins in facts.guesses and not ins.op.ordering:
        what |= order(ins.op)
    if function.entry and (ins in facts.final or ins.original in facts.final):
        what |= INFO_FINAL
    return what | INFO_BLIND * (bool(what & INFO_ATOMIC) and ins in facts.unused)


class _Accesses:
    def __init__(self, function: Function, facts: Facts, initialised: bool):
        self.function, self.facts, self.initialised = function, facts, initialised
        self.expanded: set[str] = set()  # variables of inlined functions

    def run(self) -> None:
        body = []
        for ins in self.function.body:
            if not isinstance(ins, Instruction):
                body.append(ins)
            elif ins.base == "enter":
                self.expanded.update(ins.expansion.variables)
                body += [ins, *self._hold(ins, ins.expansion.variables)]
            elif is_checked(ins):
                body += self._checked(ins)
            else:
                body.append(ins)
        self.function.body = [*self._start(), *body]

    def _start(self) -> list[Instruction]:
        first = next((i for i in self.function.body if isinstance(i, Instruction)), None)
        if first is None:
            return []
        own = [name for name in self.function.variables if name not in self.expanded]
        # the arrays of functions, inlined or not, reuse the same memory
        apart = [name for name in self.facts.arrays if name not in self.expanded]
        if not self.function.entry or not apart:
            return self._hold(first, own)
        return [*self._hold(first, own), mark("apart", *apart, at=first)]

    def _hold(self, at: Instruction, variables) -> list[Instruction]:
        held = self.facts.held
        return [mark(f"hold.b{8 * held[name]}", name, at=at) for name in variables if name in held]

    def _root(self, ins: Instruction) -> Variable | None:
        """The array that an access is meant for, if known."""
        root = root_of(ins.address, self.facts.roots, self.facts.arrays)
        # the address of another array may be mistaken for one in the shared window
        return None if root and ins.op.space == "shared" != root.space else root

    def _checked(self, ins: Instruction) -> list[Instruction]:
        root = None if ins.op.collective else self._root(ins)
        if root is None:
            return [*of_rows(self.function, ins, self._check(ins, "_")), ins]
        access = replace(ins, array=root.name, original=ins.original or ins)
        if root.name in self.facts.held:
            check = mark(f"check.held.{ins.op.space}", root.name, info(ins), ins.used, ins.address, at=ins)
            return [check, access]
        return [self._check(ins, root.name), access]

    def _check(self, ins: Instruction, array: str) -> Instruction:
        op, what, keeps = ins.op, described(ins, self.function, self.facts), ins in self.facts.sets_bits
        writes, atomic = what & INFO_WRITE, what & INFO_ATOMIC
        reads = not keeps and (atomic or not writes)
        unread = 0 if writes else -1 if keeps else ~ins.used & (1 << op.width) - 1
        value = "_"
        if op.operation == "cas":
            value = ins.named["b"]
        elif op.memory == "store" and op.vector == 1:
            value = ins.operands[1]
        opcode = ".".join(
            ["check.access"]
            + ["set"] * (reads and self.initialised)
            + ["cas", op.type] * (op.operation == "cas")
            + [op.space]
        )
        return mark(opcode, array, what, unread, ins.address, value, at=ins)
