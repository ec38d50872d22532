"""What the shape of blocks decides: branches that all threads of such blocks take, or none.

    mov.u32 %r1, %tid.x;                mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;                shl.b32 %r2, %r1, 2;
    setp.gt.s32 %p1, %r2, 127;    ->    mov.pred %p1, 0;
    @%p1 bra $L_1;

Here blocks have 32 threads. A loop in which each thread copies every 64th element of a tile is written out by compilers, with
branches for threads that have none left; in blocks of a known shape, the numbers that registers may hold decide most of them.

Source: Harrison, "Compiler analysis of the value ranges for variables", IEEE Transactions on Software Engineering, 1977.
"""

from __future__ import annotations

from itertools import product

from ..analyse.assigned import maybe_undefined
from ..analyse.numbers import COMPARISONS, read_as, value_of
from ..analyse.private_arrays import writers_of
from ..analyse.rows import Block
from ..ptx.ir import Function, Immediate, Instruction, Operand, Special
from ..ptx.types import BITS, is_signed
from . import constants, straighten

#: the lowest and the highest number that a register may hold, whose bits are read as a signed number
Range = tuple[int, int]
_PATIENCE = 3  # changes of a range after which nothing is known
_MOST_GRID = (1 << 31) - 1, 65535, 65535


def run(function: Function, block: Block) -> None:
    """In place."""
    branches = -1
    while branches != (branches := sum(_is_branch(i) for i in function.body)):
        ranges = Ranges(function, block)
        ranges.find()
        _fix(function, ranges)
        constants.drop_unreached(function)
        constants.drop_copies(function)
        straighten.run(function)


def _is_branch(item) -> bool:
    return isinstance(item, Instruction) and item.op.flow == "branch"


def _fix(function: Function, ranges: Ranges) -> None:
    """Registers that hold one number are set to it, and branches are decided."""
    known = {name: low for name, found in ranges.of.items() if found for low, high in [found] if low == high}
    body: list = []
    for item in function.body:
        if isinstance(item, Instruction):
            item = constants.decided(item, known)
            if item is None:
                continue
            name = next(iter(item.writes)) if len(item.writes) == 1 and not item.pred else ""
            if name in known and len(ranges.writers[name]) == 1 and item.op.memory == "":
                item = constants.assigned(item, name, function.regs[name], known[name])
        body.append(item)
    function.body = body


class Ranges:
    """of: register -> its range, None if nothing is known."""

    def __init__(self, function: Function, block: Block):
        self.types, self.writers = function.regs, writers_of(function.body)
        self.of: dict[str, Range | None] = dict.fromkeys(maybe_undefined(function.body, function.regs))
        self.special = {
            f"%{name}.{axis}": found for n, axis in enumerate("xyz") for name, found in _of_axis(n, block)
        }
        self.special["%laneid"] = 0, 31

    def find(self) -> None:
        """The ranges of all registers, whatever way a thread takes."""
        readers: dict[str, list[Instruction]] = {}
        everything = dict.fromkeys(i for found in self.writers.values() for i in found)
        for ins in everything:
            for name in ins.reads:
                readers.setdefault(name, []).append(ins)
        changes: dict[str, int] = {}
        work = [*everything]
        while work:
            ins = work.pop()
            for name in ins.writes:
                if self.of.get(name, ()) is not None and self._changes(name, ins, changes):
                    work += readers.get(name, ())

    def _changes(self, name: str, ins: Instruction, changes: dict[str, int]) -> bool:
        """Takes an instruction into account. Returns whether that has changed anything."""
        new, before = self._result(ins, name), self.of.get(name, ())
        if new == ():  # not known yet
            return False
        if before and new:
            new = min(before[0], new[0]), max(before[1], new[1])
        if new == before:
            return False
        changes[name] = changes.get(name, 0) + 1
        self.of[name] = new if changes[name] <= _PATIENCE else None
        return True

    def _result(self, ins: Instruction, name: str) -> Range | tuple[()] | None:
        """() if that depends on what is not known yet."""
        type_ = self.types.get(name, "")
        if name != ins.operands[0] or type_[:1] not in ("b", "u", "s", "p") or type_ not in BITS:
            return None
        given = [self.range(o) for o in ins.sources]
        if () in given:
            return ()
        found = self._exact(ins, given) if all(r and r[0] == r[1] for r in given) else _computed(ins, given)
        return found if found and _fits(found, type_) else None

    def range(self, given: Operand) -> Range | tuple[()] | None:
        """Of an operand."""
        if isinstance(given, Special):
            return self.special.get(given)
        if isinstance(given, Immediate):
            return None if given.format else (given.value, given.value)
        if given in self.types:
            return self.of.get(given, ())
        return None

    def _exact(self, ins: Instruction, given: list[Range]) -> Range | None:
        numbers = {
            o: low for o, (low, _) in zip(ins.sources, given, strict=True) if not isinstance(o, Immediate)
        }
        if any(isinstance(o, Special) for o in numbers):
            return given[0] if ins.op.is_move else None
        value = value_of(ins, numbers)
        if value is None:
            return None
        type_ = self.types[ins.operands[0]]
        value = value & 1 if type_ == "pred" else read_as(value, f"s{BITS[type_]}")
        return value, value


