"""Edits that cannot be selected at run time, each a file of its own: types, threads that leave too soon, and what may make a
right kernel faster. Each needs a reason in the text, so there are few.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import islice, pairwise

from ...cuda.kinds import kind_of
from ...cuda.parts import reached
from ...cuda.pieces import Function, Piece, Variable
from ...cuda.text import read
from .edits import Edit
from .pool import Pool

COLLECTIVE = re.compile(r"__\w+_sync|__syncwarp|__syncthreads\w*")
_OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
SHORTEST = 20  # characters of a statement that is a slip if it occurs twice
NARROW = (
    "short",
    "unsigned short",
    "char",
    "unsigned char",
    "signed char",
    "int8_t",
    "uint8_t",
    "int16_t",
    "uint16_t",
)


def _extents(extents: Sequence[Piece]) -> Iterator[Edit]:
    """Padding added to or removed from the last extent; two extents swapped."""
    if not extents:
        return
    last = extents[-1]
    plain = last.part("left") if last.kind == "binary_expression" else last
    texts = [*(f"{plain.code} + {n}" for n in (4, 8, 1)), plain.code, f"2 * {plain.code}"]
    yield from (Edit(last.start, last.end, text, "a size") for text in texts if text != last.code)
    for one, other in pairwise(extents):
        both = last.file.text[one.end : other.start]
        if one.code != other.code:
            yield Edit(one.start, other.end, other.code + both + one.code, "a size")


def edits(source: str, kernel: str) -> Iterator[tuple[Edit, ...]]:
    """The edits of a kernel and of the functions that it calls."""
    functions = reached(read(source), kernel)
    joint = {f.name for f in functions if any(COLLECTIVE.fullmatch(name) for name, _ in f.body.calls())}
    for function in functions:
        yield from _left_too_soon(function, joint)
        yield from ((edit,) for edit in _types(function, Pool(function.file, function, [])))


def of_speed(source: str, kernel: str) -> Iterator[tuple[Edit, ...]]:
    """Edits that may make a right kernel faster: without a barrier, a wait or repeated work, tiles stored by
    columns, padded tiles, other tunables."""
    file = read(source)
    function = file.function(kernel)
    seen: set[str] = set()
    for statement in function.body.all("expression_statement"):
        again = len(statement.code) > SHORTEST and statement.code in seen
        if again or re.fullmatch(r"__syncthreads\(\);|\w*wait\w*(<\d+>)?\(\w*\);", statement.code):
            yield (Edit(statement.start, statement.end, "", "a statement too many"),)
        seen.add(statement.code)
    tiles = [v for v in file.variables if "__shared__" in v.words and function.whole.holds(v)]
    for v in tiles:
        if turned := tuple(_by_columns(function, v.name)):
            yield turned
    for v in tiles:
        sizes = _extents([e for e in v.extents if e])
        yield from ((edit,) for edit in islice(sizes, 4 if len(v.extents) > 1 else 0))
    for v in file.variables:
        if v.scope == file.root and "constexpr" in v.words and v.value and v.value.code.isdecimal():
            n = int(v.value.code)
            more = (4, 1) if n == 0 else (2 * n, 4 * n, n // 2)
            yield from ((Edit(v.value.start, v.value.end, str(m), "another value"),) for m in more if m)


def _by_columns(function: Function, tile: str) -> Iterator[Edit]:
    """`tile[x][y]` for `tile[y][x]`, everywhere."""
    for row in function.body.all("subscript_expression"):
        whole = row.outer
        if row.part("argument").code == tile and whole is not None and whole.part("argument") == row:
            first, second = row.part("indices"), whole.part("indices")
            if whole.kind == "subscript_expression" and first and second:
                yield Edit(first.start, whole.end, second.code + first.code, "two that are exchanged")


def _types(function: Function, pool: Pool) -> Iterator[Edit]:
    for v in pool.locals:
        place = v.outer.part("type") if v.outer else None
        if v.node.id in pool.parameters or place is None or v.pointer:
            continue
        if _without_signs(v.type) in NARROW:
            yield Edit(place.start, place.end, "int", "a type")
        elif kind_of(v) == "integer" and "float" in _given(function, pool, v):
            yield Edit(place.start, place.end, "float", "a type")


def _without_signs(type_: str) -> str:
    return " ".join(word for word in type_.split() if word not in ("const", "volatile"))


def _given(function: Function, pool: Pool, v: Variable) -> set[str]:
    """The types of what a variable is set to."""
    found = {pool.kind(v.value)} if v.value else set()
    for e in function.body.all("assignment_expression"):
        if e.part("left").code == v.name and pool.file.named(v.name, e.start) == [v]:
            found.add(pool.kind(e.part("right")))
    return found


def _left_too_soon(function: Function, joint: Collection[str]) -> Iterator[tuple[Edit, ...]]:
    """`if (y >= H) return;` before a tile is loaded: these threads stay, and leave out what is stored at the end."""
    parts = function.body.parts
    meets = [
        i for i, p in enumerate(parts) if any(COLLECTIVE.fullmatch(n) or n in joint for n, _ in p.calls())
    ]
    for i, p in enumerate(parts):
        leaves = p.part("consequence") if p.kind == "if_statement" else None
        if (
            leaves is None
            or p.part("alternative")
            or not re.fullmatch(r"return;|\{\s*return;\s*\}", leaves.code)
        ):
            continue
        test = p.part("condition").part("value")
        if test is None or not meets or i >= meets[-1]:
            continue
        guard = f"if ({opposite(test)}) "
        last = [s for s in parts[meets[-1] + 1 :] if _stores(s)]
        asked = {n.code for n in test.all("identifier", "field_expression")}
        inner = [s for part in parts[i + 1 :] for s in _alone(part, joint) if s not in last]
        named = [s for s in inner if asked & {n.code for n in s.all("identifier", "field_expression")}]
        others = [s for s in named if not _fills(s, function)]
        for guarded in dict.fromkeys(map(tuple, (last, others + last, named, named + last))):
            yield (
                Edit(p.start, p.end, "", "a return too soon"),
                *(Edit(s.start, s.start, guard, "a guard") for s in guarded),
            )


def _alone(p: Piece, joint: Collection[str]) -> Iterator[Piece]:
    """The largest statements in it in which no thread waits for another, but for declarations."""
    if p.kind == "declaration":
        return
    if not any(COLLECTIVE.fullmatch(n) or n in joint for n, _ in p.calls()):
        yield p
        return
    body = p.part("body") or p.part("consequence") or p
    for inner in body.parts if body.kind == "compound_statement" else ():
        yield from _alone(inner, joint)


def _fills(p: Piece, function: Function) -> bool:
    """Whether a statement stores into memory that the block shares."""
    shared = {v.name for v in function.file.variables if "__shared__" in v.words}
    targets = (e.part("left").indexed.code for e in p.all("assignment_expression"))
    return any(target in shared for target in targets)


def _stores(statement: Piece) -> bool:
    """Whether it stores into an array."""
    if statement.kind == "declaration":
        return False
    targets = (e.part("left") for e in statement.all("assignment_expression"))
    return any(t.kind in ("subscript_expression", "pointer_expression") for t in targets)


def opposite(test: Piece) -> str:
    """`y < H && x < W` for `y >= H || x >= W`."""
    sign = test.part("operator").code if test.kind == "binary_expression" else ""
    if sign == "||":
        sides = (test.part(side) for side in ("left", "right"))
        return " && ".join(opposite(side) for side in sides)
    if sign in _OPPOSITE:
        return f"{test.part('left').code} {_OPPOSITE[sign]} {test.part('right').code}"
    return f"!({test.code})"
