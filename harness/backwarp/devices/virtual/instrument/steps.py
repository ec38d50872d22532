"""The record of a run: what each thread does, line by line, in the order in which it happens.

`note`, early, marks where a line of the student's file begins and where a variable gets a value, by the
debugging labels, which are dropped afterwards. The operand of a mark is hidden from all analyses, so that
the code and its checks stay what they are without a record:

    .loc 1 38 5                              step.line 7;
    mov.u32 %r13, 0;                ->       mov.u32 %r13, 0;
    $L__tmp14:   // c is in %r13             step.var 12, <%r13>;

`run`, late, turns the marks into code that appends a row, and adds those of accesses, barriers, collectives
and calls. The number of a row's point is also its place in the code:

    step.var 12, <%r13>;                     record.b32 41, %r13;
                                    ->       record.at.global 42, [%rd1+4];
    ld.global.f32 %f2, [%rd1+4];             ld.global.f32 %f2, [%rd1+4];
                                             record.b32 43, %f2;

A point is a tuple: (kind, line, function, lexical block, ...). What follows depends on the kind: enter: function; line, leave,
back: nothing; var: its number in debuginfo.scopes, PTX type; at: what, space, PTX type, elements, its
description for racecheck (abi.INFO_...); given, got (after their at, or
collective): PTX type; base: symbol, bytes, depot, start there; call: name, whether
an atomic's result in it is not used; fence: scope, whether it is sc; arrive, pass: "block" | "warp" | "matrix", opcode,
number; async: opcode, operands; argument: symbol, offset, PTX type. A var whose number is -1 is a register without a name whose
history a sum needs.

What a recorded value is computed from is in `sources`, a list of pairs: (point, products), each product a tuple of the sources of
analyse/sums; of a call, (point, for each argument (offset, point, offset, point ...)); (-1, (points, ...)), those that record
the same register; and of the "pass" after an mma, for each of its a, b and c what each of its registers is a copy of, or None.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from ..analyse import debuginfo
from ..analyse.facts import Facts
from ..analyse.scopes import Scopes
from ..analyse.sums import Sums, before
from ..ptx.callgraph import defined
from ..ptx.ir import Address, Function, Immediate, Instruction, Label, Module, Symbol, operand
from ..ptx.types import BITS
from .accesses import described
from .bounds import is_checked
from .insert import mark

_LINE, _VAR = "step.line", "step.var"
_FLOATS = ("f32", "f64", "f16", "f16x2")


def note(module: Module) -> None:
    """In place, before labels are dropped."""
    found = debuginfo.scopes(module.debug)
    for function in defined(module):
        if any(isinstance(i, Instruction) and i.at.line for i in function.body):
            _Marks(function, found, module.lines).run()


class _Marks:
    """lines: of the module, to be extended."""

    def __init__(self, function: Function, found: Scopes, lines: list[tuple[str, int, int]]):
        self.function, self.lines = function, lines
        at = {item.name: p for p, item in enumerate(function.body) if isinstance(item, Label)}
        end = len(function.body)
        branches = (i for i in function.body if isinstance(i, Instruction) and i.op.flow == "branch")
        self.targets = {o for i in branches for o in i.operands}
        self.targets |= {name for names in function.tables.values() for name in names}
        #: (start, end, number), in positions of the body
        self.blocks = [
            (at.get(b.low, 0), at.get(b.high, end), n)
            for n, b in enumerate(found.blocks)
            if b.function == function.name and (not b.low or b.low in at)
        ]
        self.begins = defaultdict(list)  # label -> the variables that are in a register from there on
        self.writes = defaultdict(list)  # register -> (start, end, the variable that is in it)
        for n, v in enumerate(found.variables):
            for low, high, register in v.places if v.function == function.name else ():
                if register in function.regs:
                    self.begins[low].append((n, register))
                    self.writes[register].append((at.get(low, -1), at.get(high, end), n))
        self.homes = {register: {n for *_, n in of} for register, of in self.writes.items()}
        # (variable, register): marked since the register was written, in this block
        self.fresh: set[tuple[int, str]] = set()
        self.body: list[Instruction | Label] = []

    def run(self) -> None:
        line, block, following = 0, -2, _following(self.function.body)
        for position, item in enumerate(self.function.body):
            self.body.append(item)
            if isinstance(item, Label):
                self._label(item, following[position])
                line = 0 if item.name in self.targets else line
                continue
            here = max((b for b in self.blocks if b[0] <= position < b[1]), default=(0, 0, -1))[2]
            if item.at.line and (item.at.line != line or here != block):
                line, block = item.at.line, here
                self.body.insert(-1, mark(_LINE, len(self.lines), at=item))
                self.lines.append((self.function.name, line, block))
            self._instruction(item, position)
        self.function.body = self.body

    def _label(self, label: Label, nearest: Instruction | None) -> None:
        for same in self.begins.get(label.name, ()) if nearest else ():
            if same not in self.fresh:
                self.body.append(mark(_VAR, same[0], f"<{same[1]}>", at=nearest))
            self.fresh.add(same)
        if label.name in self.targets:
            self.fresh.clear()

    def _instruction(self, ins: Instruction, position: int) -> None:
        if ins.op.flow:
            self.fresh.clear()
        self.fresh = {f for f in self.fresh if f[1] not in ins.writes}
        for register in ins.writes:
            passed = {n for n in self.homes.get(register, ()) if self._passes_on(ins, n)}
            self.fresh |= {(n, register) for n in passed}
            for low, high, n in self.writes.get(register, ()) if not ins.op.ends_block else ():
                if low < position < high and (n, register) not in self.fresh:
                    self.fresh.add((n, register))
                    self.body.append(mark(_VAR, n, f"<{register}>", at=ins))

    def _passes_on(self, ins: Instruction, variable: int) -> bool:
        """Whether it only moves a variable's value from one of its registers to another, as at the head of a loop."""
        return ins.op.is_move and any(variable in self.homes.get(r, ()) for r in ins.reads)


