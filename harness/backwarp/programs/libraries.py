"""cuBLAS and cuRAND's host functions, computed by NumPy on the device's memory; host/headers/ has what programs call."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

_FLOATS = {2: np.float16, 4: np.float32, 8: np.float64}
_WHOLE = {4: np.uint32, 8: np.uint64}


@dataclass
class Piece:
    """Elements that a function reads or stores: rows of so many bytes, `pitch` bytes apart."""

    address: int
    nbytes: int
    pitch: int
    rows: int
    stores: bool

    @property
    def span(self) -> int:
        return self.pitch * (self.rows - 1) + self.nbytes


class Outside(Exception):
    """A piece is not in the device's memory."""


@dataclass
class Work:
    """One call. find: whether a piece is memory of the device, else a mistake; bytes: all of it. pieces: what was touched."""

    find: Callable[[Piece], bool]
    bytes: np.ndarray
    pieces: list[Piece] = field(default_factory=list)
    result: bytes = b""  # for an address of the host
    result_at: int = 0

    def matrix(
        self, address: int, rows: int, columns: int, ld: int, size: int, stores: bool = False
    ) -> np.ndarray:
        """Elements [row, column], stored by columns. Errors: Outside."""
        if size not in _FLOATS or ld < max(rows, 1) or rows < 0 or columns < 0:
            raise Outside
        if not rows or not columns:
            return np.zeros((rows, columns), _FLOATS[size])
        piece = Piece(address, rows * size, ld * size, columns, stores)
        if not self.find(piece):
            raise Outside
        self.pieces.append(piece)
        view = self.bytes[address : address + (columns - 1) * ld * size + rows * size].view(_FLOATS[size])
        return np.lib.stride_tricks.as_strided(view, (rows, columns), (size, ld * size))

    def grid(self, address: int, shape: Sequence[int], steps: Sequence[int], dtype, stores: bool = False):
        """Elements of any type, so many elements apart in each dimension. Errors: Outside."""
        dtype = np.dtype(dtype)
        span = 1 + sum((n - 1) * step for n, step in zip(shape, steps, strict=True))
        if min(*shape, *steps) < 1 or span > len(self.bytes) // dtype.itemsize:
            raise Outside
        apart = shape[0] > 1 and steps[0] >= prod(shape[1:])  # rows of what is together
        nbytes = (span - (shape[0] - 1) * steps[0] if apart else span) * dtype.itemsize
        piece = Piece(address, nbytes, steps[0] * dtype.itemsize, shape[0] if apart else 1, stores)
        if not self.find(piece):
            raise Outside
        self.pieces.append(piece)
        view = self.bytes[address : address + span * dtype.itemsize].view(dtype)
        return np.lib.stride_tricks.as_strided(view, shape, [step * dtype.itemsize for step in steps])

    def vector(self, address: int, n: int, step: int, size: int, stores: bool = False) -> np.ndarray:
        found = self.matrix(address, 1, n, abs(step) or 1, size, stores)[0]
        return found[::-1] if step < 0 else found


def run(name: str, words: tuple[int, ...], work: Work) -> None:
    """Errors: Outside; KeyError for a name that is unknown."""
    kind, _, about = name.partition(" ")
    _TABLE[kind](work, about, [w - (1 << 64) if w >> 63 else w for w in words])


def _number(word: int) -> float:
    return struct.unpack("d", struct.pack("q", word))[0]


def _turned(a: np.ndarray, how: int) -> np.ndarray:
    return a.T if how else a


def _gemm(work: Work, _, w) -> None:
    ta, tb, m, n, k, alpha, *rest = w
    (a, lda, a_size, a_step), (b, ldb, b_size, b_step), beta = rest[:4], rest[4:8], _number(rest[8])
    c, ldc, c_size, c_step, count = rest[9:]
    exact = np.float64 if c_size == 8 else np.float32
    for i in range(count):
        left = work.matrix(a + i * a_step * a_size, *((k, m) if ta else (m, k)), lda, a_size)
        right = work.matrix(b + i * b_step * b_size, *((n, k) if tb else (k, n)), ldb, b_size)
        into = work.matrix(c + i * c_step * c_size, m, n, ldc, c_size, stores=True)
        made = exact(_number(alpha)) * (_turned(left, ta).astype(exact) @ _turned(right, tb).astype(exact))
        into[...] = made + exact(beta) * into if beta else made


def _gemv(work: Work, _, w) -> None:
    t, m, n, alpha, a, lda, x, ix, beta, y, iy, size = w
    left = _turned(work.matrix(a, m, n, lda, size), t)
    into = work.vector(y, left.shape[0], iy, size, stores=True)
    made = _number(alpha) * (left @ work.vector(x, left.shape[1], ix, size))
    into[...] = made + _number(beta) * into if _number(beta) else made


def _ger(work: Work, _, w) -> None:
    m, n, alpha, x, ix, y, iy, a, lda, size = w
    made = _number(alpha) * np.outer(work.vector(x, m, ix, size), work.vector(y, n, iy, size))
    work.matrix(a, m, n, lda, size, stores=True)[...] += made.astype(_FLOATS[size])


