"""`--shape` of `backwarp bench`: translates the names that libraries use into a puzzle's sizes.

    N=128,C=128,H=71,W=71,K=256,R=3,S=3,stride=2,pad=1     a layer; 1-D without H and R, 3-D with D and T
    M=4096,N=4096,K=4096                                   a matrix product

A puzzle's own names, such as C_in or stride_w, work too. Sizes left out are those of its big case; stride,
padding, dilation and groups default to 1, 0, 1, 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ..course.declare import Array, Case, Puzzle
from ..errors import CourseError

#: a library's name -> the puzzles' names for it; the first that a puzzle has is used
LAYER = {
    "N": ("batch", "n", "patterns"),
    "C": ("C_in", "C", "n_in", "classes"),
    "K": ("C_out", "n_out"),
    "P": ("H_out",),
    "Q": ("W_out",),
}
PRODUCT = {"M": ("batch", "rows"), "N": ("n_out", "columns"), "K": ("n_in",)}
OPTIONS = {"stride": 1, "pad": 0, "dilation": 1, "groups": 1}
LARGEST = 2**31 - 1  # elements of an array: kernels count in int


@dataclass(frozen=True)
class Shape:
    """A case to be timed or counted. unused: given sizes that no kernel of the puzzle needs."""

    case: Case
    unused: tuple[str, ...] = ()


def big_case(puzzle: Puzzle) -> dict[str, int]:
    """The sizes with which a puzzle is timed: the declared ones, else those of its largest case."""
    from ..grading.runs import in_order

    return dict(puzzle.bench) or dict(in_order(puzzle)[-1].dims)


def shape_of(puzzle: Puzzle, text: str = "", init: str = "normal") -> Shape:
    """The case that `--shape text` describes. Errors: CourseError, one line, if it is impossible."""
    given = parse(text)
    dims, unused = sizes(puzzle, given) if given else (big_case(puzzle), ())
    inputs = {}
    if init == "zeros":
        arrays = (a for k in puzzle.kernels for a in k.arrays if a.is_input and not callable(a.values))
        inputs = {a.name: "zeros" for a in arrays}
    case = Case("bench", dims, values="integers" if init == "integer" else "normal", inputs=inputs)
    check(puzzle, case)
    return Shape(case, unused)


def parse(text: str) -> dict[str, int]:
    """`N=128,C=3` as numbers by name."""
    found: dict[str, int] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, equals, value = (p.strip() for p in part.partition("="))
        if not equals or not name or not value.isascii() or not value.isdigit():
            raise CourseError(
                f"--shape: {part!r} is not NAME=NUMBER, as in N=128,C=128,H=71,W=71,K=256,R=3,S=3"
            )
        if name in found:
            raise CourseError(f"--shape gives {name} twice")
        found[name] = int(value)
        if not found[name] and not name.startswith(("pad", "out_pad")):
            raise CourseError(f"--shape: {name} is 0; it is at least 1")
    return found


def sizes(puzzle: Puzzle, given: Mapping[str, int]) -> tuple[dict[str, int], tuple[str, ...]]:
    """(the sizes of a puzzle, the given names that it does not use). Errors: CourseError."""
    base = big_case(puzzle)
    given = spread(base, positions(base, square(base, given)))
    unused, changed = [], {n: usual for n, usual in built_in(base).items() if told(puzzle, n)}
    words = PRODUCT if "M" in given and base.keys() & {"n_in", "rows"} else LAYER
    for name, number in given.items():
        own = next((n for n in (name, *words.get(name, ())) if n in base), "")
        usual = OPTIONS.get(name.split("_")[0])
        if usual is not None and not (own and told(puzzle, own)):
            if number != usual:
                raise CourseError(
                    f"--shape: in {puzzle.id} {name} is {usual}, and none of its kernels accepts another"
                )
        elif own:
            changed[own] = number
        elif name in ("C", "K"):
            unused.append(name)
        else:
            raise CourseError(f"--shape: {puzzle.id} has no {name}; its sizes are {', '.join(base)}")
    return {**base, **changed}, tuple(unused)


def built_in(base: Mapping[str, int]) -> dict[str, int]:
    """The default stride, padding, dilation and groups of a puzzle."""
    return {n: OPTIONS[n.split("_")[0]] for n in base if n.split("_")[0] in OPTIONS}


def told(puzzle: Puzzle, name: str) -> bool:
    """Whether a kernel has this parameter."""
    return any(p.name == name for k in puzzle.kernels for p in k.params if not isinstance(p, Array))


def square(base: Mapping[str, int], given: Mapping[str, int]) -> dict[str, int]:
    """R and S as F, for a puzzle whose filters are square."""
    if "F" not in base or not given.keys() & {"R", "S"}:
        return dict(given)
    sides = {given[n] for n in ("R", "S", "F") if n in given}
    if len(sides) > 1:
        raise CourseError("--shape: the filters of this puzzle are square: R and S are the same")
    return {**{n: v for n, v in given.items() if n not in ("R", "S")}, "F": sides.pop()}


def positions(base: Mapping[str, int], given: dict[str, int]) -> dict[str, int]:
    """P and Q of a layer given by its input and filter, for a puzzle that starts from H_out and W_out."""
    if "H_out" not in base or "H" in base or not {"H", "W", "R", "S"} <= given.keys():
        return given
    stride, pad, dilation = (given.get(name, OPTIONS[name]) for name in ("stride", "pad", "dilation"))
    out = {
        name: (given[side] + 2 * pad - dilation * (given[taps] - 1) - 1) // stride + 1
        for name, side, taps in (("H_out", "H", "R"), ("W_out", "W", "S"))
    }
    return {**{n: v for n, v in given.items() if n not in ("H", "W", "R", "S", *OPTIONS)}, **out}


def spread(base: Mapping[str, int], given: dict[str, int]) -> dict[str, int]:
    """One stride for all dimensions; dimensions that a layer lacks get size 1 and no padding."""
    missing = ""
    if {"W", "S"} <= given.keys():
        missing = "".join(
            axis for axis, own in (("d", {"D", "T"}), ("h", {"H", "R"})) if not own & given.keys()
        )
    found = {n: 1 for axis in missing for n in {"d": "DT", "h": "HR"}[axis] if n in base}
    for name, number in given.items():
        own = [f"{name}_{axis}" for axis in "dhw" if f"{name}_{axis}" in base] if name in OPTIONS else []
        found |= {n: number if n[-1] not in missing else OPTIONS[name] for n in own} or {name: number}
    return found


def check(puzzle: Puzzle, case: Case) -> None:
    """Errors: CourseError if no kernel could run on these sizes."""
    dims = case.dims
    for channels in ("C_in", "C_out"):
        if dims.get(channels, 0) % dims.get("groups", 1):
            raise CourseError(f"--shape: {dims['groups']} groups do not divide {channels}, {dims[channels]}")
    try:
        full = puzzle.full_dims(case)
        shapes = {(k, a): a.shape(full) for k in puzzle.kernels for a in k.arrays}
    except (ArithmeticError, ValueError) as error:
        raise CourseError(f"--shape: {puzzle.id} has no such case: {error}") from None
    for (kernel, array), shape in shapes.items():
        told = f"{array.name} would be {' x '.join(map(str, shape))}"
        if min(shape) < 1:
            raise CourseError(f"--shape: {told}; is the filter larger than the image?")
        if math.prod(shape) > LARGEST:
            raise CourseError(f"--shape: {told}, more than the {LARGEST:,} elements that kernels can index")
        if array.role == "constant" and math.prod(shape) > array.most:
            raise CourseError(f"--shape: {told}; {kernel.name} has room for {array.most:,} elements of it")
