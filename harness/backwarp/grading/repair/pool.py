"""The values that a repair may insert: variables, thread and block coordinates, and constants of a
function."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ...course.parameters import Array
from ...cuda.kinds import BUILTINS, Kinds, is_pointer, kind_of, kind_of_type
from ...cuda.pieces import Function, Piece, Variable
from ...cuda.text import CudaText
from . import terms
from .terms import turned

#: the number of a thread, and how many there are
GLOBAL, GRID = "blockIdx.x * blockDim.x + threadIdx.x", "gridDim.x * blockDim.x"
TERMS = 1000  # the code of the first term
MOST_TERMS = 60
UNUSED = -0.6  # the rank of what is never used
FAR_FETCHED = 9.0  # the rank of a value that may only replace a similar number
MOST_MEMBERS = 24  # of structures
#: a loop with a step of all threads, or a grid of two dimensions
_OVER_THE_GRID = re.compile(r"\bfor \([^;]*blockIdx|blockIdx\.y")
MOST_INDICES = 8  # names to form element indices from
_EXTENTS = "Dim.x", "Dim.y", "Dim.z"


@dataclass(frozen=True)
class Entry:
    """One value. variable: None if it can be named everywhere. known: its value if it never changes.

    varies: it differs between threads or iterations, like an index and unlike an extent. code: its number in
    compiled code. of: the entries that a term consists of; empty for names and numbers. rank: how far-fetched
    it is.
    """

    text: str
    variable: Variable | None = None
    known: int | float | None = None
    varies: bool = False
    code: int = 0
    of: tuple[int, ...] = ()
    program: tuple[int, ...] = ()
    arrays: tuple[Variable, ...] = ()
    rank: float = 0.0
    is_size: bool = False


def numbers_near(text: str) -> set[int]:
    """Numbers that may be meant instead: the double, the next one."""
    n = int(text) if text.isdecimal() else 0
    return {2 * n, 4 * n, n // 2, n // 4, n - 1, n + 1} if n > 1 else set()


def are_named_alike(index: str, extent: str) -> bool:
    """`row` and `rows`, `k` and `K`: an index and its extent."""
    extent = extent.rpartition(".")[2]  # `g.C`
    return extent == index + "s" or len(index) == 1 and index.isalpha() and extent == index.upper() != index


def is_shared(v: Variable) -> bool:
    """Whether several threads set it: to keep its value up to date would be a race of its own."""
    return "__shared__" in v.words


class Entries(list):
    """By number; all of one type, or integers first: indices. counterparts: of an entry, those that mean the
    same in another direction. partners: of texts, those of their extents. factors: of texts, what they are
    multiplied by somewhere."""

    def __init__(self, entries: Iterable[Entry] = ()):
        super().__init__(entries)
        self.counterparts: dict[int, list[int]] = {}
        self.partners: dict[str, set[str]] = {}
        self.factors: dict[str, set[str]] = {}

    def are_partners(self, index: int, extent: int) -> bool:
        one, other = self[index].text, self[extent].text
        return other in self.partners.get(one, ()) or are_named_alike(one, other)


class Pool(Kinds):
    """The values of one function, and the kind of its expressions: "integer", "float", "pointer" or "".

    programs: of the terms of all functions of the file. arrays: as the puzzle declares a kernel's. idle: parameters that
    a right kernel does not need to use."""

    def __init__(
        self,
        file: CudaText,
        function: Function,
        programs: list[tuple[int, ...]],
        arrays: Sequence[Array] = (),
        idle: Collection[str] = (),
    ):
        super().__init__(file)
        self.function, self.programs, self.idle = function, programs, idle
        self.parameters = {v.node.id for v in function.parameters}
        pointers = [v for v in function.parameters if v.pointer]
        self.arrays = [replace(array, name=v.name) for array, v in zip(arrays, pointers)]

    @cached_property
    def locals(self) -> list[Variable]:
        whole = self.function.whole
        return [v for v in self.file.variables if v.scope != self.file.root and whole.holds(v)]

    @cached_property
    def integers(self) -> Entries:
        """Names and numbers, followed by terms made of them."""
        own = terms.in_text(self.function.body, set(self._names[0]))[:MOST_TERMS]
        texts = [(text, 0.5, False) for text in own]
        texts += [(e.code, 0.4, False) for e in self._elements("integer")]
        texts += [(text, 0.4, False) for text in (GLOBAL, GRID) if self._lacks_blocks]
        texts += [(text, 0.0, True) for text in dict.fromkeys(terms.sizes(self.arrays))]
        for array in self.arrays:
            places = [*terms.places(array, *self._indices)]
            texts += [(text, 0.6, False) for text in places]
            if array.dtype == "int32" and array.is_input:
                unused = UNUSED if self._uses(array.name) < 2 else 0.3
                texts += [(f"{array.name}[{text}]", unused, False) for text in places]
        found = Entries(self._direct + self._terms(texts))
        found.partners = self._partners
        for e in self.function.body.all("binary_expression"):
            if e.part("operator").code == "*":
                left, right = e.part("left").code, e.part("right").code
                found.factors.setdefault(left, set()).add(right)
                found.factors.setdefault(right, set()).add(left)
        return found

    @cached_property
    def _lacks_blocks(self) -> bool:
        """Whether all blocks of a kernel do the same."""
        return self.function.is_kernel and "blockIdx" not in self._code

    @cached_property
    def _partners(self) -> dict[str, set[str]]:
        """Names and their bounds: from the arrays' axes, conditions, remainders and row-major indices."""
        found: dict[str, set[str]] = {}
        for array in self.arrays:
            for letter, size in array.axes:
                found.setdefault(letter, set()).add(str(size))
        for e in self.function.body.all("binary_expression"):
            left, sign, right = e.part("left"), e.part("operator").code, e.part("right")
            if sign in ("<", ">="):
                found.setdefault(left.code, set()).add(right.code)
            elif sign == "%" and e.outer and e.outer.kind == "init_declarator":
                found.setdefault(e.outer.part("declarator").code, set()).add(right.bare.code)
            elif sign == "+" and left.kind == "binary_expression" and left.part("operator").code == "*":
                found.setdefault(right.code, set()).add(left.part("right").code)
        outputs = ([str(size) for _, size in array.axes] for array in self.arrays if array.is_output)
        numbers = {*map(" * ".join, outputs)}
        for v in self.locals:
            if v.value and {"blockIdx.x", "blockDim.x"} <= set(re.findall(r"[\w.]+", v.value.code)):
                found.setdefault(v.name, set()).update(numbers)  # the index of a thread, and so of an element
        for text in [f"{index} < {e}" for index, extents in found.items() for e in extents if " " in index]:
            for other in turned(text, {v.name for v in self.locals}):  # of `left + j < W`: `top + i < H`
                index, _, extent = other.partition(" < ")
                found.setdefault(index, set()).add(extent)
        for v in self.locals:  # `p` is `down / stride_h`
            if v.value and v.value.kind == "binary_expression":
                found.setdefault(v.value.code, found.get(v.name, set()))
        return found

    @cached_property
    def floats(self) -> Entries:
        own = (v for v in self.locals if kind_of(v) == "float" and not is_shared(v))
        found = [Entry(v.name, v, varies=True, rank=self._rank(v)) for v in own]
        constants = {"0.0f": 0.0, "1.0f": 1.0, "-1.0f": -1.0, "2.0f": 2.0, "0.5f": 0.5}
        if any(word in self.function.whole.code for word in ("max", ">", "INFINITY")):
            constants |= {"-INFINITY": float("-inf"), "INFINITY": float("inf")}
        literals = (t for t in self._literals if re.fullmatch(r"\d*\.\d*[fF]?", t) and t != ".")
        constants |= {t: float(t.rstrip("fF")) for t in literals}
        found += [Entry(text, known=value) for text, value in constants.items()]
        numbered = [replace(e, code=i) for i, e in enumerate(found)]
        texts = [(e.code, 0.3, False) for e in self._elements("float")]
        for array in self.arrays:
            if array.dtype == "float32" and array.is_input:
                unused = UNUSED if self._uses(array.name) < 2 else 0.3
                texts += [(f"{array.name}[{t}]", unused, False) for t in terms.places(array, *self._indices)]
        texts += [(e.text, 0.6, False) for e in self._direct if e.variable and not e.varies]
        texts += [(f"{v.name}[0]", 0.4, False) for v in self.kept if kind_of_type(v.type) == "float"]
        return Entries(numbered + self._terms(texts, terms.FLOATS_OF))

    @cached_property
    def _direct(self) -> list[Entry]:
        own = (v for v in self.locals if kind_of(v) == "integer" and "constexpr" not in v.words)
        own = [(v, v.node.id not in self._steady) for v in own if not is_shared(v)]
        found = [Entry(v.name, v, varies=varies, rank=self._rank(v)) for v, varies in own]
        far = {"gridDim.x": FAR_FETCHED} if self._lacks_blocks else {}  # but for GRID
        for text in self._builtins:
            found.append(Entry(text, varies=not text.endswith(_EXTENTS), rank=far.get(text, 0.0)))
        found += [Entry(text) for text in self._members]
        found += self._constants
        literals = {int(t) for t in self._literals if re.fullmatch(r"\d{1,6}", t)} | {0, 1, 2}
        found += [Entry(str(n), known=n) for n in sorted(literals)]
        near = {n for t in literals if t > 1 for n in numbers_near(str(t))} - literals
        found += [Entry(str(n), known=n, rank=FAR_FETCHED) for n in sorted(near)]
        return [replace(e, code=i) for i, e in enumerate(found)]

    @cached_property
    def _names(self) -> list[dict[str, int]]:
        """The numbers of names; several if several variables have the same name."""
        found: list[dict[str, int]] = [{}]
        for i, e in enumerate(self._direct):
            layer = next((names for names in found if e.text not in names), None)
            if layer is None:
                found.append(layer := {})
            layer[e.text] = i
        return [found[0] | layer for layer in found]

    @cached_property
    def _indices(self) -> tuple[list[str], list[str]]:
        """Names, and those that vary, from which an element's index may be formed."""
        own = [e for e in self._direct if e.variable]
        varying = [e.text for e in own if e.varies]
        return list(dict.fromkeys(e.text for e in own)), list(dict.fromkeys(varying))[:MOST_INDICES]

    @cached_property
    def kept(self) -> list[Variable]:
        """Pointers whose elements may be inserted."""
        plain = [v for v in self.pointers if kind_of_type(v.type) in ("integer", "float")]
        return [v for v in plain if v.pointer and not v.extents and "volatile" not in v.words]

    def _terms(self, texts: Iterable[tuple[str, float, bool]], base: int = terms.INTEGERS_OF) -> list[Entry]:
        found, seen = [], set()
        ranks = {text: (rank, size) for text, rank, size in reversed(list(texts))}
        arrays = {v.name: i for i, v in enumerate(self.kept)}
        parsed = list(terms.parsed(ranks))
        for names in self._names:
            for text, e in parsed:
                program = terms.program_of(e, names, arrays, base)
                plain = len(program) < 2 and base == terms.INTEGERS_OF
                if not program or plain or program in seen or len(program) > terms.LONGEST:
                    continue
                seen.add(program)
                of = tuple({n for n in program if n >= 0})
                used = tuple(self.kept[i] for name, i in arrays.items() if re.search(rf"\b{name}\[", text))
                varies = bool(used) or any(self._direct[n].varies for n in of)
                rank, size = ranks[text]
                self.programs.append(program)
                code = TERMS + len(self.programs) - 1
                found.append(Entry(text, None, None, varies, code, of, program, used, rank, size))
        return found

    def _elements(self, kind: str) -> Iterator[Piece]:
        return (e for e in self.function.body.all("subscript_expression") if self.kind(e) == kind)

    def _rank(self, v: Variable) -> float:
        """What is never read, at most set or added to, is likely to be missing."""
        reads = re.findall(rf"\b{v.name}\b(?! (?:[-+*/%&|^]|<<|>>)?= )", self._code)
        is_read = len(reads) > (v.value is None)
        return 0.0 if is_read or v.name in self.idle else UNUSED

    def _uses(self, name: str) -> int:
        return len(re.findall(rf"\b{name}\b", self._code))

    @cached_property
    def _code(self) -> str:
        """The function without comments."""
        return " ".join(t.code for t in self.function.whole.tokens)

    @cached_property
    def _steady(self) -> set[int]:
        """Variables that are uniform and constant: computed from parameters and never set again."""
        own = [v for v in self.function.parameters if self.function.is_kernel or self._is_bound(v.name)]
        steady, names = {v.node.id for v in own}, {v.name for v in own}
        for v in self.locals:
            made_of = {n.code for n in v.value.all("identifier", "field_expression")} if v.value else {"?"}
            made_of -= {m for m in made_of if m.endswith(_EXTENTS)} | {"min", "max", "blockDim", "gridDim"}
            if v.name not in self._changed and made_of <= names | self.constants:
                steady.add(v.node.id)
                names.add(v.name)
        return steady

    def _is_bound(self, name: str) -> bool:
        """Whether a parameter of a function other than a kernel is a size."""
        bounds = set().union(*self._partners.values())
        return name in bounds or any(are_named_alike(v.name, name) for v in self.function.parameters)

    @cached_property
    def pointers(self) -> list[Variable]:
        """Pointers and arrays of one element type: one may have been confused with another."""
        own = (v for v in self.locals if v.pointer or v.extents)
        return [v for v in own if not v.file.text[v.start : v.end].startswith("&")]

    @cached_property
    def _literals(self) -> set[str]:
        return {n.code for n in self.function.body.all("number_literal")}

    @cached_property
    def _members(self) -> list[str]:
        """`g.C`: integers in structures that the function is given and does not change."""
        kept = (v for v in self.function.parameters if "const" in v.words or not v.pointer)
        given = ((v.name, m) for v in kept if not is_pointer(v) for m in self.members.get(v.type, ()))
        names = (f"{name}.{m.name}" for name, m in given if kind_of(m) == "integer")
        return [name for name in names if name not in self._changed][:MOST_MEMBERS]

    @cached_property
    def _changed(self) -> set[str]:
        """What the function sets."""
        sets = self.function.body.all("assignment_expression", "update_expression")
        return {(e.part("left") or e.part("argument")).code for e in sets}

    @cached_property
    def _builtins(self) -> list[str]:
        used = self.function.body.code
        axes = [axis for axis in "xyz" if re.search(rf"Idx\.{axis}\b|Dim\.{axis}\b", used)]
        axes = ["x", *axes] if self.function.is_kernel and "x" not in axes else axes
        grid = "gridDim" in used or _OVER_THE_GRID.search(used) or self._lacks_blocks
        return [f"{name}.{axis}" for axis in axes for name in BUILTINS if name != "gridDim" or grid]

    @cached_property
    def _constants(self) -> list[Entry]:
        """constexpr integers and macros."""
        found = {}
        for v in self.file.variables:
            fixed = v.scope == self.file.root and {"constexpr", "const"} & set(v.words)
            if fixed and kind_of(v) == "integer" and (value := self.values.integer(v.value)) is not None:
                found[v.name] = Entry(v.name, v, known=value)
        return list(found.values())

    @cached_property
    def constants(self) -> set[str]:
        """Their names."""
        return {e.text for e in self._constants}

    def here(self, entries: list[Entry], place: int) -> list[int]:
        """Those that can be named at a place, by number."""
        named: dict[str, Variable] = {}
        for e in (*self._direct, *entries):
            if (v := e.variable) is not None and v.end <= place and self._holds(v, place):
                named[e.text] = v

        def is_seen(e: Entry) -> bool:
            return e.variable is None or named.get(e.text) is e.variable

        seen = {i for i, e in enumerate(self._direct) if is_seen(e)}
        found = [(i, e) for i, e in enumerate(entries) if is_seen(e) and seen.issuperset(e.of)]
        return [i for i, e in found if all(v.end <= place and self._holds(v, place) for v in e.arrays)]

    def _holds(self, v: Variable, place: int) -> bool:
        return v.scope == self.file.root or v.scope.start_byte <= place < v.scope.end_byte
