"""Exact arithmetic on floating-point bit patterns, rounded once: the reference for the opcodes.

Numbers are rationals, so that nothing here depends on the floating point of the machine under test. IEEE 754
says what the operations are; NAN stands for "some NaN".
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from math import isqrt

NAN = "some NaN"


@dataclass(frozen=True)
class Format:
    """Widths of a binary interchange format."""

    exponent: int
    fraction: int

    @cached_property
    def bits(self) -> int:
        return 1 + self.exponent + self.fraction

    @cached_property
    def sign(self) -> int:
        return 1 << self.exponent + self.fraction

    @cached_property
    def infinity(self) -> int:
        return (1 << self.exponent) - 1 << self.fraction

    @cached_property
    def one(self) -> int:
        return (1 << self.exponent - 1) - 1 << self.fraction

    @cached_property
    def lowest(self) -> int:
        """The exponent of the last bit of a subnormal number."""
        return 2 - (1 << self.exponent - 1) - self.fraction

    def is_nan(self, x: int) -> bool:
        return x & ~self.sign > self.infinity

    def is_infinite(self, x: int) -> bool:
        return x & ~self.sign == self.infinity

    def is_subnormal(self, x: int) -> bool:
        return 0 < x & ~self.sign < 1 << self.fraction

    def is_negative(self, x: int) -> bool:
        return bool(x & self.sign)

    @cache  # noqa: B019
    def value(self, x: int) -> Fraction:
        """The number that a finite pattern stands for."""
        size = x & ~self.sign
        exponent, fraction = size >> self.fraction, size & (1 << self.fraction) - 1
        if exponent:
            fraction |= 1 << self.fraction
        shift = max(exponent, 1) - 1 + self.lowest
        number = Fraction(fraction << shift) if shift >= 0 else Fraction(fraction, 1 << -shift)
        return -number if x & self.sign else number

    @cache  # noqa: B019 (there are five formats)
    def round(self, number: Fraction, mode: str = "rn", negative_zero: bool = False) -> int:
        """The pattern of `number` rounded by mode rn, rz, rm or rp; also "rna": ties away from zero."""
        if not number:
            return self.sign if negative_zero else 0
        sign, size = (self.sign, -number) if number < 0 else (0, number)
        exponent = size.numerator.bit_length() - size.denominator.bit_length()
        exponent -= size < _power(exponent)
        shift = max(exponent - self.fraction, self.lowest)
        units = size / _power(shift)
        whole = units.numerator // units.denominator
        rest = units - whole
        up = {
            "rn": rest > Fraction(1, 2) or rest == Fraction(1, 2) and whole & 1,
            "rna": rest >= Fraction(1, 2),
            "rz": False,
            "rm": rest and sign,
            "rp": rest and not sign,
        }[mode]
        pattern = (shift - self.lowest << self.fraction) + whole + bool(up)
        if pattern >= self.infinity:
            towards_zero = mode == "rz" or mode == "rm" and not sign or mode == "rp" and sign
            pattern = self.infinity - 1 if towards_zero else self.infinity
        return sign | pattern

    def flush(self, x: int) -> int:
        return x & self.sign if x is not NAN and self.is_subnormal(x) else x

    def saturate(self, x: int) -> int:
        """.sat"""
        if x is NAN or self.is_nan(x) or self.is_negative(x):
            return 0
        return min(x, self.one)


F16, BF16, F32, F64 = Format(5, 10), Format(8, 7), Format(8, 23), Format(11, 52)


def _power(exponent: int) -> Fraction:
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


@cache
def add(f: Format, a: int, b: int, mode: str = "rn") -> int:
    if f.is_nan(a) or f.is_nan(b):
        return NAN
    if f.is_infinite(a):
        return NAN if f.is_infinite(b) and a != b else a
    if f.is_infinite(b):
        return b
    return _sum(f, f.value(a), f.value(b), bool(a & f.sign), bool(b & f.sign), mode)


def _sum(f: Format, x: Fraction, y: Fraction, x_negative: bool, y_negative: bool, mode: str) -> int:
    """An exact zero keeps the sign that both operands share; otherwise it is +0, or -0 when rounding down."""
    negative = x_negative if x_negative == y_negative else mode == "rm"
    return f.round(x + y, mode, negative)


def sub(f: Format, a: int, b: int, mode: str = "rn") -> int:
    return add(f, a, b ^ f.sign, mode)


@cache
def mul(f: Format, a: int, b: int, mode: str = "rn") -> int:
    if f.is_nan(a) or f.is_nan(b):
        return NAN
    sign = (a ^ b) & f.sign
    if f.is_infinite(a) or f.is_infinite(b):
        zero = not (a & ~f.sign and b & ~f.sign)
        return NAN if zero else sign | f.infinity
    return f.round(f.value(a) * f.value(b), mode, bool(sign))


@cache
def fma(f: Format, a: int, b: int, c: int, mode: str = "rn") -> int:
    product = mul(f, a, b)
    if product is NAN or f.is_nan(c):
        return NAN
    if f.is_infinite(a) or f.is_infinite(b):
        return NAN if f.is_infinite(c) and c != product else product
    if f.is_infinite(c):
        return c
    negative = bool((a ^ b) & f.sign)
    return _sum(f, f.value(a) * f.value(b), f.value(c), negative, bool(c & f.sign), mode)


@cache
def div(f: Format, a: int, b: int, mode: str = "rn") -> int:
    if f.is_nan(a) or f.is_nan(b):
        return NAN
    sign = (a ^ b) & f.sign
    a_size, b_size = a & ~f.sign, b & ~f.sign
    if a_size == b_size and a_size in (0, f.infinity):
        return NAN
    if a_size == f.infinity or b_size == 0:
        return sign | f.infinity
    if b_size == f.infinity:
        return sign
    return f.round(f.value(a) / f.value(b), mode, bool(sign))


@cache
def sqrt(f: Format, a: int, mode: str = "rn") -> int:
    if f.is_nan(a) or a & f.sign and a != f.sign:
        return NAN
    if a in (0, f.sign, f.infinity):
        return a
    number = f.value(a) * 4**1200  # an integer
    root = isqrt(int(number))
    inexact = root * root != number
    return f.round(
        (Fraction(root) + Fraction(inexact, 2)) / 2**1200, mode
    )  # the half: a bit that is left over


def minimum(f: Format, a: int, b: int, nan: bool = False, sign: int = 1) -> int:
    """PTX's min (sign = 1) or max (sign = -1): a number before a NaN, -0 < +0; nan: a NaN before a number."""
    a_nan, b_nan = f.is_nan(a), f.is_nan(b)
    if a_nan and b_nan or nan and (a_nan or b_nan):
        return NAN
    if a_nan or b_nan:
        return b if a_nan else a
    return min(a, b, key=lambda x: sign * order(f, x))


def order(f: Format, x: int) -> int:
    """An integer that sorts like the number, with -0 below +0."""
    return -(x & ~f.sign) - 1 if x & f.sign else x


@cache
def to_integral(f: Format, a: int, mode: str) -> Fraction:
    """A finite pattern rounded to an integer: rni, rzi, rmi or rpi."""
    number = f.value(a)
    down = number.numerator // number.denominator
    rest = number - down
    return Fraction(
        {
            "rni": down + (rest > Fraction(1, 2) or rest == Fraction(1, 2) and down % 2),
            "rzi": down + (number < 0 and rest > 0),
            "rmi": down,
            "rpi": down + (rest > 0),
        }[mode]
    )


@cache
def convert(source: Format, to: Format, a: int, mode: str = "rn") -> int:
    if source.is_nan(a):
        return NAN
    sign = to.sign if a & source.sign else 0
    if source.is_infinite(a):
        return sign | to.infinity
    return to.round(source.value(a), mode, bool(sign))
