"""Seeded inputs for a case.

Values are normal and all different, gradients included, so that no mistake hides behind equal values;
`values="integers"` gives small integers whose sums are exact in float32.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from ..errors import CourseError
from .declare import Array, Case, Kernel, Puzzle

NAN = np.uint32(0x7FC00BAD).view(np.float32)  # the positive NaN of inputs, with other bits than poison
LARGEST = 4  # |small integer|; sums of products of two stay exact for 2**24 / 16, about a million terms


def make_inputs(puzzle: Puzzle, case: Case, kernel: Kernel, seed: int = 0) -> dict[str, np.ndarray]:
    """The input arrays of `kernel` in `case`, by name, in their device dtype.

    Each array has its own generator, seeded from (seed, puzzle, case, array), so neither the order
    of cases nor of parameters matters, and two kernels of one case see the same `grad_output`.
    """
    dims, made = puzzle.full_dims(case), {}
    for p in kernel.arrays:
        if p.is_input:
            rng = np.random.default_rng(derive_seed(seed, puzzle.id, case.name, p.name))
            made[p.name] = make_array(p, case, dims, rng, made)
    return made


def derive_seed(*parts: object) -> int:
    """A 128-bit seed from the parts, the same on every machine."""
    text = "\0".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:16], "little")


def make_array(p: Array, case: Case, dims: dict, rng: np.random.Generator, made: dict) -> np.ndarray:
    """One input array; `made` has the arrays declared before it, for values that depend on them."""
    shape = p.shape(dims)
    given = case.inputs.get(p.name, p.values)
    if isinstance(given, Scaled):
        own = replace(case, inputs={})
        return given.of(make_array(p, own, dims, rng, made))
    if isinstance(given, Sparse):
        return given.of(rng, shape, p.dtype)
    if callable(given):
        given = given(rng, dict(made), dict(dims))
    if given is not None and not isinstance(given, str):
        return exact(case, p, given, shape)
    kind = given or case.values
    if kind == "zeros":
        return np.zeros(shape, p.dtype)
    if kind == "integers":
        return small_integers(rng, shape, p.dtype)
    if kind == "normal":
        return (
            distinct_normal(rng, shape, p.dtype)
            if p.dtype.startswith("float")
            else whole(rng, shape, p.dtype)
        )
    raise CourseError(f"the array {p.name!r} has values={kind!r}, which is not known")


@dataclass(frozen=True)
class Scaled:
    """For `Case.inputs`: an array's own values, times a power of two."""

    power: int

    def of(self, values: np.ndarray) -> np.ndarray:
        return (values * 2.0**self.power).astype(values.dtype)


@dataclass(frozen=True)
class Sparse:
    """For `Case.inputs`: zero but for the first and last elements and some stretches between, where it is positive, so that
    a sum that lacks many elements is far from right, however many there are."""

    ends: int = 4096
    stretches: int = 64
    length: int = 256

    @property
    def most(self) -> int:
        """How many elements are not zero, at most."""
        return 2 * self.ends + self.stretches * self.length

    def of(self, rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        values = np.zeros(int(np.prod(shape)), dtype)
        starts = rng.integers(0, max(values.size - self.length, 1), self.stretches)
        pieces = [slice(0, self.ends), slice(-self.ends, None), *(slice(n, n + self.length) for n in starts)]
        for piece in pieces:
            values[piece] = np.abs(rng.standard_normal(values[piece].size))
        return values.reshape(shape)


def exact(case: Case, p: Array, values: object, shape: tuple[int, ...]) -> np.ndarray:
    """Declared values (nested or flat lists) as an array."""
    array = np.asarray(values)
    if array.size != int(np.prod(shape)):
        raise CourseError(
            f"case {case.name}: {p.name} has {array.size} values, its shape {shape} needs {np.prod(shape)}"
        )
    array = np.array(array.reshape(shape), p.dtype, order="C")
    if array.dtype == NAN.dtype:
        array[np.isnan(array) & ~np.signbit(array)] = NAN
    return array


def small_integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """-4 .. 4 without 0, which would hide a wrong factor; 1 .. 4 for unsigned types."""
    values = rng.integers(1, LARGEST + 1, shape)
    if not dtype.startswith("u"):
        values = values * rng.choice((-1, 1), shape)
    return values.astype(dtype)


def whole(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Random integers for integer arrays; a puzzle whose indices or labels have a range declares `values`."""
    return rng.integers(0 if dtype.startswith("u") else -100, 101, shape).astype(dtype)


def distinct_normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Standard normal values, none zero and no two equal (as far as the dtype allows)."""
    values = rng.standard_normal(int(np.prod(shape))).astype(dtype)
    for _ in range(4):
        ordered = np.sort(values)
        again = _places(
            values, np.append(ordered[1:][ordered[1:] == ordered[:-1]], (0.0, -0.0)).astype(dtype)
        )
        if not again.size:
            break
        values[again] = rng.standard_normal(again.size).astype(dtype)
    return values.reshape(shape)


def _places(values: np.ndarray, unwanted: np.ndarray) -> np.ndarray:
    """Where values are that are unwanted: among those of 16 bits, of which many are, a table finds them in a fifth of the time."""
    if values.itemsize > 2:
        return np.flatnonzero(np.isin(values, unwanted))
    found = np.zeros(1 << 16, bool)
    found[unwanted.view(np.uint16)] = True
    return np.flatnonzero(found[values.view(np.uint16)])
