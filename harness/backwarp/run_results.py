"""What `backwarp run` says of a launch's results: elements that were never written, and those that differ from what was
expected, `--expect out=FILE.npy` or an expression of the arguments, such as `--expect y=a*x+y`."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from types import SimpleNamespace

import numpy as np

from . import arrays
from .errors import CourseError
from .grading import sentences
from .grading.compare import ATOL, HALF, RTOL, Expected, compare

HOW = "NAME=FILE.npy or NAME=EXPRESSION of the kernel's arguments with NumPy's functions, such as y=a*x+y or y=sum(x)"
_LONGEST = 2000  # characters of an expression
_FUNCTIONS = """
    abs arange argmax argmin argsort arctan arctan2 bincount clip concatenate convolve cos cosh cumprod cumsum dot exp flip
    floor ceil full log log10 log1p log2 matmul max maximum mean min minimum ones outer pad power prod reshape roll round
    sign sin sinh sort sqrt square std sum tan tanh tensordot transpose tril triu var where zeros einsum isnan histogram
    float32 float64 int32 int64 float16 uint8 uint32 pi inf nan
""".split()
_NODES = (
    *(
        ast.Expression,
        ast.BinOp,
        ast.UnaryOp,
        ast.BoolOp,
        ast.Compare,
        ast.IfExp,
        ast.Call,
        ast.keyword,
        ast.Name,
    ),
    *(ast.Load, ast.Constant, ast.Subscript, ast.Slice, ast.Tuple, ast.List),
    *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
)
_LETTERS = "ijklmnopqrstuvwxyz"


def never_written(name: str, written: np.ndarray) -> list[str]:
    """`744 of 1024 elements of y were never written, the first is y[280].`; nothing if all were."""
    left = ~written
    if not left.any():
        return []
    first = ",".join(str(int(i)) for i in np.argwhere(left)[0])
    return [
        f"{int(left.sum()):,} of {left.size:,} elements of {name} were never written, the first is {name}[{first}]."
    ]


class Expectation:
    """What one array is to hold. Errors: CourseError if the text is none, or names no array."""

    def __init__(self, text: str, names: Sequence[str]):
        self.name, equals, self.text = (part.strip() for part in text.partition("="))
        if not equals or not self.text or self.name not in names:
            raise CourseError(f"--expect {text}: write {HOW}; the arrays are {', '.join(names) or 'none'}")
        self.values = _loaded(text, self.text) if self.text.endswith(".npy") else None

    def difference(
        self, given: Mapping[str, object], got: np.ndarray, written: np.ndarray | None
    ) -> list[str]:
        """The sentences on how the array differs, as the grader's; none if it is right. given: the arguments before the
        launch."""
        wanted = self.values if self.values is not None else self._computed(given)
        try:
            values = np.broadcast_to(np.asarray(wanted, np.float64), got.shape)
        except (ValueError, TypeError):
            raise CourseError(
                f"--expect {self.name}: {self.text} has the shape {np.shape(wanted)}, {self.name} has {got.shape}"
            ) from None
        size = np.abs(values[np.isfinite(values)]).max(initial=0.0)
        tolerance = np.zeros(got.shape)
        if got.dtype.kind == "f":
            rounding = 2 * HALF * np.abs(values) if got.dtype.itemsize == 2 else 0.0
            tolerance = np.nan_to_num(ATOL * (size > 0) + RTOL * size + rounding, posinf=0.0) + tolerance
        array = SimpleNamespace(name=self.name, letters=_LETTERS[: got.ndim], is_input=False)
        special = not np.isfinite(values).all()
        target = Expected(array, values, tolerance, np.full(got.shape, size), special=special)
        before = None if written is None else np.where(written, got.dtype.type(0), got).astype(got.dtype)
        found = compare(target, got, before, written)
        return sentences.mismatch([found], special) if found else []

    def _computed(self, given: Mapping[str, object]) -> object:
        try:
            tree = ast.parse(self.text, mode="eval") if len(self.text) <= _LONGEST else None
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            tree = None
        if tree is None or not all(isinstance(n, _NODES) for n in ast.walk(tree)):
            raise CourseError(
                f"--expect {self.name}: {self.text[:60]} is neither a .npy file nor such an expression: {HOW}"
            )
        known = {name: getattr(np, name) for name in _FUNCTIONS}
        known |= {
            n: _double(value) for n, value in given.items() if isinstance(value, np.ndarray | np.generic)
        }
        try:
            with np.errstate(all="ignore"):
                return eval(compile(tree, "--expect", "eval"), {"__builtins__": {}}, known)
        except NameError as error:
            raise CourseError(
                f"--expect {self.name}: {error}; it may use {', '.join(given)} and NumPy's functions"
            ) from None
        except Exception as error:  # whatever NumPy finds wrong with it
            raise CourseError(f"--expect {self.name}: {self.text[:60]}: {error}") from None


def _double(value: np.ndarray | np.generic) -> np.ndarray | np.generic:
    if value.dtype.kind not in "biuf":
        return value
    return value.astype(np.float64 if value.dtype.kind == "f" else np.int64)


def _loaded(text: str, path: str) -> np.ndarray:
    try:
        return arrays.read(path)
    except (OSError, ValueError) as error:
        raise CourseError(f"--expect {text}: {path} cannot be read: {error}") from None
