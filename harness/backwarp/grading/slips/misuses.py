"""How a wrong kernel misuses what the puzzle gives it: parameters in another order or unused, divisions without remainders. Found by
comparing its text with the puzzle's declaration; see also `statements.py`.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from math import prod

from ...course.declare import Kernel, Launch, Puzzle
from ...course.parameters import Scalar
from ...course.stubs import stub_text
from ...cuda.evaluate import computed
from ...cuda.follow import value_of
from ...cuda.parts import reached, shown, sign_of
from ...cuda.pieces import Function, Piece, Variable
from ...cuda.text import CudaText, read
from ...cuda.values import tunables
from ...devices.launching import triple
from ..differences import with_parameters_of
from ..findings import Finding
from ..probes.outside_axis import varies
from .block_slips import block_slips
from .launch_axes import idle_axes, the_same, unused_axes

TRIED = 8  # values of the names of an expression
UNSIGNED = {"unsigned", "size_t", "uint32_t", "uint64_t"}
_NAME = re.compile(r"[A-Za-z_]\w*")


def misuses(
    puzzle: Puzzle, kernel: Kernel, source: str, failed: Sequence[Mapping[str, int]] = ()
) -> list[Finding]:
    """The most telling first. failed: the dimensions of the cases that go wrong."""
    file = read(source)
    own = file.function(kernel.name)
    if own is None:
        return []
    if found := other_order(kernel, own):
        return found
    solution = right = None
    if puzzle.has_solution:
        solution = read(puzzle.solution_path.read_text(encoding="utf-8"))
        solution = with_parameters_of(file, solution, kernel.name)
        right = solution.function(kernel.name)
    mine, stub = Use(file, kernel.name), Use(read(stub_text(puzzle)), kernel.name)
    t = tunables(source)
    launches = [kernel.launch(dict(d), t) for d in failed]
    found = list(unused_axes(kernel, mine, launches))
    found += idle_axes(mine, launches)
    if right:
        found += block_slips(kernel, own, right, list(zip(failed, launches, strict=True)))
    if solution:
        found += beside_the_solution(kernel, mine, stub, Use(solution, kernel.name), launches)
    return found or ([] if puzzle.repair else changed_lines(stub, mine))


def beside_the_solution(
    kernel: Kernel, mine: Use, stub: Use, solution: Use, launches: Sequence[Launch]
) -> list[Finding]:
    """What the solution does and this file does not."""
    names = {p.name for p in kernel.params}
    own = {v.name for v in mine.function.parameters}
    use = mine, stub, solution
    if not all(u.function for u in use) or own != names:
        return []
    return [*never_used(kernel, *use, launches), *no_remainder(kernel, *use), *no_negative(kernel, *use)]


def other_order(kernel: Kernel, own: Function) -> list[Finding]:
    """The declared parameters, by their names, in another order."""
    names, declared = [v.name for v in own.parameters], [p.name for p in kernel.params]
    if names == declared or sorted(names) != sorted(declared):
        return []
    first = next(i for i, name in enumerate(names) if name != declared[i])
    line = own.parameters[first].line
    return [
        Finding.of(
            "other_order", line, declared=declared, number=first + 1, is_=declared[first], taken=names[first]
        )
    ]


# -- what is left unused -------------------------------------------------------------------------------------


class Use:
    """How often the names of a file occur in a kernel and the functions that it calls."""

    def __init__(self, file: CudaText, kernel: str):
        self.file, self.function = file, file.function(kernel)
        self.bodies = [function.body for function in reached(file, kernel)]

    @cached_property
    def counts(self) -> Counter[str]:
        return Counter(name for names in self.lines.values() for name in names)

    @cached_property
    def lines(self) -> dict[str, list[str]]:
        """The names on every line, by its text; those of a macro's replacement are included."""
        macros: dict[str, list[str]] = {}
        for m in self.file.macros:
            macros.setdefault(m.name, []).extend(_NAME.findall(m.value))
        found: dict[int, list[str]] = {}
        for body in self.bodies:
            for e in body.all("identifier"):
                pending, known = [e.code], set()
                while pending:
                    found.setdefault(e.line, []).append(name := pending.pop())
                    if name not in known:
                        known.add(name)
                        pending += [n for n in macros.get(name, ()) if n not in known]
        by_text: dict[str, list[str]] = {}
        for line, names in found.items():
            by_text.setdefault(" ".join(self.file.lines[line - 1].split()), []).extend(names)
        return by_text

    def beside(self, other: Use) -> set[str]:
        """The names on lines that the other file does not have."""
        return {name for text, names in self.lines.items() if text not in other.lines for name in names}

    @cached_property
    def against_zero(self) -> set[str]:
        """What is compared with 0."""
        comparisons = (e for body in self.bodies for e in body.all("binary_expression"))
        ordered = [e for e in comparisons if e.part("operator").code in ("<", ">", "<=", ">=")]
        return {
            e.part(a).code
            for e in ordered
            for a, b in (("left", "right"), ("right", "left"))
            if e.part(b).code in ("0", "-1")
        }

    def of(self, name: str) -> int:
        return self.counts.get(name, 0)

    def by(self, sign: str, name: str) -> list[Piece]:
        """The expressions with this operator whose right operand is a name."""
        return self._by.get((sign, name), [])

    @cached_property
    def _by(self) -> dict[tuple[str, str], list[Piece]]:
        found: dict[tuple[str, str], list[Piece]] = {}
        for body in self.bodies:
            for e in body.all("binary_expression"):
                found.setdefault((e.part("operator").code, e.part("right").code), []).append(e)
        return found

    def passed(self, name: str, sign: str) -> set[str]:
        """The functions of the file with this operator that a name is passed to."""
        calls = ((self.file.function(f), call) for body in self.bodies for f, call in body.calls())
        passed = [f for f, call in calls if f and name in [p.code for p in call.part("arguments").parts]]
        return {f.name for f in passed if any(sign_of(e) == sign for e in f.body.all("binary_expression"))}

    def masked_with(self, name: str) -> bool:
        """Whether a name is in a mask: `d & (stride - 1)` asks for a remainder where stride is a power of two."""
        masks = (e for body in self.bodies for e in body.all("binary_expression") if sign_of(e) == "&")
        return any(p.code == name for e in masks for p in e.all("identifier"))

    def times(self, name: str) -> int:
        """How often something is multiplied by a name."""
        products = (e for body in self.bodies for e in body.all("binary_expression"))
        return sum(name in (e.part("left").code, e.part("right").code) for e in products if sign_of(e) == "*")


