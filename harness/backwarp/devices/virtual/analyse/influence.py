"""What the value that an instruction reads may decide: an address, or whether another instruction is executed.

A value passes through registers, memory (by variable), parameters and results of functions, and through branches: what
is executed only on one side of a branch depends on its condition (control dependence: Ferrante, Ottenstein and Warren,
"The program dependence graph and its use in optimization", 1987).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property

from ..ptx.cfg import Blocks, Loop, basic_blocks, find_loops
from ..ptx.ir import Address, Function, Instruction, Location
from .dataflow import dominators, reached
from .pointers import Likely
from .unused import unused_results

_EXIT = -1
Place = tuple[str, int]  # a function, and a position in its body


class Influence:
    """Answers for a kernel and the functions it calls."""

    def __init__(self, likely: Likely):
        self.likely = likely
        self.functions = {f.name: f for f in likely.functions if f.body is not None}

    def at(self, at: Location, text: str) -> list[Place]:
        """The places of the instruction `text` of this line."""
        return [
            (name, i)
            for name, function in self.functions.items()
            for i, item in enumerate(function.body)
            if isinstance(item, Instruction) and item.at == at and str(item) == text
        ]

    def of_values(self, places: Iterable[Place]) -> set:
        """All that the values read there may reach."""
        return reached((node for place in places for node in self._done(*place)), self._after)

    def of_memory(self, places: Iterable[Place]) -> set:
        """All that the memory accessed there may reach."""
        return reached((node for place in places for node in self._variables(*place)), self._after)

    def decides(self, found: set, places: Iterable[Place]) -> bool:
        """Whether what was reached includes whether these instructions are executed, or at which address."""
        places = list(places)
        return self.reaches(found, places) or any(
            (kind, f, name) in found
            for f, i in places
            for kind, name in _addressed(self.functions[f].body[i])
        )

    def reaches(self, found: set, places: Iterable[Place]) -> bool:
        """Whether what was reached includes whether these instructions are executed."""
        return any(("block", f, self._flow[f].start_of(i)) in found for f, i in places)

    def ends_loop(self, found: set, places: Iterable[Place]) -> bool:
        """Whether it includes the condition of a loop around one of these places."""
        return any(
            ("register", f, self.functions[f].body[end].pred) in found
            for f, i in places
            for loop in self._flow[f].loops
            if self._flow[f].start_of(i) in loop.blocks
            for end in self._flow[f].ends(loop)
        )

    def waits_plainly(self, places: Iterable[Place]) -> bool:
        """Whether one of these places is in a loop that only waits for plain memory to change."""
        for f, i in places:
            flow = self._flow[f]
            for loop in flow.loops:
                inside = [p for b in loop.blocks for p in range(b, flow.blocks[b][0])]
                if i in inside and flow.only_waits(loop):
                    return any(self._is_plain_load(f, p) and self.is_awaited([(f, p)]) for p in inside)
        return False

    def _is_plain_load(self, f: str, i: int) -> bool:
        op = item.op if isinstance(item := self.functions[f].body[i], Instruction) else None
        if op is None or op.memory != "load" or op.ordering or op.space in ("param", "local"):
            return False
        return any(key[0] != "local" for _, key in self._variables(f, i))

    def is_awaited(self, places: Iterable[Place]) -> bool:
        """Whether a value read there, without passing through memory, ends a loop that only waits."""

        def after(node: tuple) -> Iterable[tuple]:
            return [n for n in self._after(node) if n[0] in ("register", "parameter")]

        places = list(places)
        start = [n for place in places for n in self._done(*place)]
        found = reached((n for n in start if n[0] in ("register", "parameter")), after)
        ends = {("register", f, self.functions[f].body[i].pred): f for f, i in self._ends_of_waiting}
        called = {name for kind, name, _ in start if kind == "block"}  # a function that takes a lock, perhaps
        return any(end in found or f in called and not self._is_trusted(f) for end, f in ends.items())

    def _is_trusted(self, name: str) -> bool:
        return all(i.at.trusted for i in self.functions[name].body if isinstance(i, Instruction))

    def is_used(self, places: Iterable[Place]) -> bool:
        """Whether the result of one of these instructions is used."""
        return any(i not in unused_results(self.functions[f]) for f, i in places)

    # -- the graph ----------------------------------------------------------------------------------

    def _after(self, node: tuple) -> Iterable[tuple]:
        kind, name = node[:2]
        if kind == "memory":
            return (
                ("register", f, r)
                for f, i in self._loads.get(name, ())
                for r in self.functions[f].body[i].writes
            )
        if kind == "register":
            return [n for i in self._reading[name].get(node[2], ()) for n in self._results(name, i)]
        if kind == "block":
            function, end = self.functions[name], self._flow[name].blocks[node[2]][0]
            return [
                n
                for i in range(node[2], end)
                if isinstance(function.body[i], Instruction)
                for n in self._done(name, i)
            ]
        return self._passed.get((name, node[2]), ())  # a parameter, or a result

    def _results(self, name: str, i: int) -> Iterable[tuple]:
        """What an instruction makes of a value it reads."""
        ins = self.functions[name].body[i]
        if ins.op.flow in ("branch", "switch", "return", "exit") and ins.op.ends_block:
            return [("block", name, b) for b in self._flow[name].depending_on(i)]
        return self._done(name, i)

    def _done(self, name: str, i: int) -> list[tuple]:
        """What an instruction changes."""
        ins = self.functions[name].body[i]
        found = [("register", name, r) for r in ins.writes]
        if ins.op.flow == "call":
            callee = self._flow.get(ins.called[1])
            found += [("block", ins.called[1], b) for b in callee.blocks] if callee else []
            found += [("parameter", name, r) for r in ins.called[0] or ()]
        elif ins.op.space == "param" and ins.op.memory == "store":
            found.append(("parameter", name, ins.operands[0].base))
        elif ins.op.writes_memory:
            found += self._memory.get((name, i), ())
        return found

    @cached_property
    def _flow(self) -> dict[str, _Flow]:
        return {name: _Flow(function) for name, function in self.functions.items()}

    @cached_property
    def _reading(self) -> dict[str, dict[str, list[int]]]:
        """Function -> register -> where it is read."""
        found: dict[str, dict[str, list[int]]] = {}
        for name, function in self.functions.items():
            mine = found[name] = {}
            for i, item in enumerate(function.body):
                for register in item.reads if isinstance(item, Instruction) else ():
                    mine.setdefault(register, []).append(i)
        return found

    @cached_property
    def _memory(self) -> dict[Place, list[tuple]]:
        """An access -> the variables that it may be of."""
        return {
            (name, i): self._variables(name, i)
            for name, function in self.functions.items()
            for i, item in enumerate(function.body)
            if isinstance(item, Instruction) and item.op.memory and item.op.space != "param"
        }

    def _variables(self, name: str, i: int) -> list[tuple]:
        found = self.likely.of_instruction(self.functions[name], self.functions[name].body[i])
        return [
            ("memory", key) for key in {(o.kind, o.name, o.function) for o in found if o.kind != "unknown"}
        ]

    @cached_property
    def _loads(self) -> dict[tuple, list[Place]]:
        """A variable -> where it is read."""
        found: dict[tuple, list[Place]] = {}
        for (name, i), nodes in self._memory.items():
            if self.functions[name].body[i].writes:
                for _, key in nodes:
                    found.setdefault(key, []).append((name, i))
        return found

    @cached_property
    def _passed(self) -> dict[tuple[str, str], list[tuple]]:
        """(function, parameter or result) -> what gets its value."""
        found: dict[tuple[str, str], list[tuple]] = {}
        for name, function in self.functions.items():
            for item in function.body:
                if not isinstance(item, Instruction):
                    continue
                if item.op.space == "param" and item.op.memory == "load":
                    to = [("register", name, r) for r in item.writes]
                    found.setdefault((name, item.operands[1].base), []).extend(to)
                elif item.op.flow == "call" and (callee := self.functions.get(item.called[1])):
                    for formal, given in zip(callee.params, item.called[2], strict=False):
                        found.setdefault((name, given), []).append(("parameter", callee.name, formal.name))
                    for formal, result in zip(callee.returns, item.called[0] or (), strict=False):
                        found.setdefault((callee.name, formal.name), []).append(("parameter", name, result))
        return found

    @cached_property
    def _ends_of_waiting(self) -> list[Place]:
        return [
            (name, i)
            for name, flow in self._flow.items()
            for loop in flow.loops
            if flow.only_waits(loop)
            for i in flow.ends(loop)
        ]


class _Flow:
    """The control flow of a function."""

    def __init__(self, function: Function):
        self.body = function.body
        self.blocks: Blocks = basic_blocks(function.body, function.tables)
        self._starts = sorted(self.blocks)
        before: dict[int, list[int]] = {b: [] for b in (*self.blocks, _EXIT)}
        for start in self.blocks:
            for target in self._follow(start):
                before[target].append(start)
        self._after_all = dominators(
            _EXIT, before.__getitem__
        )  # the blocks that all ways from one to the end pass

    @cached_property
    def loops(self) -> list[Loop]:
        return find_loops(self.blocks)

    def ends(self, loop: Loop) -> list[int]:
        """The branches that may leave a loop."""
        ends = (self.blocks[b][0] - 1 for b in loop.blocks if not loop.blocks.issuperset(self.blocks[b][1]))
        return [i for i in ends if isinstance(self.body[i], Instruction) and self.body[i].pred]

    def only_waits(self, loop: Loop) -> bool:
        """Whether it stores nothing that others see, and meets nobody."""
        inside = (self.body[i] for b in loop.blocks for i in range(b, self.blocks[b][0]))
        ops = [ins.op for ins in inside if isinstance(ins, Instruction)]
        own = "param", "local"
        return not any(op.collective or op.memory == "store" and op.space not in own for op in ops)

    def start_of(self, position: int) -> int:
        return self._starts[bisect_right(self._starts, position) - 1]

    def depending_on(self, position: int) -> set[int]:
        """The blocks that are executed or not as the branch at a position decides."""
        block = self.start_of(position)
        anyway = self._after_all.get(block, frozenset()) - {block}
        either = (self._after_all.get(target, {target}) for target in self._follow(block))
        return {b for after in either for b in after} - anyway - {_EXIT}

    def _follow(self, start: int) -> list[int]:
        end, follow = self.blocks[start]
        last = self.body[end - 1] if end > start else None
        leaves = not follow or isinstance(last, Instruction) and last.op.leaves
        return [*follow, _EXIT] if leaves else follow


def _addressed(ins: Instruction) -> list[tuple[str, str]]:
    """The registers from which its address is computed; of a call, its arguments."""
    if ins.op.flow == "call":
        return [("parameter", name) for name in ins.called[2]]
    return [("register", r) for o in ins.operands if isinstance(o, Address) for r in o.registers]