def _axpy(work: Work, _, w) -> None:
    n, alpha, x, ix, y, iy, size = w
    work.vector(y, n, iy, size, stores=True)[...] += _FLOATS[size](_number(alpha)) * work.vector(
        x, n, ix, size
    )


def _scal(work: Work, _, w) -> None:
    n, alpha, x, ix, size = w
    work.vector(x, n, ix, size, stores=True)[...] *= _FLOATS[size](_number(alpha))


def _copy(work: Work, _, w) -> None:
    n, x, ix, y, iy, size = w
    work.vector(y, n, iy, size, stores=True)[...] = work.vector(x, n, ix, size)


def _swap(work: Work, _, w) -> None:
    n, x, ix, y, iy, size = w
    one, other = work.vector(x, n, ix, size, stores=True), work.vector(y, n, iy, size, stores=True)
    one[...], other[...] = other.copy(), one.copy()


def _geam(work: Work, _, w) -> None:
    ta, tb, m, n, alpha, a, lda, beta, b, ldb, c, ldc, size = w
    made = np.zeros((m, n), _FLOATS[size])
    for how, factor, at, ld in ((ta, alpha, a, lda), (tb, beta, b, ldb)):
        if _number(factor):
            shape = (n, m) if how else (m, n)
            made += _FLOATS[size](_number(factor)) * _turned(work.matrix(at, *shape, ld, size), how)
    work.matrix(c, m, n, ldc, size, stores=True)[...] = made


def _reduced(of: Callable) -> Callable:
    """A function of vectors whose result is one number; its address follows the vectors."""

    def compute(work: Work, _, w) -> None:
        n, *pairs, to, size = w
        vectors = [work.vector(at, n, step, size) for at, step in zip(pairs[::2], pairs[1::2], strict=True)]
        made = of(*vectors)
        work.result = (
            _FLOATS[size](made) if isinstance(made, np.floating | float) else np.int32(made)
        ).tobytes()
        work.result_at = to

    return compute


def _draw(work: Work, kind: str, w) -> None:
    to, n, size, seed, drawn, first, second = w
    random = np.random.default_rng([abs(seed), abs(drawn)])
    if kind == "bits":
        made = random.integers(0, 1 << 8 * size, n, _WHOLE[size])
        work.vector(to, n, 1, size, stores=True).view(_WHOLE[size])[...] = made
        return
    given = _number(first), _number(second)
    # cuRAND's uniform numbers are in (0, 1]
    made = 1 - random.random(n, _FLOATS[size]) if kind == "uniform" else getattr(random, kind)(*given, n)
    work.vector(to, n, 1, size, stores=True)[...] = made


def _fft(work: Work, kind: str, w) -> None:
    rank, batch, inverse, size, *n = w[:7]
    (at, *in_), (to, *out), n = w[7:12], w[12:], n[: max(rank, 0)]
    complex_, real = np.dtype(f"c{size}"), np.dtype(f"f{size // 2}")
    half = [*n[:-1], n[-1] // 2 + 1]
    given, made = {"c2c": (n, n), "r2c": (n, half), "c2r": (half, n)}[kind]
    padded = [*n[:-1], 2 * half[-1]] if at == to and rank > 1 else n  # real numbers in place
    padded = padded if kind != "c2c" else n
    x = work.grid(
        at,
        [batch, *given],
        _steps(in_, padded if kind == "r2c" else given),
        real if kind == "r2c" else complex_,
    )
    y = _TRANSFORMS[kind, bool(inverse)](
        x, s=n, axes=range(1, rank + 1), norm="forward" if inverse else "backward"
    )
    into = work.grid(
        to,
        [batch, *made],
        _steps(out, padded if kind == "c2r" else made),
        real if kind == "c2r" else complex_,
        stores=True,
    )
    into[...] = y


def _steps(layout: Sequence[int], close: Sequence[int]) -> list[int]:
    """Elements from one transform to the next, and from one element to the next in each of its dimensions. layout: as in
    host/headers/cufft.h."""
    step, distance, *inner = layout
    if not step:
        step, distance, inner = 1, prod(close), close[1:]
    return [distance or 1, *(step * prod(inner[i : len(close) - 1]) for i in range(len(close)))]


_TRANSFORMS: dict[tuple[str, bool], Callable] = {
    ("c2c", False): np.fft.fftn,
    ("c2c", True): np.fft.ifftn,
    ("r2c", False): np.fft.rfftn,
    ("c2r", True): np.fft.irfftn,
}


def _largest(x: np.ndarray) -> int:
    return int(np.abs(x).argmax()) + 1 if len(x) else 0


_TABLE: dict[str, Callable] = {
    "gemm": _gemm,
    "gemv": _gemv,
    "ger": _ger,
    "axpy": _axpy,
    "scal": _scal,
    "copy": _copy,
    "swap": _swap,
    "geam": _geam,
    "dot": _reduced(lambda x, y: np.float64(np.dot(x, y))),
    "nrm2": _reduced(lambda x: np.float64(np.linalg.norm(x))),
    "asum": _reduced(lambda x: np.float64(np.abs(x).sum())),
    "imax": _reduced(_largest),
    "imin": _reduced(lambda x: int(np.abs(x).argmin()) + 1 if len(x) else 0),
    "draw": _draw,
    "fft": _fft,
}
