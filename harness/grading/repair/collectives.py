"""Edits of warp collectives and barriers, each a file of its own: masks, other shuffles, and conditions that keep away threads
which have to take part."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from ...cuda.pieces import Function, Piece
from ...cuda.text import read
from ...cuda.values import Values
from .edits import Edit

ALL_LANES = 0xFFFFFFFF
WARP = "32"
_OF_WARP = re.compile(r"__\w+_sync|__syncwarp")
_COLLECTIVE = re.compile(r"__\w+_sync|__syncwarp|__syncthreads\w*")
_ABSENT = ("shuffle-mask", "barrier-divergence")  # faults: some thread takes no part
_OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
#: what may be meant by a shuffle
SHUFFLES = {
    "__shfl_sync": ("__shfl_down_sync", "__shfl_xor_sync"),
    "__shfl_up_sync": ("__shfl_down_sync",),
    "__shfl_down_sync": ("__shfl_xor_sync", "__shfl_up_sync"),
    "__shfl_xor_sync": ("__shfl_down_sync",),
}


def edits(source: str, kernel: str, fault: Mapping) -> Iterator[tuple[Edit, ...]]:
    """Of a kernel and of the functions of its file. fault: the verdict's."""
    file = read(source)
    others = {k.name for k in file.kernels} - {kernel}
    functions = [f for f in file.functions if f.name not in others]
    joint = {f.name for f in functions if any(_COLLECTIVE.fullmatch(name) for name, _ in f.body.calls())}
    for function in functions:
        yield from _masks(function)
    for function in functions if fault.get("kind") in _ABSENT else ():
        yield from _everyone(function, joint)
    for function in functions:
        yield from _left_too_soon(function, joint)
    for function in functions:
        yield from _shuffles(function)


def _masks(function: Function) -> Iterator[tuple[Edit, ...]]:
    """Calls that do not name all lanes: those with one mask together, and each alone."""
    found: dict[str, list[Edit]] = {}
    values = Values(function.file)
    for name, call in function.body.calls():
        mask = next(iter(call.part("arguments").parts), None)
        if _OF_WARP.fullmatch(name) and mask is not None:
            if (value := values.integer(mask)) is None or value & ALL_LANES != ALL_LANES:
                found.setdefault(mask.code, []).append(
                    Edit(mask.start, mask.end, hex(ALL_LANES), "another value")
                )
    for alike in found.values():
        yield tuple(alike)
        yield from ((edit,) for edit in alike if len(alike) > 1)


def _everyone(function: Function, joint: Collection[str]) -> Iterator[tuple[Edit, ...]]:
    """`if (lane < n) x += __shfl_down_sync(…);` without its condition, or with one for the whole warp, in which the others
    read nothing and have 0."""
    for p in function.body.all("if_statement"):
        body, test = p.part("consequence"), p.part("condition").part("value")
        if p.part("alternative") or not any(_COLLECTIVE.fullmatch(n) or n in joint for n, _ in body.calls()):
            continue
        yield (Edit(p.start, body.start, "", "a condition"),)
        bound = test.part("right") if test is not None and test.kind == "binary_expression" else None
        if bound is not None and test.part("operator").code == "<" and bound.code != WARP:
            read_by_some = [
                Edit(value.start, value.end, f"{test.code} ? {value.code} : 0", "a choice")
                for s in body.parts
                if s.kind == "declaration"
                for value in (d.part("value") for d in s.all("init_declarator"))
                if _reads(value)
            ]
            yield (Edit(bound.start, bound.end, WARP, "a condition"), *read_by_some)


def _left_too_soon(function: Function, joint: Collection[str]) -> Iterator[tuple[Edit, ...]]:
    """`if (y >= H) return;` before a tile is loaded: these threads stay, and leave out what is stored at the end."""
    parts = function.body.parts
    meets = [
        i for i, p in enumerate(parts) if any(_COLLECTIVE.fullmatch(n) or n in joint for n, _ in p.calls())
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
    if not any(_COLLECTIVE.fullmatch(n) or n in joint for n, _ in p.calls()):
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


def _reads(value: Piece | None) -> bool:
    return value is not None and next(value.all("subscript_expression"), None) is not None


def _shuffles(function: Function) -> Iterator[tuple[Edit, ...]]:
    """All calls of one shuffle changed to another; expressions.py changes a single one."""
    found: dict[str, list[Piece]] = {}
    for name, call in function.body.calls():
        if name in SHUFFLES and call.part("function").code == name:
            found.setdefault(name, []).append(call.part("function"))
    for name, alike in found.items():
        for other in SHUFFLES[name] if len(alike) > 1 else ():
            yield tuple(Edit(own.start, own.end, other, "a function") for own in alike)
