"""A tile that is stored with its rows and columns exchanged, compared with how it is read.

Both are known from the text: in a loop over k0, a thread stores the element of k0 + x, where x is one of its two
numbers, and in an inner loop over k it reads that of k. Where the solution's tile is turned, that is the task.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ...cuda.follow import value_of
from ...cuda.parts import all_indices, counter, index_of, shown, start_of
from ...cuda.pieces import Function, Piece
from ..findings import Finding
from .block_slips import expanded, shared_accesses

SIDES = ("row", "column")
THREADS = ("threadIdx.x", "threadIdx.y")
WAYS = [{(THREADS[0], i), (THREADS[1], 1 - i)} for i in (0, 1)]  # of a thread's numbers into rows and columns


def turned_tiles(function: Function, solution: Function | None = None) -> Iterator[Finding]:
    """`a[x][y] = A[row * K + k0 + x]` with `a[y][k]` in the loop over k."""
    if solution and turns(solution):
        return
    stored: dict[str, list[tuple[Piece, int, tuple[Piece, str]]]] = defaultdict(list)
    read: dict[str, list[tuple[Piece, int]]] = defaultdict(list)
    for access, array, _ in shared_accesses(function):
        outer = access.outer
        both = coordinates(access) if outer.kind != "subscript_expression" else []
        if outer.kind == "assignment_expression" and outer.part("left") == access:
            for loop, thread in summed_by(outer):
                found = [i for i, c in enumerate(both) if {t for t in THREADS if t in words(c)} == {thread}]
                stored[array.name] += [(access, i, (loop, thread)) for i in found]
        else:
            inner = access.file.around(access.start, "for_statement")
            names = {counter(loop) for loop in inner[:1]} - {""}
            read[array.name] += [(access, i) for i, c in enumerate(both) if names & words(c)]
    for name, puts in stored.items():
        ways = {i for _, i, _ in puts}, {i for _, i in read[name]}
        if [len(w) for w in ways] == [1, 1] and ways[0] != ways[1]:
            (put, at, (loop, thread)), (taken, other) = puts[0], read[name][0]
            if not all(any(around.holds(r) for _, _, (around, _) in puts) for r, _ in read[name]):
                continue  # a loop that comes later takes the elements somewhere else
            yield Finding.of(
                "turned_tiles",
                put.line,
                taken.line,
                text=f"In line {put.line}, the {SIDES[at]} of {shown(put)} is the place along {counter(loop)} ({thread} is added to it), and in "
                f"line {taken.line}, the {SIDES[other]} of {shown(taken)} is: rows and columns of {name} change places between the two.",
            )


def turns(function: Function) -> bool:
    """Whether the numbers of a thread change places between what it stores into an array and what it reads there:
    `a[y][x]` and `a[x][y]`, also where a loop begins at one of them."""
    found: dict[str, dict[bool, set[tuple[str, int]]]] = defaultdict(lambda: {True: set(), False: set()})
    for access, array, _ in shared_accesses(function):
        outer = access.outer
        stored = outer.kind == "assignment_expression" and outer.part("left") == access
        both = coordinates(access) if outer.kind != "subscript_expression" else []
        loops = function.file.around(access.start, "for_statement")
        begins = {counter(loop): expanded(first) for loop in loops if (first := start_of(loop))}
        for i, coordinate in enumerate(both):
            own = words(coordinate)
            own |= {name for loop in own & {*begins} for _, names in begins[loop] for name in names}
            found[array.name][stored] |= {(thread, i) for thread in {*THREADS} & own}
    return any(s != r and s in WAYS and r in WAYS for s, r in (sides.values() for sides in found.values()))


def coordinates(access: Piece) -> list[frozenset[tuple[str, ...]]]:
    """The row and the column of an element of a tile, each as the products that it is the sum of: of `a[y][x]`,
    `a[cur][y][x]` and `a[y * TILE + x]`."""
    indices = all_indices(access)
    if None in indices:
        return []
    *_, row, column = [[], *([names for _, names in expanded(i)] for i in indices)]
    if any(len(names) > 1 for names in column):
        row, column = ([names for names in column if (len(names) > 1) == many] for many in (True, False))
    return [frozenset(row), frozenset(column)] if row and column else []


def words(terms: frozenset[tuple[str, ...]]) -> set[str]:
    return {name for names in terms for name in names}


def summed_by(store: Piece) -> Iterator[tuple[Piece, str]]:
    """(a loop around, a thread's number), where the loop's counter and that number are added in the index of what is
    stored: both are multiplied by the same sizes there."""
    loops = [loop for loop in store.file.around(store.start, "for_statement") if counter(loop)]
    value = store.part("right")
    if value.kind == "identifier":
        sets = [e for e in store.file.whole.all("assignment_expression") if e.part("left").code == value.code]
        value = (
            sets[0].part("right")
            if len(sets) == 1
            else value_of(store.file, value.code, store.start) or value
        )
    for access in value.all("subscript_expression"):
        index = index_of(access)
        terms = [(set(names), sizes(index, names)) for _, names in expanded(index)] if index else []
        for loop in loops:
            name = counter(loop)
            scales = [scale - {name} for words, scale in terms if name in words]
            for thread in THREADS if len(scales) == 1 else ():
                if [scale - {thread} for words, scale in terms if thread in words] == scales:
                    yield loop, thread


def sizes(index: Piece, product: tuple[str, ...]) -> frozenset[str]:
    """The names of a product that are no constants of the file."""
    known = index.file.names_at(index.start)
    variable = {n for n in product if n in known and known[n].scope.type != "translation_unit"}
    return frozenset(variable | {n for n in product if n in THREADS})
