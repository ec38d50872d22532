"""Which part of an index is outside of its axis: `p + r is 3 + 2 = 5, but input has h = 0 to 4 (H = 5).`"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from ...cuda.evaluate import integer_of, plain, substituted
from ...cuda.follow import addends_of, value_of
from ...cuda.parts import sign_of
from ...cuda.pieces import Function, Piece
from ...cuda.text import CudaText
from ...errors import KernelFault
from ..sentences import ENDS
from .array_steps import products
from .noting import Probe

Scale = tuple[str, ...]


def outside_of_axis(
    file: CudaText, probe: Probe, values: dict[str, int], fault: KernelFault, sizes: Mapping[str, str]
) -> tuple[list[str], set[str]]:
    """(which part of the index is outside its axis, its variables): `p + r = 5, but input has h = 0 to 4 (H =
    5).`

    Nothing if the index does not have the strides of the array.
    """
    letters, shape = axes_of(fault)
    if fault.kind not in (*ENDS, "race") or len(probe.indices) != 1 or not letters:
        return [], set()
    index, texts, integer = probe.indices[0], {}, integer_of(file, values)
    place = index.start
    if index.kind == "identifier" and (origin := value_of(file, index.code, place)):
        index = origin
    while index.kind == "conditional_expression" and (taken := integer(index.part("condition"))) is not None:
        index = index.part("consequence" if taken else "alternative")

    def text_of(piece: Piece) -> str:
        texts[plain(piece)] = piece
        return plain(piece)

    def value(name: str) -> int | None:
        if name in texts:
            return integer(texts[name])
        return int(name) if name.isdecimal() else values.get(name)

    def changes(name: str) -> bool:
        names = [p.code for p in texts[name].all("identifier")] if name in texts else [name.split(".")[0]]
        return any(varies(file, probe.function, n, place) for n in names)

    def split(pieces: Iterable[Piece]) -> tuple[dict[Scale, list[tuple[int, str]]], dict[Scale, int]]:
        """(signed names, elements) by the sizes that they are multiplied by; nothing where a term is anything else."""
        parts: dict[Scale, list[tuple[int, str]]] = {}
        worth: dict[Scale, int] = {}
        for sign, names in [term for piece in pieces for term in products(piece, text_of)]:
            fixed = [n for n in names if not changes(n)]
            rest = [n for n in names if n not in fixed] or fixed[:1]
            scale = tuple(sorted(n for n in fixed if n not in rest))
            known = [value(n) for n in (*scale, *rest)]
            if len(rest) != 1 or None in known or rest[0] in texts and is_product(texts[rest[0]]):
                return {}, {}
            parts.setdefault(scale, []).append((sign, rest[0]))
            worth[scale] = math.prod(known[:-1])
        return parts, worth

    parts, worth = split([index, *addends_of(file, probe.indices[0].outer.outer)[1:]])
    if not parts:
        parts, worth = split([index])
    if 0 < (merged := len(shape) - len(parts)) < len(shape):  # such as the index of a plane across all images
        letters, shape = ["", *letters[merged + 1 :]], [math.prod(shape[: merged + 1]), *shape[merged + 1 :]]
    steps = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    scales = sorted(parts, key=lambda scale: (worth[scale], len(scale)), reverse=True)
    if len(parts) != len(shape) or [worth[scale] for scale in scales] != steps:
        return [], set()
    found, names = [], set()
    for letter, size, scale in zip(letters, shape, scales, strict=True):
        terms = parts[scale]
        at = sum(sign * value(n) for sign, n in terms)
        if letter and not 0 <= at < size:
            text = _added((sign, n) for sign, n in terms)
            numbers = f"{_added((sign, str(value(n))) for sign, n in terms)} = " if terms[1:] else ""
            called = sizes.get(letter, "")
            known = f" ({called} = {size})" if called and not called.isdecimal() else ""
            there = f"{letter} = 0 to {size - 1}" if size > 1 else f"only {letter} = 0"
            found.append(f"{text} is {numbers}{at}, but {fault.array} has {there}{known}.")
            names |= {p for _, n in terms for p in re.findall(r"[A-Za-z_]\w*", n)}
    return found[:2], names


def is_product(e: Piece) -> bool:
    """Whether it divides a product: `c * H * W / 4` may be a step of several axes."""
    return sign_of(e) == "/" and any(sign_of(part) == "*" for part in e.all("binary_expression"))


def quotients(file: CudaText, probe: Probe, values: dict[str, int], names: set[str]) -> list[str]:
    """The division that gave a variable outside its axis: `Line 31: oy = i / OH is 15 / 3 = 5.`; not if what is divided has
    changed since."""
    for name in sorted(names & values.keys(), key=lambda name: -abs(values[name])):
        value = value_of(file, name, probe.indices[0].start)
        parts = value.all("binary_expression") if value else ()
        integer = integer_of(file, values)
        text = substituted(value, values, integer) if value and integer(value) == values[name] else ""
        if text and any(part.part("operator").code in ("/", "%") for part in parts):
            return [f"Line {value.line}: {name} = {plain(value)} is {text} = {values[name]}."]
    return []


def _added(terms: Iterable[tuple[int, str]]) -> str:
    return "".join(f" {'-' if sign < 0 else '+'} {text}" for sign, text in terms).removeprefix(" + ").strip()


def axes_of(fault: KernelFault) -> tuple[list[str], list[int]]:
    """(letters, extents) of a fault's array with named axes: `b x k = 2 x 3`."""
    axes = r"((?:\w x )*\w) = ([\d x]+)"
    found = re.search(rf"\bshape {axes}", fault.explanation) or re.fullmatch(axes, fault.shape)
    return (found[1].split(" x "), [int(n) for n in found[2].split(" x ")]) if found else ([], [])


def varies(file: CudaText, function: Function, name: str, place: int) -> bool:
    """Whether a variable differs between threads or over time, unlike a kernel's parameters. A helper's parameter does if
    what it is called with does."""
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
        origins = (
            arguments(file, function, mine.index(name)) if name in mine else [(function, value)] * bool(value)
        )
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
    given = [
        (file.function_at(call.line), value)
        for call in calls
        for value in call.part("arguments").parts[number : number + 1]
    ]
    unclear = any(
        within in (None, function)
        or any(value.all("subscript_expression", "call_expression", "update_expression"))
        for within, value in given
    )
    return [] if unclear or len(given) < len(calls) else given
