"""Which part of an index is outside of its axis: `p + r is 3 + 2 = 5, but input has h = 0 to 4 (H = 5).`"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from ...cuda.evaluate import integer_of, plain, products
from ...cuda.follow import addends_of, value_of
from ...cuda.parts import sign_of
from ...cuda.pieces import Function, Piece
from ...cuda.text import CudaText
from ...errors import KernelFault
from ..findings import Finding
from ..kinds import ENDS
from .noting import Probe

Scale = tuple[str, ...]


def outside_of_axis(
    file: CudaText, probe: Probe, values: dict[str, int], fault: KernelFault, sizes: Mapping[str, str]
) -> tuple[list[Finding], set[str]]:
    """(which part of the index is outside its axis, its variables): `p + r = 5, but input has h = 0 to 4 (H =
    5).`

    Nothing if the index does not have the strides of the array.
    """
    letters, shape = axes_of(fault)
    if fault.kind not in (*ENDS, "race") or len(probe.indices) != 1 or not letters:
        return [], set()
    terms = IndexTerms(file, probe, values)
    index = terms.taken(probe.indices[0])
    parts, sizes_of = terms.split([index, *addends_of(file, probe.indices[0].outer.outer)[1:]])
    if not parts:
        parts, sizes_of = terms.split([index])
    if 0 < (merged := len(shape) - len(parts)) < len(shape):  # such as the index of a plane across all images
        letters, shape = ["", *letters[merged + 1 :]], [math.prod(shape[: merged + 1]), *shape[merged + 1 :]]
    steps = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    scales = sorted(parts, key=lambda scale: (sizes_of[scale], len(scale)), reverse=True)
    if len(parts) != len(shape) or [sizes_of[scale] for scale in scales] != steps:
        return [], set()
    outside, names = [], set()
    for letter, size, scale in zip(letters, shape, scales, strict=True):
        own = parts[scale]
        at = sum(sign * terms.value(n) for sign, n in own)
        if letter and not 0 <= at < size:
            text = _added((sign, n) for sign, n in own)
            numbers = f"{_added((sign, str(terms.value(n))) for sign, n in own)} = " if own[1:] else ""
            axis = dict(array=fault.array, letter=letter, size=size, called=sizes.get(letter, ""))
            axis["set_in"] = [each for _, n in own if (each := terms.set_in(n, fault.line))]
            outside.append(Finding.of("outside_axis", code=text, numbers=numbers, at=at, **axis))
            names |= {p for _, n in own for p in re.findall(r"[A-Za-z_]\w*", n)}
    return outside[:2], names


class IndexTerms:
    """The terms of an index, with the values that its names had."""

    def __init__(self, file: CudaText, probe: Probe, values: dict[str, int]):
        self.file, self.probe, self.values = file, probe, values
        self.integer = integer_of(file, values)
        self.pieces: dict[str, Piece] = {}  # by their text: factors that are no names

    def taken(self, index: Piece) -> Piece:
        """What an index is computed from, where that is known: the side of a condition that was taken."""
        if index.kind == "identifier":
            index = value_of(self.file, index.code, index.start) or index
        while index.kind == "conditional_expression":
            test = self.integer(index.part("condition"))
            if test is None:
                break
            index = index.part("consequence" if test else "alternative")
        return index

    def split(self, pieces: Iterable[Piece]) -> tuple[dict[Scale, list[tuple[int, str]]], dict[Scale, int]]:
        """(signed names, elements) by the sizes that they are multiplied by; nothing where a term is anything else."""
        parts: dict[Scale, list[tuple[int, str]]] = {}
        elements: dict[Scale, int] = {}
        for sign, names in [term for piece in pieces for term in products(piece, self._text_of)]:
            fixed = [n for n in names if not self._changes(n)]
            rest = [n for n in names if n not in fixed] or fixed[:1]
            scale = tuple(sorted(n for n in fixed if n not in rest))
            known = [self.value(n) for n in (*scale, *rest)]
            if len(rest) != 1 or None in known or rest[0] in self.pieces and is_product(self.pieces[rest[0]]):
                return {}, {}
            parts.setdefault(scale, []).append((sign, rest[0]))
            elements[scale] = math.prod(known[:-1])
        return parts, elements

    def value(self, name: str) -> int | None:
        if name in self.pieces:
            return self.integer(self.pieces[name])
        return int(name) if name.isdecimal() else self.values.get(name)

    def set_in(self, name: str, line: int) -> tuple[str, int] | tuple[()]:
        """A variable of the function with the line that it gets its value in, if that is another line and no loop's head."""
        declared = self.file.variable_at(name, self.probe.indices[0].start)
        if not declared or not declared.value or declared.line == line:
            return ()
        return (name, declared.line) if declared.scope.type == "compound_statement" else ()

    def _text_of(self, piece: Piece) -> str:
        self.pieces[plain(piece)] = piece
        return plain(piece)

    def _changes(self, name: str) -> bool:
        names = [name.split(".")[0]]
        if name in self.pieces:
            names = [p.code for p in self.pieces[name].all("identifier")]
        place = self.probe.indices[0].start
        return any(varies(self.file, self.probe.function, n, place) for n in names)


def is_product(e: Piece) -> bool:
    """Whether it divides a product: `c * H * W / 4` may be a step of several axes."""
    return sign_of(e) == "/" and any(sign_of(part) == "*" for part in e.all("binary_expression"))


def _added(terms: Iterable[tuple[int, str]]) -> str:
    return "".join(f" {'-' if sign < 0 else '+'} {text}" for sign, text in terms).removeprefix(" + ").strip()


def axes_of(fault: KernelFault) -> tuple[list[str], list[int]]:
    """(letters, extents) of a fault's array with named axes: `b x k = 2 x 3`."""
    axes = r"((?:\w x )*\w) = ([\d x]+)"
    known = re.fullmatch(axes, fault.shape)
    return (known[1].split(" x "), [int(n) for n in known[2].split(" x ")]) if known else ([], [])


def varies(file: CudaText, function: Function, name: str, place: int) -> bool:
    """Whether a variable differs between threads or over time: a helper's parameter does if what it is called with does."""
    pending, asked = [(function, name, place)], set()
    while pending:
        function, name, place = pending.pop()
        declared = file.variable_at(name, place)
        if declared is None or declared.scope.type == "translation_unit" or declared.start in asked:
            continue
        asked.add(declared.start)
        mine = [v.name for v in function.parameters]
        if name in mine and function.is_kernel:
            continue
        value = None if name in mine else value_of(file, name, place)
        origins = [(function, value)] * bool(value)
        origins = arguments(file, function, mine.index(name)) if name in mine else origins
        if not origins:
            return True
        for within, value in origins:
            names = [p.code for p in value.all("identifier") if within != function or p.code != name]
            if "threadIdx" in names or "blockIdx" in names:
                return True
            pending += [(within, other, value.start) for other in names]
    return False


def arguments(file: CudaText, function: Function, number: int) -> list[tuple[Function, Piece]]:
    """(where, value) of what a helper is called with for a parameter; nothing if that cannot be followed."""
    calls = [call for name, call in file.whole.calls() if name == function.name]
    values = ((call.line, call.part("arguments").parts[number : number + 1]) for call in calls)
    given = [(file.function_at(line), value) for line, some in values for value in some]
    kinds = "subscript_expression", "call_expression", "update_expression"
    unclear = any(within in (None, function) or any(value.all(*kinds)) for within, value in given)
    return [] if unclear or len(given) < len(calls) else given