def never_used(
    kernel: Kernel, mine: Use, stub: Use, solution: Use, launches: Sequence[Launch] = ()
) -> Iterator[Finding]:
    """Names that the solution's own lines use and this file's own do not. launches: those that go wrong; where each has
    one block, none needs its number."""
    names = [p.name for p in kernel.params] + [p.name for p in kernel.constants] + ["threadIdx", "blockIdx"]
    own = mine.beside(stub)
    missing = [n for n in names if solution.of(n) > stub.of(n) >= mine.of(n) and n not in own]
    places = {n: made_from(stub, n) for n in ("threadIdx", "blockIdx")}
    missing = [n for n in missing if not any(mine.of(d) > stub.of(d) for d in places.get(n, ()))]
    parts = {"threadIdx": "block", "blockIdx": "grid"}
    several = [n for n, p in parts.items() if any(prod(triple(getattr(e, p), p)) > 1 for e in launches)]
    missing = [n for n in missing if n not in parts or n in several or not launches]
    if not any(mine.of(n) != stub.of(n) for n in mine.counts):  # it is empty
        return
    sizes = [p.name for p in kernel.params if isinstance(p, Scalar) and not p.dtype.startswith("float")]
    kinds = [next((i for i, some in enumerate((parts, sizes)) if n in some), 2) for n in missing]
    for kind in (0, 2, 1):
        some = [n for n, k in zip(missing, kinds, strict=True) if k == kind]
        given = any(stub.of(n) for n in some)
        if some:
            alike, what = the_same(mine, some), ("never_used", "never_used", "input_never_used")[kind]
            yield Finding.of(
                "all_the_same" if alike else what, kernel=kernel.name, names=some, given=given, alike=alike
            )


def made_from(stub: Use, name: str) -> set[str]:
    """The stub's variables that are computed from a name: using `lane` is using threadIdx."""
    found: set[str] = set()
    for declared in (e for body in stub.bodies for e in body.all("init_declarator")):
        value = declared.part("value")
        if value and not found.union([name]).isdisjoint(p.code for p in value.all("identifier")):
            found.add(declared.part("declarator").code)
    return found


def no_remainder(kernel: Kernel, mine: Use, stub: Use, solution: Use) -> Iterator[Finding]:
    """No division by a parameter, or one whose remainder is not tested, where the solution does both."""
    names = [p.name for p in kernel.params if isinstance(p, Scalar)]
    tested = [name for name in names if any(map(_is_tested, solution.by("%", name)))]
    if tested and not any(stub.by("%", name) for name in tested):
        yield from untested_steps([name for name in names if name not in tested], tested, mine, stub)
    for name in names:
        asks = mine.by("%", name) or mine.times(name) > stub.times(name)
        if not any(_is_tested(e) for e in solution.by("%", name)) or stub.by("%", name):
            continue
        if mine.passed(name, "%"):
            continue
        divisions = mine.by("/", name)
        if len(divisions) > len(stub.by("/", name)) and not asks and not mine.masked_with(name):
            if from_a_step_back(mine.function, last := divisions[-1]):
                yield Finding.of("no_remainder", last.line, name=name, left="")


