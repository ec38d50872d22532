"""Values that are more than a name: products and sums from the kernel's own text, sizes of arrays, and the
array elements that the names in scope index.

A term is compiled to a short program of numbers for a stack machine: each is a pool entry, an operator, or an
array that the number on the stack indexes. `backwarp_term` (support.py) evaluates it on demand.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import permutations

from ...course.parameters import Array
from ...cuda.pieces import Piece
from ...cuda.text import read

SIGNS = {"+": -1, "-": -2, "*": -3, "/": -4, "%": -5}
INTEGERS_OF, FLOATS_OF, END = -16, -64, -99  # of an array: this less its number
LONGEST = 16  # numbers of a program
MOST_LEAVES = 7
MOST = 48  # terms of the text of a function
_NAMES = ("identifier", "number_literal", "field_expression")


def program_of(
    e: Piece, names: dict[str, int], arrays: dict[str, int], base: int = INTEGERS_OF
) -> tuple[int, ...]:
    """The program for an expression; () if it has more than sums, products and elements of names in the pool."""
    if e.kind in _NAMES:
        return (names[e.code],) if e.code in names else ()
    if e.kind == "parenthesized_expression" and len(e.parts) == 1:
        return program_of(e.parts[0], names, arrays)
    if e.kind == "subscript_expression" and (array := e.part("argument").code) in arrays:
        index = program_of(_index(e), names, arrays)
        return (*index, base - arrays[array]) if index else ()
    if e.kind == "binary_expression" and (sign := SIGNS.get(e.part("operator").code)):
        left, right = (program_of(e.part(side), names, arrays) for side in ("left", "right"))
        return (*left, *right, sign) if left and right else ()
    return ()


def _index(e: Piece) -> Piece:
    inside = e.part("indices") or e.part("index")
    return inside.parts[0] if inside.kind == "subscript_argument_list" else inside


def value_of(program: Sequence[int], known: Sequence) -> int | None:
    """The value of a program if its entries are known; None if one is not, or elements are read."""
    stack: list[int] = []
    for n in program:
        if n >= 0:
            if n >= len(known) or not isinstance(known[n], int):
                return None
            stack.append(known[n])
            continue
        if n < min(SIGNS.values()):
            return None
        right, left = stack.pop(), stack.pop()
        if n <= SIGNS["/"] and not right:
            return None
        quotient = abs(left) // abs(right) * (1 if left * right >= 0 else -1) if right else 0
        stack.append((left + right, left - right, left * right, quotient, left - right * quotient)[-n - 1])
    return stack[0]


def parsed(texts: Iterable[str]) -> Iterator[tuple[str, Piece]]:
    """Each text parsed as an expression."""
    texts = list(texts)
    file = read("".join(f"int v = {text};\n" for text in texts))
    values = [v.value for v in file.variables]
    yield from ((text, value) for text, value in zip(texts, values) if value)


def in_text(body: Piece, names: Collection[str]) -> list[str]:
    """The sums, products and remainders in a function, frequent ones first, also for other directions; for quotients remainders."""
    found: Counter[str] = Counter()
    for e in body.all("binary_expression"):
        if e.part("operator").code in SIGNS and 2 <= len(list(e.all(*_NAMES))) <= MOST_LEAVES:
            found[" ".join(e.code.split())] += 1
    for text in list(found):
        others = [text, *turned(text, names)]
        if re.fullmatch(r"[\w.]+ [/%] [\w.]+", text):
            others += [o.translate(str.maketrans("/%", "%/")) for o in others]
            others += [text.replace("threadIdx", "blockDim")] if " / " in text else []  # how many there are
        for other in others:
            found[other] += 0
    return sorted(found, key=lambda text: (-min(found[text], 2), len(re.findall(r"\w+", text))))


def sizes(arrays: Iterable[Array]) -> Iterator[str]:
    """The sizes of arrays and the strides of their axes."""
    for array in arrays:
        dims = [str(size) for _, size in array.axes]
        yield from (" * ".join(dims[i:j]) for i in range(len(dims)) for j in range(i + 2, len(dims) + 1))


def places(array: Array, names: Sequence[str], varying: Sequence[str]) -> Iterator[str]:
    """Flat indices of an array's elements: by the letters of its axes; for a matrix by any two names that vary."""
    letters = [letter for letter, _ in array.axes]
    if set(letters) <= set(names):
        yield row_major(letters, array)
    if len(letters) < 3:
        yield from (row_major(some, array) for some in permutations(varying, len(letters)))
    yield from varying


