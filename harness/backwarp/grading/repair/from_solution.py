"""Edits that the solution suggests: where a kernel differs from the solution, it is made to agree.

A kernel with another structure has too many differences and is left to the search.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import combinations, groupby

from ...cuda.text import CudaText, read
from ..differences import Difference, differences
from .edits import Edit
from .repair import Repair

MOST = 12  # places where the texts differ
SMALL, LARGEST = 32, 50  # tokens added or removed: told at once, and told if nothing likelier is found
NARROW = 6  # tokens: of larger changes, the parts that are not needed are left out
FEW, MOST_TRIED = 4, 24  # edits of a statement of which all combinations are tried, and combinations
OWN = 0.25  # share of the statements that differ in a kernel with a structure of its own
MOST_LINES = 6  # that change: more are not one change
MOST_NEW = 2  # statements: what is not written yet must not be given away
STATEMENTS = ("declaration", "expression_statement", "return_statement", "condition_clause", "for_statement")
WIDE = ("compound_statement", "for_statement")  # more than are shown
EXPRESSIONS = """
    binary_expression unary_expression call_expression subscript_expression field_expression assignment_expression
    conditional_expression parenthesized_expression update_expression cast_expression init_declarator
""".split()
_WORD = re.compile(r"[\w.]+|&&|\|\||[<>!=]=|<<|>>|\+\+|--|[-+*/%]=|\S")
#: what a change is called in which such words come or go, or nothing else does
_WITH = (
    ("a barrier", r"__sync\w+"),
    ("a memory", r"__shared__"),
    ("how it is stored", r"atomicAdd"),
    ("a function", r"__\w+"),
)
_ONLY = (
    ("an order of operations", r"[()]"),
    ("a comparison", r"[<>]=?|[!=]="),
    ("a logical operator", r"&&|\|\|"),
    ("how it is stored", r"[-+*/]?="),
    ("an operator", r"[-+*/%&|^]|<<|>>"),
    ("a type", r"float|double|int|unsigned|long|short|char|half|__half|size_t|const|\(|\)"),
    ("a place in memory", r"[][]"),
    ("another value", r"[\w.]+"),
)
#: or with which something begins that comes or goes
_FIRST = (
    ("a condition", r"&&|\|\|"),
    ("a factor", r"[*/%]"),
    ("a term", r"[-+]"),
    ("a first value", r"="),
)

Change = tuple[Edit, ...]


def repairs(source: str, solution: str, kernel: str, is_right: Callable[[str], bool]) -> Iterator[Repair]:
    """The fewest changes that make the text right, if not too large. Cost: their tokens; 1 for what only adds or removes."""

    is_whole, hidden = not read(source).root.has_error, _hidden(read(source))

    @cache
    def tried(edits: Change) -> bool:
        text = Repair(edits, 0.0, source).text
        if is_whole and read(text).root.has_error or _hidden(read(text)) > hidden:
            return False
        return is_right(text)

    parts = changes(source, solution, kernel)
    first = sorted(parts, key=lambda part: sum(len(e.after) for e in part))  # what only removes something
    edits = next((part for part in first if tried(part)), ())
    if not edits and is_of_ones_own(source, solution, kernel):
        return  # all of them together are the solution, and a part of it says little
    if not edits and len(parts) > FEW and tried(tuple(edit for part in parts for edit in part)):
        edits = fewest(parts, source, tried)  # the statements differ in what does not matter as well
    edits = edits or smallest(parts, tried)
    if len(edits) > 1 and size_of(edits, source) > NARROW:
        edits = fewest([edits], source, tried) or edits
    new = sum(_statements(e.after) - _statements(source[e.start : e.end]) for e in edits)
    size = size_of(edits, source)
    if 0 < size <= LARGEST and new <= MOST_NEW:
        is_plain = len(edits) == 1 and not (edits[0].after and edits[0].start < edits[0].end)
        found = Repair(tuple(_whole(edits, source)), 1 if is_plain else size, source)
        if len(found.lines) <= MOST_LINES:
            yield found


def _hidden(file: CudaText) -> int:
    """How many variables of a function hide one of an outer block: what is wrong there would only be hidden."""
    own = (v for v in file.variables if v.scope and v.scope.type != "for_statement")  # counters of loops may
    outer = ((v, file.variable_at(v.name, v.start)) for v in own)
    return sum(o is not None and o.scope not in (file.root, v.scope) for v, o in outer)


def is_of_ones_own(source: str, solution: str, kernel: str) -> bool:
    """Whether a kernel that differs from the solution in so many statements has a structure of its own."""
    function = read(source).function(kernel)
    count = len(list(function.body.all(*STATEMENTS))) if function else 0
    return len(changes(source, solution, kernel)) > max(FEW, OWN * count)


def _statements(text: str) -> int:
    """How many end in a text; those in the head of a `for` do not count."""
    return text.count(";") - 2 * len(re.findall(r"\bfor\b", text))


def size_of(edits: Change, source: str) -> int:
    """In tokens added or removed."""
    return sum(len(_WORD.findall(f"{source[e.start : e.end]} {e.after}")) for e in edits)


def _whole(edits: Change, source: str) -> Iterator[Edit]:
    """The same edit widened to the whole expression, or to the statement if several places change: as it is shown."""
    file = read(source)
    parts = [tuple(part) for _, part in groupby(edits, key=lambda e: _statement(file, e.start))]
    for part in parts:
        start, end = part[0].start, part[-1].end
        is_word = len(part) == 1 and all(re.fullmatch(r"\w+", t) for t in (source[start:end], part[0].after))
        kinds = *STATEMENTS, *(() if len(parts) > 1 else EXPRESSIONS), "compound_statement"
        fits = (e for e in file.around(start, *kinds) if e.end >= end)
        shown = next(fits, None)
        if is_word or shown is None or shown.kind in WIDE or "\n" in source[shown.start : shown.end]:
            yield from part
        else:
            changed = source[: shown.end]
            for edit in reversed(part):
                changed = edit.apply(changed)
            yield Edit(shown.start, shown.end, changed[shown.start :], part[0].says)


def changes(source: str, solution: str, kernel: str) -> list[Change]:
    """One for every statement that differs, unless it is too large; none if too many do."""
    mine, right = read(source), read(solution)
    found = differences(mine, right, kernel)
    own, its = mine.function(kernel), right.function(kernel)
    if own and its and [v.name for v in own.parameters] == [v.name for v in its.parameters]:
        found = [d for d in found if not own.whole.start <= d.start < own.body.start]  # what is given stays
    groups = groupby(found, key=lambda d: _statement(mine, d.start))
    statements = [_called([*some], source) for _, some in groups]
    small = [some for some in statements if size_of(some, source) <= LARGEST]
    return small if len(small) <= MOST else []


def _called(some: Sequence[Difference], source: str) -> Change:
    """The edits of one statement, by the name for all of them."""
    before = [w for d in some for w in _WORD.findall(source[d.start : d.end])]
    after = [w for d in some for w in _WORD.findall(d.right)]
    return tuple(Edit(d.start, d.end, d.right, kind_of(before, after)) for d in some)


def fewest(parts: Sequence[Change], source: str, is_right: Callable[[Change], bool]) -> Change:
    """The smallest edits of one statement, all of expressions, that make the kernel right alone; () if there are none."""
    some = []
    for part in parts:
        plain = [e for e in part if ";" not in source[e.start : e.end] + e.after]
        for n in range(1, 1 + (len(plain) if len(plain) <= FEW else 2)):
            some += combinations(plain, n)
    some = sorted(some, key=lambda chosen: size_of(chosen, source))[:MOST_TRIED]
    return next((chosen for chosen in some if is_right(chosen)), ())


def smallest(parts: Sequence[Change], is_right: Callable[[Change], bool]) -> Change:
    """A minimal subset of the changes that makes the kernel right; () if even all of them do not (delta
    debugging: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002)."""
    parts, pieces = list(parts), 2
    right = cache(lambda some: is_right(tuple(edit for change in some for edit in change)))
    while len(parts) > 1:
        some = -(-len(parts) // pieces)
        chunks = [parts[i : i + some] for i in range(0, len(parts), some)]
        others = [[p for p in parts if p not in chunk] for chunk in chunks] if len(chunks) > 2 else []
        less = next((kept for kept in [*chunks, *others] if right(tuple(kept))), None)
        if less:
            parts, pieces = less, max(2, pieces - 1) if less in others else 2
        elif some == 1:
            break
        else:
            pieces = min(2 * pieces, len(parts))
    return tuple(edit for change in parts for edit in change) if parts and right(tuple(parts)) else ()


def kind_of(before: Sequence[str], after: Sequence[str]) -> str:
    """The kind of change, as telling.py calls it."""
    words = [w for w in (*before, *after) if w not in (";", ",")]
    if sorted(before) == sorted(after) and len(before) > 1:
        return "two that are exchanged"
    if says := next((says for says, p in _WITH if any(re.fullmatch(p, w) for w in words)), ""):
        return says
    if not before or not after:
        if ";" in after or ";" in before:
            return "a statement too many" if before else "a statement that is missing"
        signs = [words[0], words[-1], *(w for w in words if not w[0].isalnum() and w not in "()")]
        if says := next((says for w in signs for says, p in _FIRST if re.fullmatch(p, w)), ""):
            return says
        if {"++", "--"} & {*words}:
            return "the step of a loop"
    if {"&&", "||", "?"} & {*words} and len(words) > 2:
        return "a choice" if "?" in words else "a condition"
    return next((says for says, p in _ONLY if all(re.fullmatch(p, w) for w in words)), "an expression")


def _statement(file: CudaText, place: int) -> int:
    """The start of the innermost statement around a place; the place itself if it is between statements."""
    inner = next(iter(file.around(place, *STATEMENTS, "compound_statement")), None)
    return inner.start if inner and inner.kind != "compound_statement" else place
