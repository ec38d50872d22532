"""Comparison and selection: every comparison of every type, with boolean operators, NaNs and packed forms."""

from __future__ import annotations

import operator
from functools import lru_cache, partial

import pytest

from tests.conformance.exact import F16, order
from tests.conformance.ptx_rows import FORMATS, Case, check, compared

ORDERED = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
UNSIGNED = {"lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge}
BOOLEAN = {"and": lambda t, c: t and c, "or": lambda t, c: t or c, "xor": lambda t, c: t != c}
FLOAT_NAMES = (*ORDERED, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")


def names(type_: str) -> tuple[str, ...]:
    """The comparisons that a type has."""
    if type_[0] == "f":
        return FLOAT_NAMES
    return {"b": ("eq", "ne"), "s": tuple(ORDERED), "u": (*ORDERED, *UNSIGNED)}[type_[0]]


@lru_cache(1 << 14)  # combined with others, each is asked for a dozen times
def compare(name: str, type_: str, ftz: bool, a: int, b: int) -> bool:
    if type_[0] != "f":
        return (ORDERED | UNSIGNED)[name](a, b)
    f = FORMATS[type_]
    if f.is_nan(a) or f.is_nan(b):
        return name == "nan" or name[-1] == "u"
    if name in ("num", "nan"):
        return name == "num"
    a, b = (f.flush(x) if ftz else x for x in (a, b))
    a, b = (order(f, x) if x & ~f.sign else 0 for x in (a, b))  # -0 equals +0
    return ORDERED[name.removesuffix("u") if name not in ORDERED else name](a, b)


def both(name: str, type_: str, ftz: str, a: int, b: int) -> tuple[bool, bool]:
    """The two results of setp: whether the comparison holds, and whether it does not."""
    holds = compare(name, type_, bool(ftz), a, b)
    return holds, not holds


def lanes(word: int) -> tuple[int, int]:
    return word & 0xFFFF, word >> 16


INTS = ("u16", "s16", "u32", "s32", "u64", "s64")
BITS = ("b16", "b32", "b64")
SCALARS = (*INTS, *BITS, "f16", "f32", "f64")


def flushes(type_: str) -> tuple[str, ...]:
    return ("", ".ftz") if type_ in ("f16", "f32") else ("",)


# -- setp --------------------------------------------------------------------------------------------


def combined(name: str, type_: str, ftz: str, op: str, sign: str, a: int, b: int, c: bool) -> tuple:
    """setp.lt.and p|q, a, b, c, or with !c."""
    return tuple(BOOLEAN[op](holds, c != bool(sign)) for holds in both(name, type_, ftz, a, b))


def per_lane(name: str, ftz: str, op: str, a: int, b: int, c: bool = False) -> tuple[bool, bool]:
    """A comparison of halves in both lanes, the low one first, each combined with c where there is an op."""
    holds = (compare(name, "f16", bool(ftz), x, y) for x, y in zip(lanes(a), lanes(b), strict=True))
    return tuple(BOOLEAN[op](h, c) if op else h for h in holds)


SETP = [
    Case(f"setp.{name}{ftz}.{t} d|e, a, b", f"{t} {t} -> pred|pred", partial(both, name, t, ftz))
    for t in SCALARS
    for name in names(t)
    for ftz in flushes(t)
]
COMBINED = [
    Case(
        f"setp.{name}.{op}{ftz}.{t} d|e, a, b, {sign}c",
        f"{t} {t} pred -> pred|pred",
        partial(combined, name, t, ftz, op, sign),
    )
    for t in SCALARS
    for name in names(t)[::5]
    for op in BOOLEAN
    for ftz in flushes(t)
    for sign in ("", "!")
]
PACKED = [
    Case(f"setp.{name}{ftz}.f16x2 d|e, a, b", "f16x2 f16x2 -> pred|pred", partial(per_lane, name, ftz, ""))
    for name in FLOAT_NAMES
    for ftz in ("", ".ftz")
]
PACKED += [
    Case(
        f"setp.lt.{op}{ftz}.f16x2 d|e, a, b, c",
        "f16x2 f16x2 pred -> pred|pred",
        partial(per_lane, "lt", ftz, op),
    )
    for op in BOOLEAN
    for ftz in ("", ".ftz")
]
SINK = [
    Case("setp.lt.s32 d, a, b", "s32 s32 -> pred", lambda a, b: a < b),
    Case("setp.lt.s32 _|d, a, b", "s32 s32 -> pred", lambda a, b: a >= b),
    Case("setp.gt.f32 d, a, 0f3F800000", "f32 -> pred", lambda a: compare("gt", "f32", False, a, 0x3F800000)),
    Case("setp.neu.f64 d, a, 0d7FF8000000000000", "f64 -> pred", lambda a: True),
    Case("setp.hi.u32 d, a, -2", "u32 -> pred", lambda a: a > 0xFFFFFFFE),
    Case("setp.ge.s16 d, -3, a", "s16 -> pred", lambda a: a <= -3),
]

# -- set ---------------------------------------------------------------------------------------------


def value(to: str, name: str, type_: str, ftz: str, op: str, a: int, b: int, c: bool = False) -> int:
    """1.0 or all ones where the comparison, combined with c, holds."""
    holds = compare(name, type_, bool(ftz), a, b)
    if op:
        holds = BOOLEAN[op](holds, c)
    return (FORMATS[to].one if to[0] == "f" else -1) if holds else 0


def set_case(name: str, op: str, ftz: str, to: str, t: str) -> Case:
    middle, operands, types = (f".{op}", "a, b, c", f"{t} {t} pred") if op else ("", "a, b", f"{t} {t}")
    expected = partial(value, to, name, t, ftz, op)
    return Case(f"set.{name}{middle}{ftz}.{to}.{t} d, {operands}", f"{types} -> {to}", expected)


SET = []
for i, t in enumerate(SCALARS):
    targets = ("u16", "s16", "u32", "s32", "f16") if t == "f16" else ("u32", "s32", "f32", "f16")
    for j, name in enumerate(names(t)):
        for k, ftz in enumerate(flushes(t)):
            SET.append(set_case(name, "", ftz, targets[(i + j + k) % len(targets)], t))
    SET += [set_case(names(t)[0], "and", "", to, t) for to in targets]
    SET += [set_case(names(t)[1], op, flushes(t)[-1], targets[i % len(targets)], t) for op in BOOLEAN]


def packed_value(to: str, name: str, ftz: str, op: str, a: int, b: int, c: bool = False) -> int:
    true = F16.one if to == "f16x2" else 0xFFFF
    low, high = per_lane(name, ftz, op, a, b, c)
    return true * low | true * high << 16


SET_PACKED = [
    Case(
        f"set.{name}{ftz}.{to}.f16x2 d, a, b", "f16x2 f16x2 -> b32", partial(packed_value, to, name, ftz, "")
    )
    for name in FLOAT_NAMES
    for ftz in ("", ".ftz")
    for to in ("f16x2", "u32", "s32")
]
SET_PACKED += [
    Case(
        f"set.ltu.{op}.{to}.f16x2 d, a, b, c",
        "f16x2 f16x2 pred -> b32",
        partial(packed_value, to, "ltu", "", op),
    )
    for op in BOOLEAN
    for to in ("f16x2", "u32")
]

# -- selection ---------------------------------------------------------------------------------------

KINDS = (*BITS, *INTS, "f32", "f64")


def not_negative(ftz: str, c: int) -> bool:
    f = FORMATS["f32"]
    c = f.flush(c) if ftz else c
    return not f.is_nan(c) and (c < f.sign or c == f.sign)


SELECT = [
    Case("selp.s32 d, 5, -1, a", "pred -> s32", lambda a: 5 if a else -1),
    Case("selp.b32 d, a, b, !c", "b32 b32 pred -> b32", lambda a, b, c: b if c else a),
]
for t in KINDS:
    SELECT += [
        Case(f"selp.{t} d, a, b, c", f"{t} {t} pred -> {t}", lambda a, b, c: a if c else b),
        Case(f"slct.{t}.s32 d, a, b, c", f"{t} {t} s32 -> {t}", lambda a, b, c: a if c >= 0 else b),
    ]
    for ftz in ("", ".ftz"):
        chosen = lambda a, b, c, ftz=ftz: a if not_negative(ftz, c) else b  # noqa: E731
        SELECT.append(Case(f"slct{ftz}.{t}.f32 d, a, b, c", f"{t} {t} f32 -> {t}", chosen))

GROUPS = {
    "setp": SETP,
    "combined": COMBINED,
    "packed": PACKED,
    "sink": SINK,
    "set": SET,
    "set packed": SET_PACKED,
    "select": SELECT,
}


@compared
@pytest.mark.parametrize("group", GROUPS)
def test_comparisons(unchecked_device, group, every):
    check(unchecked_device, GROUPS[group], every)
