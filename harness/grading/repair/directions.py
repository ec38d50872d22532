"""Rows and columns: names that mean the same in different directions, as `pad_h` and `pad_w`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache

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
    """`pad_h * H` and `pad_w * W`: the same text but for the direction. Rows are quotients, columns remainders: `i / S`
    and `i % S`."""
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
    places = [
        words.split().index(part)
        for part in _PART.findall(name)
        for words in (*_DIRECTIONS, *_CAPITAL)
        if part in words.split()
    ]
    return frozenset(places)


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