def from_a_step_back(function: Function, division: Piece) -> bool:
    """Whether what is divided is a place less a step in the window, `h + pad - r`. The quotient of `h + pad`, or of
    `h + pad - R`, is the end of a range of windows, and rightly rounds down."""
    left = division.part("left")
    value = value_of(division.file, left.code, division.start) if left.kind == "identifier" else left
    for e in value.all("binary_expression") if value and function.body.holds(division) else ():
        names = [p.code for p in e.part("right").all("identifier")] if sign_of(e) == "-" else []
        if any(varies(e.file, function, name, e.start) for name in names):
            return True
    return False


def untested_steps(names: list[str], tested: list[str], mine: Use, stub: Use) -> Iterator[Finding]:
    """Going the other way than the solution: `(h + pad - p * stride) / dilation`, with no remainder tested."""
    if any(mine.by("%", n) or len(mine.by("/", n)) > len(stub.by("/", n)) for n in tested):
        return
    for name in names:
        if mine.by("%", name) or mine.passed(name, "%") or mine.times(name) > stub.times(name):
            continue
        for e in mine.by("/", name):
            left = e.part("left")
            value = value_of(e.file, left.code, e.start) if left.kind == "identifier" else None
            parts = list(value.all("binary_expression")) if value else []
            steps = [p for p in parts if sign_of(p) == "*" and {q.code for q in p.parts} & set(tested)]
            if steps and any(sign_of(p) == "-" for p in parts):
                yield Finding.of("no_remainder", e.line, left=left.code, name=name)
                break


def no_negative(kernel: Kernel, mine: Use, stub: Use, solution: Use) -> Iterator[Finding]:
    """A difference that is divided although neither it nor its quotient is tested for being negative."""
    for name in (p.name for p in kernel.params if isinstance(p, Scalar)):
        if stub.by("%", name) or not any(map(_is_tested, solution.by("%", name))):
            continue
        divided = {e.part("left").code for e in mine.by("/", name)}
        for e in mine.by("%", name):
            left = e.part("left")
            value = value_of(e.file, left.code, e.start) if left.kind == "identifier" else None
            declared = e.file.variable_at(left.code, e.start) if value else None
            if declared and UNSIGNED & set(declared.type.split()):  # what is negative is very large
                continue
            minus = value and any(p.part("operator").code == "-" for p in value.all("binary_expression"))
            quotients = {
                v.name for v in e.file.variables if v.value and v.value.code == f"{left.code} / {name}"
            }
            if (
                minus
                and left.code in divided
                and not mine.against_zero & {left.code, *quotients, f"{left.code} / {name}"}
            ):
                yield Finding.of("no_negative", e.line, name=left.code)
                return


def changed_lines(stub: Use, mine: Use) -> list[Finding]:
    """The only variable of the stub that has another value in the file; a file not based on the stub is not
    compared."""
    own, given = declared(mine), declared(stub)
    if not given.keys() <= own.keys():
        return []
    changed = [(v, own[name]) for name, v in given.items() if not says_the_same(v, own[name])]
    if len(changed) != 1:
        return []
    texts = [f"{v.type} {v.name} = {shown(v.value)}" for v in changed[0]]
    line = changed[0][1].line
    return [Finding.of("changed_line", line, stub=texts[0], mine=texts[1])]


def says_the_same(a: Variable, b: Variable) -> bool:
    """Whether two declarations have the same type and provably the same value."""
    if a.type != b.type:
        return False
    numbers = random.Random(1)
    known: dict[str, int] = defaultdict(lambda: numbers.randint(1, 40))
    for _ in range(TRIED):
        both = [computed(v.value, known) for v in (a, b)]
        if None in both or both[0] != both[1]:
            return words(a.value) == words(b.value)
        known.clear()
    return True


def declared(use: Use) -> dict[str, Variable]:
    """The variables that a kernel declares once, with a value."""
    found: dict[str, list[Variable]] = {}
    for v in use.file.variables:
        if any(body.holds(v) for body in use.bodies):
            found.setdefault(v.name, []).append(v)
    return {name: all_of[0] for name, all_of in found.items() if len(all_of) == 1 and all_of[0].value}


def words(piece: Piece) -> list[str]:
    """`& 31` and `>> 5` are the same as `% 32` and `/ 32` if the left side is not negative."""
    found = [token.code for token in piece.tokens]
    for i, (sign, number) in enumerate(pairwise(found)):
        if sign in ("&", ">>") and number.isdecimal():
            power = int(number) + 1 if sign == "&" else 1 << int(number)
            if power & (power - 1) == 0:
                found[i : i + 2] = ["%" if sign == "&" else "/", str(power)]
    return found


def _is_tested(remainder: Piece) -> bool:
    """Whether it is compared, or is itself a condition."""
    outer = remainder.outer
    return outer.kind == "binary_expression" and outer.part("operator").code in ("==", "!=", "||", "&&")