def _following(body: list) -> list[Instruction | None]:
    """For each place, the next instruction."""
    found, nearest = [], None
    for item in reversed(body):
        nearest = item if isinstance(item, Instruction) else nearest
        found.append(nearest)
    return found[::-1]


def run(
    functions: Iterable[Function], module: Module, facts_of: Callable[[Function], Facts]
) -> tuple[list[tuple], list[tuple[int, tuple]]]:
    """In place, the last pass but that of the checks. (points, sources)"""
    points: list[tuple] = []
    sources: list[tuple[int, tuple]] = []
    for function in functions:
        rows = _Rows(function, module, points, facts_of(function))
        rows.run()
        sources += rows.sources()
    return points, sources


class _Rows:
    def __init__(self, function: Function, module: Module, points: list[tuple], facts: Facts):
        self.function, self.module, self.points, self.facts = function, module, points, facts
        self.blind = False  # what is called next is an atomic whose result is not used
        self.place = (function.name, 0, -1)
        self.callers: list[tuple[str, int, int]] = []
        self.body: list[Instruction | Label] = []
        self.own, self.here = function.body, 0
        self.followed = self._followed()
        self.got: dict[
            tuple[Instruction, str], int
        ] = {}  # what a register got in an instruction -> its point
        self.kept: dict[str, list[int]] = defaultdict(list)  # register -> the points that record it
        self.arguments: dict[
            tuple[str, int], int
        ] = {}  # (symbol, offset) -> the point of what was stored there last
        self.back: dict[str, int] = {}  # symbol of a result -> the point after its call
        self.given: list[tuple[int, tuple]] = []  # of calls
        self.products: list[tuple[int, Instruction]] = []  # of matrices, and the points after them
        self.computed: list[
            tuple[int, object, int]
        ] = []  # (point, operand, place in the body) of what is recorded

    def _followed(self) -> set[str]:
        """Floating-point registers that have a name, or several definitions: recorded at every write."""
        instructions = [i for i in self.own if isinstance(i, Instruction)]
        written = Counter(name for i in instructions for name in i.writes)
        named = {i.operands[1][1:-1] for i in instructions if i.opcode == _VAR}
        floats = {name for name, type_ in self.function.regs.items() if type_ in _FLOATS}
        return floats & (named | {name for name, n in written.items() if n > 1})

    def sources(self) -> list[tuple[int, tuple]]:
        """See above; after `run`."""
        sums = Sums(self.function, self.own, self.got, self.kept, self.arguments, self.back)
        found = [*self.given]
        for point, of, at in self.computed:
            definition = before(self.own, at + 1, of) if point in self.kept.get(of, ()) else None
            products = sums.written(definition, of) if definition else sums.of(of)
            found.append((point, tuple(t for t in products if t and t != (point,))))
        for point, ins in self.products:
            operands = ((sums.of(part) for part in ins.named[name].parts) for name in "abc")
            found.append(
                (point, tuple(tuple(of[0][0] if of[0] else None for of in each) for each in operands))
            )
        groups = tuple(tuple(points) for points in self.kept.values() if len(points) > 1)
        return [*found, (-1, groups)]

    def run(self) -> None:
        first = next(i for i in self.function.body if isinstance(i, Instruction))
        entered = (i for i in self.function.body if isinstance(i, Instruction) and i.base == "enter")
        copies = {name for i in entered for name in i.expansion.variables}
        self._enter(first, self.function.name, [n for n in self.function.variables if n not in copies])
        for self.here, item in enumerate(self.own):
            if isinstance(item, Label):
                self.body.append(item)
            elif item.op.mark:
                self._mark(item)
            else:
                self._instruction(item)
        self.function.body = self.body

    # -- rows -----------------------------------------------------------------------------------------

    def _point(self, kind: str, *more) -> int:
        function, line, block = self.place
        self.points.append((kind, line, function, block, *more))
        return len(self.points) - 1

    def _event(self, ins: Instruction, kind: str, *more) -> None:
        self.body.append(mark("record", self._point(kind, *more), at=ins))

    def _value(self, ins: Instruction, kind: str, of: object, type_: str, *more) -> int:
        """The point; -1 for what does not fit in a row."""
        if BITS[type_] > 64:
            return -1
        number, of = self._point(kind, *more, type_), operand(str(of))
        if kind == "got":
            self.got[ins, of] = number
        else:
            self.computed.append((number, of, self.here))
        if kind == "var" or kind == "got" and of in self.followed:
            self.kept[of].append(number)
        bits = "pred" if type_ == "pred" else f"b{BITS[type_]}"
        self.body.append(mark(f"record.{bits}", number, of, at=ins))
        return number

    def _at(
        self, ins: Instruction, what: str, space: str, type_: str, count: int, address: Address, info: int = 0
    ) -> None:
        number = self._point("at", what, space, type_, count, info)
        self.body.append(mark(f"record.at.{space}", number, address, at=ins))

    def _enter(self, ins: Instruction, function: str, variables) -> None:
        self._event(ins, "enter", function)
        for name in variables:
            if (v := self.function.variables[name]).space == "local":
                number = self._point("base", name, v.size, v.depot or name.partition("..")[0], v.start)
                self.body.append(mark("record.base", number, name, at=ins))

    # -- what is recorded -----------------------------------------------------------------------------

    def _mark(self, ins: Instruction) -> None:
        if ins.opcode == _LINE:
            self.place = self.module.lines[ins.operands[0].value]
            self._event(ins, "line")
        elif ins.opcode == _VAR:
            register = ins.operands[1][1:-1]
            if register in self.function.regs:
                self._value(ins, "var", register, self.function.regs[register], ins.operands[0].value)
        elif ins.base == "enter":
            self.body.append(ins)
            self.callers.append(self.place)
            self.place = (str(ins.operands[0]), 0, -1)
            self._enter(ins, self.place[0], ins.expansion.variables)
        elif ins.base == "leave":
            self._event(ins, "leave")
            self.body.append(ins)
            self.place = self.callers.pop()
        else:
            self.body.append(ins)
            if ins.base == "note" and str(ins.operands[0]) == "Env.blind":
                self.blind = bool(ins.operands[1].value)

    def _instruction(self, ins: Instruction) -> None:
        op = ins.op
        if op.flow == "call":
            self._call(ins)
        elif op.of_parameters and op.memory == "store" and type(ins.address.base) is Symbol:
            self.body.append(ins)
            name = str(ins.address.base)
            for n, part in enumerate(ins.operands[1].parts):
                at = ins.address.offset + n * op.nbytes
                self.arguments[name, at] = self._value(ins, "argument", part, op.type, name, at)
        elif is_checked(ins) and not op.moved_rows and op.memory:
            self._access(ins)
        elif op.memory == "copy" and not op.bulk:
            self._copy(ins)
        elif op.asynchronous and not op.memory and not op.is_mbarrier:
            self._event(ins, "async", ins.opcode, ",".join(ins.operands))
            self.body.append(ins)
        elif op.collective:
            self._collective(ins)
        elif op.is_fence:
            self._event(ins, "fence", op.scope, op.is_sc)
            self.body.append(ins)
        else:
            if op.leaves:
                self._event(ins, "leave")
            self.body.append(ins)
            after = self.own[self.here + 1] if self.here + 1 < len(self.own) else None
            marked = after.operands[1][1:-1] if getattr(after, "opcode", "") == _VAR else ""
            for name in sorted(ins.writes & self.followed - {marked}):
                self._value(ins, "var", name, self.function.regs[name], -1)

    def _call(self, ins: Instruction) -> None:
        returns, name, given = ins.called
        self._event(ins, "call", str(name), self.blind)
        stored = self.arguments.items()
        each = (
            tuple(n for (symbol, at), p in stored if symbol == g for n in (at, p)) for g in map(str, given)
        )
        self.given.append((len(self.points) - 1, tuple(each)))
        self.body.append(ins)
        self._event(ins, "back")
        self.back |= dict.fromkeys(map(str, returns), len(self.points) - 1)

    def _access(self, ins: Instruction) -> None:
        op = ins.op
        how = op.operation if op.memory in ("atomic", "reduction") else op.memory
        parts = ins.operands[0 if op.memory == "load" else 1].parts
        about = described(ins, self.function, self.facts)
        self._at(ins, how, op.space, op.type, len(parts), ins.address, about)
        given = {"load": (), "store": parts}.get(op.memory) if op.memory in ("load", "store") else None
        given = [ins.named[n] for n in ("b", "c") if n in ins.named] if given is None else given
        for part in given:
            self._value(ins, "given", part, op.type)
        self.body.append(ins)
        if op.memory == "load" or op.memory == "atomic" and op.has_result:
            for part in ins.operands[0].parts:
                if part != "_":
                    self._value(ins, "got", part, op.type)

    def _copy(self, ins: Instruction) -> None:
        nbytes = next(o.value for o in ins.operands if type(o) is Immediate)
        to, source = (o for o in ins.operands if type(o) is Address)
        self._at(ins, "copy", ins.op.space, "b8", nbytes, to)
        self._at(ins, "source", "global", "b8", nbytes, source)
        for part in ins.operands[3:4]:  # how many bytes are read; the rest is zero
            self._value(ins, "given", part, "u32")
        self.body.append(ins)

    def _collective(self, ins: Instruction) -> None:
        op = ins.op
        about = op.collective, ins.opcode, str(ins.named["a"]) if op.collective == "block" else ""
        self._event(ins, "arrive", *about)
        if op.collective == "matrix" and op.accesses:
            self._at(ins, "matrix", op.space, "b8", 16 if op.moved_rows else 0, ins.address)
        for role, o in (
            zip(ins.roles, ins.operands, strict=True) if op.collective in ("warp", "block") else ()
        ):
            known = op.collective == "block" and type(o) is Immediate
            if role.name in "abcm" and role.kind == "value" and not known:  # m: the mask
                self._value(ins, "given", o, role.type or op.type)
        self.body.append(ins)
        self._event(ins, "pass", *about)
        if op.base == "mma":
            self.products.append((len(self.points) - 1, ins))
        for part in ins.operands[0].parts if op.has_result else ():
            if part in self.function.regs:
                self._value(ins, "got", part, self.function.regs[part])
