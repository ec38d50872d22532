"""Edits that the solution suggests: where a kernel says something else than the solution, it is made to say the same.

Names do not count: a variable of the solution is the student's of that name or place. A kernel that is built in another
way has too many differences, and is left to the search for edits of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from functools import cache
from itertools import groupby

from ...course.cuda_text import CudaText, Function, Piece, read
from ..causes.findings import reached
from .edits import Edit
from .repair import Repair

MOST = 12  # places in which the texts differ
SMALL, LARGEST = 20, 30  # words that come or go: what is told at once, and what where nothing else is found
MOST_NEW = 2  # statements: what is not written yet is not given away
SAME = 0.6  # of their words at least
STATEMENTS = ("declaration", "expression_statement", "return_statement", "condition_clause", "for_statement")
WIDE = ("compound_statement", "for_statement")  # more than is shown
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
Names = dict[str, str]  # of variables of the solution: the student's


def repairs(source: str, solution: str, kernel: str, is_right: Callable[[str], bool]) -> Iterator[Repair]:
    """The fewest changes with which the text is right, if they are not too large. The cost is their size in words;
    1 if there is one, which only adds or removes."""

    def tried(edits: Change) -> bool:
        return is_right(Repair(edits, 0.0, source).text)

    edits = smallest(changes(source, solution, kernel), tried)
    words = [re.findall(r"\w+|\S", f"{source[e.start : e.end]} {e.after}") for e in edits]
    new = sum(e.after.count(";") - source.count(";", e.start, e.end) for e in edits)
    size = sum(map(len, words))
    if 0 < size <= LARGEST and new <= MOST_NEW:
        is_plain = len(edits) == 1 and not (edits[0].after and edits[0].start < edits[0].end)
        yield Repair(tuple(_whole(edits, source)), 1 if is_plain else size, source)


def _whole(edits: Change, source: str) -> Iterator[Edit]:
    """The same, with the expression around what changes, or the statement where several do: as it is shown."""
    file = read(source)
    parts = [tuple(part) for _, part in groupby(edits, key=lambda e: _statement(file, e.start))]
    for part in parts:
        start, end = part[0].start, part[-1].end
        is_word = (
            len(part) == 1 and re.fullmatch(r"\w+", source[start:end]) and re.fullmatch(r"\w+", part[0].after)
        )
        around = file.around(
            start, *STATEMENTS, *(() if len(parts) > 1 else EXPRESSIONS), "compound_statement"
        )
        fits = (e for e in around if e.end >= end)
        shown = next(fits, None)
        if is_word or shown is None or shown.kind in WIDE or "\n" in source[shown.start : shown.end]:
            yield from part
        else:
            changed = source[: shown.end]
            for edit in reversed(part):
                changed = edit.apply(changed)
            yield Edit(shown.start, shown.end, changed[shown.start :], part[0].says)


def changes(source: str, solution: str, kernel: str) -> list[Change]:
    """One for every statement in which a kernel, what it calls and the constants of the file differ; none where too much
    does."""
    mine, right = read(source), read(solution)
    found = []
    own, theirs = ({f.name: f for f in reached(file, kernel)} for file in (mine, right))
    for name in own.keys() & theirs.keys():
        names = named_alike(own[name], theirs[name])
        found += _between(own[name].whole.tokens, theirs[name].whole.tokens, names)
    for one, other in _constants(mine, right):
        found += _between(one.tokens, other.tokens, {})
    grouped = groupby(sorted(found, key=lambda e: e.start), key=lambda e: _statement(mine, e.start))
    statements = [tuple(_called(tuple(edits), source)) for _, edits in grouped]
    return statements if len(statements) <= MOST else []


def _called(edits: Change, source: str) -> Iterator[Edit]:
    """The edits of one statement, by the name for all of them."""
    before = [w for e in edits for w in _WORD.findall(source[e.start : e.end])]
    after = [w for e in edits for w in _WORD.findall(e.after)]
    return (replace(e, says=kind_of(before, after)) for e in edits)


def smallest(parts: Sequence[Change], is_right: Callable[[Change], bool]) -> Change:
    """As few of the changes as make the kernel right, as all together are expected to; () where they do not (delta
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


def named_alike(mine: Function, right: Function) -> Names:
    """The student's names of the solution's variables: parameters by their place, others by which are most often used at
    the same places."""
    names = {v.name: own.name for v, own in zip(right.parameters, mine.parameters)}
    own, theirs = _locals(mine), _locals(right)
    at, there = mine.body.tokens, right.body.tokens
    same = _matcher(
        at, dict.fromkeys(own, ""), there, names | dict.fromkeys(theirs, "")
    ).get_matching_blocks()
    pairs = [(there[b + i].code, at[a + i].code) for a, b, size in same for i in range(size)]
    used = Counter((name, alike) for name, alike in pairs if name in theirs and alike in own)
    for (name, alike), _ in sorted(used.items(), key=lambda item: (-item[1], item[0][0] != item[0][1])):
        if name not in names and alike not in names.values():
            names[name] = alike
    return names


def _matcher(mine: Sequence[Piece], own: Names, right: Sequence[Piece], theirs: Names) -> SequenceMatcher:
    """Of words, in which variables are named so."""
    return SequenceMatcher(
        None, [_named(t, own) for t in mine], [_named(t, theirs) for t in right], autojunk=False
    )


def _named(token: Piece, names: Names) -> str:
    return names.get(token.code, token.code) if token.kind == "identifier" else token.code


def _locals(function: Function) -> set[str]:
    return {v.name for v in function.file.variables if function.body.holds(v)}


def _constants(mine: CudaText, right: CudaText) -> Iterator[tuple[Piece, Piece]]:
    """Their declarations in both files."""
    own = {v.name: v for v in mine.variables if v.scope == mine.root}
    yield from ((own[v.name], v) for v in right.variables if v.scope == right.root and v.name in own)


def _between(mine: Sequence[Piece], right: Sequence[Piece], names: Names) -> Iterator[Edit]:
    """What is to be changed in these words of a file; nothing where few of them are the same."""
    matcher = _matcher(mine, {}, right, names)
    own, theirs = matcher.a, matcher.b
    if matcher.real_quick_ratio() < SAME or matcher.ratio() < SAME:
        return
    text = mine[0].file.text
    for kind, first, last, start, end in matcher.get_opcodes():
        if kind == "equal":
            continue
        if kind != "replace":  # whole statements, not `; f()` before a `;`
            by = (
                _shift(theirs[start:], end - start) if kind == "insert" else _shift(own[first:], last - first)
            )
            first, last, start, end = first + by, last + by, start + by, end + by
        after = "".join(_gap(right, i) * (i > start) + theirs[i] for i in range(start, end))
        ends = end > start and theirs[end - 1] in (";", "}")
        at, until = (mine[first].start, mine[last - 1].end) if first < last else _before(mine, first, ends)
        if not after and not _gap(right, start):
            at = mine[first - 1].end if first and mine[first - 1].line == mine[first].line else at
        before, behind = (_gap(right, i) if after else "" for i in (start, end))
        after = before * (not text[at - 1].isspace()) + after + behind * (not text[until].isspace())
        yield Edit(at, until, after, "")


def _shift(words: Sequence[str], size: int) -> int:
    """By how much what comes or goes can begin later, so that it ends where a statement does; 0 where it does."""
    for by in range(size):
        if words[by + size - 1] in (";", "}"):
            return by
        if by + size == len(words) or words[by] != words[by + size]:
            break
    return 0


def _before(words: Sequence[Piece], i: int, ends: bool) -> tuple[int, int]:
    """Where something is inserted before a word. ends: whether it is a statement, which goes to the end of the line before
    if the word is the first of its line."""
    first = i < len(words) and i and words[i - 1].line < words[i].line
    at = words[i - 1].end if i == len(words) or ends and first else words[i].start
    return at, at


def _gap(tokens: Sequence[Piece], i: int) -> str:
    """What stands before a word, without comments."""
    return " " if 0 < i < len(tokens) and tokens[i - 1].end < tokens[i].start else ""


def kind_of(before: Sequence[str], after: Sequence[str]) -> str:
    """What kind of change it is, as telling.py calls it."""
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
    """Where the innermost statement around a place begins; the place itself between statements."""
    inner = next(iter(file.around(place, *STATEMENTS, "compound_statement")), None)
    return inner.start if inner and inner.kind != "compound_statement" else place
