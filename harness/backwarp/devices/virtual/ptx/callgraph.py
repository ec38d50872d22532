"""Which functions PTX functions call, and where they loop: structural queries shared by several modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

from .ir import Function, Instruction, Label, Location, Module, Special, Symbol
from .op import Op


def align_up(n: int, alignment: int) -> int:
    return -(-n // alignment) * alignment


def symbol_name(name: str, raw: bool) -> str:
    """Appends a suffix that no C++ name has, to separate a student's functions from the runtime's and the
    system's."""
    return f'@"{name}"' if raw else f'@"{name}.function"'


def defined(module: Module):
    return (f for f in module.functions.values() if f.body is not None)


def pointed_functions(module: Module) -> list[Function]:
    """Functions whose address is taken: named in an operand that is not a call's, or in an initialiser."""
    plain = (
        i for f in defined(module) for i in f.body if isinstance(i, Instruction) and i.op and not i.op.flow
    )
    named = {o.name for i in plain for o in i.operands if isinstance(o, Symbol)}
    named |= {v[1] for variable in module.variables.values() for v in variable.init if isinstance(v, tuple)}
    return [f for f in defined(module) if f.name in named and not f.entry]


def called(item) -> str | None:
    if isinstance(item, Instruction) and item.op and item.op.flow == "call":
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
    """Positions of backward branches whose loop contains an instruction that `touches_order`."""
    starts: dict[str, int] = {}
    loops = []
    for i, item in enumerate(function.body):
        if isinstance(item, Label):
            starts[item.name] = i
        elif item.op.flow == "branch" and item.operands[0] in starts:
            loops.append((starts[item.operands[0]], i))
    if not loops:
        return set()
    first, last = min(start for start, _ in loops), loops[-1][1]
    inside = enumerate(function.body[first:last], first)
    touching = [i for i, item in inside if isinstance(item, Instruction) and touches_order(item)]
    return {end for start, end in loops if any(start <= i < end for i in touching)}


class CallGraph:
    """Who calls whom in a module. Works before `verify`, which asks where a refused function is called."""

    def __init__(self, module: Module):
        self.module, self.functions = module, module.functions
        self.pointed = pointed_functions(module)  # whose address is taken
        self._closures: dict[str, set[str]] = {}
        self.callees = {f.name: self.callees_of(f) for f in defined(module)}

    def callees_of(self, function: Function) -> set[str]:
        """The functions that a function may call, as it is now; through a pointer, any whose address is taken."""
        names = {c for c in map(called, function.body or ()) if c}
        found = {n for n in names if n in self.functions}
        return found | {f.name for f in self.pointed} if any(n[0] == "%" for n in names) else found

    def closure(self, name: str) -> set[str]:
        """A function and everything it may call."""
        if name not in self._closures:
            self._closures[name] = self._reached(name)
        return self._closures[name]

    def _reached(self, name: str) -> set[str]:
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
        """The student's line of an instruction, or of the call that leads to it."""
        return (
            ins.at if ins.at.line else self.called_at(ins.expansion.function if ins.expansion else function)
        )

    def called_at(self, name: str) -> Location:
        """The line of the student's file that reaches a function through the fewest calls."""
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

    def any(self, name: str, found: Callable[[Op], object]) -> bool:
        """Whether a function, or one that it calls, has such an instruction."""
        return any(found(op) for f in self.closure(name) for op in self._index[f])

    def those(self, name: str, found: Callable[[Op], object]) -> Iterator[Instruction]:
        """The instructions of a kind in a function and its callees."""
        return (
            i for f in self.closure(name) for op, each in self._index[f].items() if found(op) for i in each
        )

    def reads_special(self, name: str, start: str) -> bool:
        """Whether a function, or one that it calls, reads a special register whose name starts with this."""
        return any(register.startswith(start) for f in self.closure(name) for register in self._special[f])

    @cached_property
    def _index(self) -> dict[str, dict[Op, list[Instruction]]]:
        """Function -> its instructions by Op. Instructions inserted later are not included."""
        index: dict[str, dict[Op, list[Instruction]]] = {}
        for f in self.functions.values():
            found = index[f.name] = {}
            for ins in f.body or ():
                if isinstance(ins, Instruction):
                    found.setdefault(ins.op, []).append(ins)
        return index

    @cached_property
    def _special(self) -> dict[str, set[str]]:
        """Function -> the special registers that it reads."""
        each = {name: [i for some in index.values() for i in some] for name, index in self._index.items()}
        return {
            name: {r for i in body for o in i.operands for r in o.registers if type(r) is Special}
            for name, body in each.items()
        }
