"""What PTX functions call and where they loop: structural queries shared by several modules."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from .ir import Function, Instruction, Label, Location, Module, Symbol


def align_up(n: int, alignment: int) -> int:
    return -(-n // alignment) * alignment


def symbol_name(name: str, raw: bool) -> str:
    """A suffix that no C++ name has, to separate a student's functions from the runtime's and the
    system's."""
    return f'@"{name}"' if raw else f'@"{name}.function"'


def defined(module: Module):
    return (f for f in module.functions.values() if f.body is not None)


def pointed_functions(module: Module) -> list[Function]:
    """Functions whose address is taken: named in an operand that is not a call's, or in an initialiser."""
    moves = (i for f in defined(module) for i in f.body if isinstance(i, Instruction) and i.base == "mov")
    named = {o.name for i in moves for o in i.operands[1:] if isinstance(o, Symbol)}
    named |= {v[1] for variable in module.variables.values() for v in variable.init if isinstance(v, tuple)}
    return [f for f in defined(module) if f.name in named and not f.entry]


def called(item) -> str | None:
    if isinstance(item, Instruction) and item.base == "call":
        return item.called[1]
    return None


def split_arguments(text: str) -> list[str]:
    """Split call arguments at top-level commas."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "(<{[") - (c in ")>}]")
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [p for p in parts + [text[start:]] if p.strip()]


def branch_targets(function: Function, ins: Instruction) -> tuple[str, ...]:
    """The labels that a `bra` or `brx` may go to."""
    return (ins.operands[0],) if ins.op.flow == "branch" else function.tables.get(ins.operands[1], ())


def has_loop(function: Function) -> bool:
    positions = {item.name: i for i, item in enumerate(function.body) if isinstance(item, Label)}
    return any(
        positions.get(target, 1 << 60) <= i
        for i, item in enumerate(function.body)
        if isinstance(item, Instruction) and item.op.branches
        for target in branch_targets(function, item)
    )


def spinning_loops(function: Function, touches_order) -> set[int]:
    """Positions of backward branches whose loop holds an instruction that `touches_order`."""
    positions = {item.name: i for i, item in enumerate(function.body) if isinstance(item, Label)}
    found = set()
    for i, item in enumerate(function.body):
        if isinstance(item, Instruction) and item.op.flow == "branch":
            start = positions.get(item.operands[0], 1 << 60)
            if start <= i and any(
                isinstance(x, Instruction) and touches_order(x) for x in function.body[start:i]
            ):
                found.add(i)
    return found


def grid_waits(function: Function) -> set[int]:
    """Positions of backward branches of loops that wait at the barrier of a grid: until a bit of a word has flipped.

    So in cooperative_groups/details/sync.h, which has no name in the code that it is expanded into.
    """
    return spinning_loops(function, lambda ins: ins.opcode == "ld.acquire.gpu.u32") & spinning_loops(
        function, lambda ins: ins.opcode == "xor.b32"
    )


class CallGraph:
    """Who calls whom in a module, which `verify` need not have seen yet: it asks where a refused function is called."""

    def __init__(self, module: Module):
        self.module, self.functions = module, module.functions
        self.pointed = pointed_functions(module)  # whose address is taken
        self.callees = {f.name: self._callees(f) for f in defined(module)}

    def _callees(self, function: Function) -> set[str]:
        """The functions that a function may call; through a pointer, any whose address is taken."""
        names = {c for c in map(called, function.body) if c}
        found = {n for n in names if n in self.functions}
        return found | {f.name for f in self.pointed} if any(n[0] == "%" for n in names) else found

    def closure(self, name: str) -> set[str]:
        seen, work = set(), [name]
        while work:
            f = work.pop()
            if f not in seen and f in self.functions:
                seen.add(f)
                work.extend(self.callees.get(f, ()))
        return seen

    def is_recursive(self, name: str) -> bool:
        return any(name in self.closure(callee) for callee in self.callees.get(name, ()))

    def location(self, ins: Instruction, function: str) -> Location:
        """The student's line of an instruction of a function, or of the call that leads to it."""
        return (
            ins.at if ins.at.line else self.called_at(ins.expansion.function if ins.expansion else function)
        )

    def called_at(self, name: str) -> Location:
        """The line of the student's file from which a function is reached by the fewest calls."""
        reached = [name]  # grows
        for goal in reached:
            for caller in self.callers.get(goal, ()):
                for ins in caller.body:
                    if called(ins) == goal and ins.at.line:
                        return ins.at
                if caller.name not in reached:
                    reached.append(caller.name)
        return Location()

    @cached_property
    def callers(self) -> dict[str, list[Function]]:
        found: dict[str, list[Function]] = {}
        for caller in defined(self.module):
            for name in self.callees[caller.name]:
                found.setdefault(name, []).append(caller)
        return found

    def mentions(self, name: str, text: str) -> bool:
        """Whether the opcode or an operand of a function, or of one that it calls, has `text` in it."""
        bodies = (self.functions[f].body or () for f in self.closure(name))
        return any(text in part for body in bodies for i in body if isinstance(i, Instruction)
                   for part in (i.opcode, *i.operands))  # fmt: skip

    def any(self, name: str, found: Callable[[Instruction], bool]) -> bool:
        """Whether a function, or one that it calls, has such an instruction."""
        bodies = (self.functions[f].body or () for f in self.closure(name))
        return any(isinstance(i, Instruction) and found(i) for body in bodies for i in body)
