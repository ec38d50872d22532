"""`if (t < n) tile[t] = …;` where a block has fewer threads than a tile has elements: a loop instead."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...cuda.pieces import Function, Piece, Variable
from .edits import Edit

_NAMES = ("i", "j", "n", "e", "place")  # of the loop's own index


def loops_that_fill(function: Function) -> Iterator[tuple[Edit, ...]]:
    """For every `if` by which each thread of a block stores at most one element of a shared array."""
    for p in function.body.all("if_statement"):
        body, test = p.part("consequence"), p.part("condition").part("value")
        if p.part("alternative") or test is None or test.kind != "binary_expression":
            continue
        index, sign, bound = (test.part(name) for name in ("left", "operator", "right"))
        v = p.file.variable_at(index.code, p.start) if index.kind == "identifier" else None
        if v is None or sign.code != "<" or not _fills(body) or not (axes := _axes(v)):
            continue
        for step in _steps(function, axes):
            head = "for (int {0} = {1}; {0} < " + bound.code + "; {0} += " + step + ") "
            yield _of_declared(p, v, head) or _of_thread(p, v, head)


def _of_declared(p: Piece, v: Variable, head: str) -> tuple[Edit, ...]:
    """`int e = t; if (e < n)`, where nothing else uses e."""
    before = p.node.prev_named_sibling
    alone = before is not None and len(before.children_by_field_name("declarator")) == 1
    if not alone or v.outer is None or v.outer.node != before or v.value is None:
        return ()
    whole = p.outer
    if any(n.code == v.name and n.start >= p.end for n in whole.all("identifier")):
        return ()
    head = head.format(v.name, v.value.code)
    return (Edit(v.outer.start, p.part("consequence").start, head, "a loop that is missing"),)


def _of_thread(p: Piece, v: Variable, head: str) -> tuple[Edit, ...]:
    """`if (t < n)`: the loop has an index of its own."""
    body = p.part("consequence")
    taken = {n.code for n in body.all("identifier")}
    own = next(name for name in (*_NAMES, f"{v.name}_") if name not in taken)
    head = Edit(p.start, body.start, head.format(own, v.name), "a loop that is missing")
    names = [n for n in body.all("identifier") if n.code == v.name]
    return (head, *(Edit(n.start, n.end, own, head.says) for n in names))


def _fills(body: Piece) -> bool:
    """Whether it stores into shared memory."""
    targets = (e.part("left").indexed for e in body.all("assignment_expression"))
    named = (v for t in targets for v in t.file.named(t.code, t.start))
    return any("__shared__" in v.words for v in named)


def _axes(v: Variable) -> set[str]:
    """The axes of threadIdx that its first value is computed from; none if it depends on the block."""
    found, seen, new = set(), set(), [v]
    while new:
        v = new.pop()
        text = v.value.code if v.value else "blockIdx"
        if "blockIdx" in text or v.start in seen:
            return set()
        seen.add(v.start)
        found |= set(re.findall(r"threadIdx\.(\w)", text))
        names = v.value.all("identifier")
        new += [w for n in names if (w := v.file.variable_at(n.code, v.start)) and w.scope != v.file.root]
    return found


def _steps(function: Function, axes: set[str]) -> Iterator[str]:
    """How many threads a block has: a constant that nothing uses, or the block's own sizes."""
    file = function.file
    for v in file.variables:
        plain = v.scope == file.root and {"const", "constexpr"} & {*v.words} and v.value
        if plain and len(re.findall(rf"\b{v.name}\b", file.text)) == 1:
            yield v.name
    yield " * ".join(f"blockDim.{axis}" for axis in sorted(axes))