def _of_axis(n: int, block: Block):
    return (
        ("tid", (0, block[n] - 1)),
        ("ntid", (block[n], block[n])),
        ("ctaid", (0, _MOST_GRID[n] - 1)),
        ("nctaid", (1, _MOST_GRID[n])),
    )


def _fits(found: Range, type_: str) -> bool:
    if type_ == "pred":
        return True
    most = 1 << BITS[type_] - 1
    return -most <= found[0] and found[1] < most


def _ends(of, *given: Range) -> Range:
    """Of a function that is monotonic in each operand."""
    found = [of(*numbers) for numbers in product(*given)]
    return min(found), max(found)


def _as_read(given: Range | None, type_: str) -> Range | None:
    """The range of an operand as a number of its type, if that is the same."""
    return given if given and (_fits(given, type_) if is_signed(type_) else given[0] >= 0) else None


#: of two numbers, the same in any type as long as nothing overflows
_SUMS = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b}


def _computed(ins: Instruction, given: list[Range | None]) -> Range | None:
    """The result of an instruction whose operands have these ranges; None if it may be any number."""
    op, base, type_ = ins.op, ins.base, ins.op.type
    kinds, plain = op.mods[: len(op.mods) - len(op.types)], op.mods in ((type_,), ("lo", type_))
    if any(t not in BITS or t[0] == "f" for t in op.types) or BITS.get(type_, 0) not in (1, 32, 64):
        return None
    if op.is_move:
        return given[0]
    if base == "selp":
        return given[0] and given[1] and (min(given[0][0], given[1][0]), max(given[0][1], given[1][1]))
    if base == "cvt" and not kinds and BITS[op.types[0]] >= 32:
        return _as_read(given[0], op.types[1])
    if base in ("and", "or", "xor", "not"):
        return _bitwise(base, type_, given)
    if base == "setp":
        return _compared(kinds, [_as_read(r, type_) for r in given]) if len(ins.operands) == 3 else None
    if None in given:
        return None
    if base in _SUMS and plain:
        return _ends(_SUMS[base], *given)
    if base == "neg" and plain:
        return -given[0][1], -given[0][0]
    if base == "mad" and plain:
        return _ends(lambda a, b, c: a * b + c, *given)
    if base == "shl" and given[1][0] == given[1][1] and 0 <= given[1][0] < BITS[type_]:
        return _ends(lambda a, b: a << b, *given)
    given = [_as_read(r, type_) for r in given]
    if None in given:
        return None
    if base in ("mul", "mad") and kinds == ("wide",):
        return _ends(lambda a, b, c=0: a * b + c, *given)
    if base in ("min", "max") and plain:
        return _ends(min if base == "min" else max, *given)
    if base == "shr" and given[1][0] == given[1][1] and 0 <= given[1][0] < BITS[type_]:
        return _ends(lambda a, b: a >> b, *given)
    if base in ("div", "rem") and plain and given[0][0] >= 0 and given[1][0] > 0:
        most = given[0][1]
        return _ends(lambda a, b: a // b, *given) if base == "div" else (0, min(most, given[1][1] - 1))
    return None


def _bitwise(base: str, type_: str, given: list[Range | None]) -> Range | None:
    if type_ == "pred":
        given = [r or (0, 1) for r in given]
        how = {
            "and": lambda a, b: a & b,
            "or": lambda a, b: a | b,
            "xor": lambda a, b: a ^ b,
            "not": lambda a: 1 - a,
        }
        return _ends(how[base], *given)
    if base == "not":
        return given[0] and (~given[0][1], ~given[0][0])
    positive = [r for r in given if r and r[0] >= 0]
    if base == "and":
        return (0, min(high for _, high in positive)) if positive else None
    if len(positive) < 2:
        return None
    most = (1 << max(high for _, high in positive).bit_length()) - 1
    return (max(low for low, _ in positive) if base == "or" else 0), most


def _compared(kinds: tuple[str, ...], given: list[Range | None]) -> Range:
    """The ranges of a predicate."""
    if None in given or len(kinds) != 1 or kinds[0] not in COMPARISONS:
        return 0, 1
    if kinds[0] in ("eq", "ne"):
        apart = given[0][1] < given[1][0] or given[1][1] < given[0][0]
        return (int(kinds[0] == "ne"),) * 2 if apart else (0, 1)
    return _ends(lambda a, b: int(COMPARISONS[kinds[0]](a, b)), *given)