def row_major(indices: Sequence[str], array: Array) -> str:
    text = indices[0]
    for index, (_, size) in zip(indices[1:], array.axes[1:]):
        text = f"{f'({text})' if ' ' in text else text} * {size} + {index}"
    return text


@cache
def words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[A-Za-z_]\w*(?:\.\w+)?", text))


# -- rows and columns: names that mean the same in different directions, as `pad_h` and `pad_w` --

#: words, and parts of names, that stand for the depth, the rows and the columns
_DIRECTIONS = """d h w, D H W, o p q, t r s, T R S, z y x, in down right, - P Q, - row col, - row column, - rows cols,
    - rows columns, - height width, - down across, - top left, - i j, - y x, - u v, - m n, - M N""".split(",")
_OTHERS = ("a b", "A B", "first second", "in out")
#: of `rowStart` as well as of `row_start`
_PART = re.compile(r"(?:thread|block|grid)(?:Idx|Dim)|[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[A-Z]|[^A-Za-z]+")
_COUNTERPARTS: dict[str, dict[str, set[tuple[int, int]]]] = {}
_LONG = [words for words in _DIRECTIONS if max(map(len, words.split())) > 2]
_CAPITAL = [form(words) for words in _LONG for form in (str.upper, str.title)]
for _words in (*_DIRECTIONS, *_CAPITAL, *_OTHERS):
    for _i, _one in enumerate(_words.split()):
        for _j, _other in enumerate(_words.split()):
            if _i != _j:
                _COUNTERPARTS.setdefault(_one, {}).setdefault(_other, set()).add((min(_i, _j), max(_i, _j)))
_IN_SHORT = "dhw DHW pq PQ rs RS xy XY".split()  # letters of short names, as in `sh`, `OH` and `ty`


@cache
def are_counterparts(one: str, other: str) -> bool:
    """`pad_h * H` and `pad_w * W`: the same text but for the direction. Rows are quotients, columns remainders."""
    if one == other:
        return False
    a, b = (_PART.findall(text.replace("%", "/")) for text in (one, other))
    return len(a) == len(b) and all(
        x == y or y in _COUNTERPARTS.get(x, ()) or y in _shortly_turned(x) for x, y in zip(a, b)
    )


@cache
def _shortly_turned(part: str) -> tuple[str, ...]:
    """`sw` for `sh`, `OW` for `OH`, `tx` for `ty`: short names with the letter of another direction."""
    if len(part) not in (2, 3) or part in _COUNTERPARTS:
        return ()
    turned = ((i, other) for i, own in enumerate(part) for s in _IN_SHORT if own in s for other in s)
    return tuple(part[:i] + other + part[i + 1 :] for i, other in turned if other != part[i])


def are_akin(one: str, other: str) -> bool:
    """`C_in` and `C_out`, `W` and `W_out`, `blockDim.x` and `threadIdx.x`: names that share a part."""
    short = len(one) + len(other) == 3 and (one.startswith(other) or other.startswith(one))  # `H` and `Ho`
    return short or bool(_words(one) & _words(other))


@cache
def _words(name: str) -> frozenset[str]:
    return frozenset(part for part in _PART.findall(name) if part.isalpha())


def of_one_direction(one: str, other: str) -> bool:
    """`p` and `stride_h`: names with parts that denote the same direction."""
    return bool(_of(one) & _of(other))


@cache
def _of(name: str) -> frozenset[int]:
    parts, known = _PART.findall(name), [words.split() for words in (*_DIRECTIONS, *_CAPITAL)]
    return frozenset(words.index(part) for part in parts for words in known if part in words)


def turned(text: str, names: Collection[str]) -> Iterator[str]:
    """The texts with the names of one direction replaced by those of another, if there are such names."""
    words = re.split(r"((?<![.\w])\w+)", text)  # not the members of a vector
    for pair in ((1, 2), (0, 1), (0, 2)):
        new = list(words)
        for i in range(1, len(words), 2):
            new[i] = next((n for n in _turned(words[i], pair) if n in names), words[i])
        if new != words:
            yield "".join(new)


@cache
def _turned(word: str, pair: tuple[int, int]) -> tuple[str, ...]:
    found = [""]
    for part in _PART.findall(word):
        others = [other for other, pairs in _COUNTERPARTS.get(part, {}).items() if pair in pairs]
        others = others or [part, *(_shortly_turned(part) if pair == (1, 2) else ())]
        found = [text + other for text in found for other in others]
    return tuple(text for text in found if text != word)
