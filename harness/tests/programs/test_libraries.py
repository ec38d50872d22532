"""cuBLAS and cuRAND by NumPy: the arithmetic and its layout without a compiler, and a program that uses them with one."""

from __future__ import annotations

import re
import struct

import numpy as np
import pytest

from backwarp.devices.nvrtc import library
from backwarp.programs import libraries

from .test_pairs import PAIRS, found, needs_compiler, run

RANDOM = np.random.default_rng(3)


def bits(value: float) -> int:
    return struct.unpack("q", struct.pack("d", value))[0]


class Memory:
    """The device's, with arrays one after the other."""

    def __init__(self):
        self.bytes, self.top = np.zeros(1 << 16, np.uint8), 256

    def put(self, values: np.ndarray) -> int:
        at, data = self.top, np.asfortranarray(values).tobytes("F")
        self.bytes[at : at + len(data)] = np.frombuffer(data, np.uint8)
        self.top += len(data) + 256
        return at

    def get(self, at: int, like: np.ndarray) -> np.ndarray:
        return self.bytes[at : at + like.nbytes].view(like.dtype).reshape(like.shape, order="F")

    def call(self, name: str, *words: int) -> libraries.Work:
        work = libraries.Work(lambda piece: 0 < piece.address < self.top, self.bytes)
        libraries.run(name, tuple(w % (1 << 64) for w in words), work)
        return work


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("ta, tb", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_products_of_matrices_stored_by_columns(dtype, ta, tb):
    m, n, k, memory = 5, 4, 3, Memory()
    a, b, c = (RANDOM.standard_normal(s).astype(dtype) for s in ((m, k), (k, n), (m, n)))
    at = [memory.put(x) for x in (a.T if ta else a, b.T if tb else b, c)]
    size = a.itemsize
    given = (
        ta,
        tb,
        m,
        n,
        k,
        bits(2),
        at[0],
        k if ta else m,
        size,
        0,
        at[1],
        n if tb else k,
        size,
        0,
        bits(0.5),
    )
    work = memory.call("gemm", *given, at[2], m, size, 0, 1)
    expected = 2 * a.astype(float) @ b.astype(float) + 0.5 * c
    assert np.allclose(
        memory.get(at[2], c), expected, rtol=1e-2 if size == 2 else 1e-5, atol=1e-2 if size == 2 else 1e-6
    )
    assert [p.stores for p in work.pieces] == [False, False, True]


def test_vectors_with_steps_in_both_directions():
    memory, x, y = Memory(), np.arange(1.0, 7), np.ones(3)
    at = memory.put(x), memory.put(y)
    memory.call("axpy", 3, bits(2), at[0], 2, at[1], -1, 8)
    assert memory.get(at[1], y).tolist() == [11, 7, 3]
    assert struct.unpack("d", memory.call("dot", 3, at[0], 1, at[1], 1, 999, 8).result) == (
        1 * 11 + 2 * 7 + 3 * 3,
    )
    assert memory.call("imax", 6, at[0], 1, 999, 8).result == np.int32(6).tobytes()


def test_uniform_numbers_are_above_zero_and_go_on():
    memory, like = Memory(), np.zeros(1000, np.float32)
    at = memory.put(like)
    memory.call("draw uniform", at, 1000, 4, 7, 0, 0, 0)
    first = memory.get(at, like).copy()
    memory.call("draw uniform", at, 1000, 4, 7, 1000, 0, 0)
    assert 0 < first.min() and first.max() <= 1 and not (first == memory.get(at, like)).any()


def transform(
    kind: str, x: np.ndarray, like: np.ndarray, n, batch=1, layout=(0, 0, 0, 0), inverse=0
) -> np.ndarray:
    """As a program asks for it; the input's elements are in the order of C."""
    memory = Memory()
    at, to = memory.put(x.ravel()), memory.put(like.ravel())
    n3 = (*n, 1, 1)[:3]
    size = max(x.itemsize, like.itemsize)
    memory.call(f"fft {kind}", len(n), batch, inverse, size, *n3, at, *layout, to, *layout)
    return memory.get(to, like.ravel()).reshape(like.shape)


def test_fourier_transforms_are_those_of_numpy():
    real, both = RANDOM.standard_normal((6, 5)), RANDOM.standard_normal((3, 8)) + 1j
    half, single = np.zeros((6, 3), "c16"), both.astype("c8")
    assert np.allclose(transform("c2c", single, single, (8,), 3), np.fft.fft(single), atol=1e-5)
    assert np.allclose(transform("c2c", both, both, (8,), 3, inverse=1), 8 * np.fft.ifft(both))
    assert np.allclose(transform("c2c", both.T.copy(), both.T, (8,), 3, (3, 1, 0, 0)), np.fft.fft(both).T)
    half = transform("r2c", real, half, (6, 5))
    assert np.allclose(half, np.fft.rfft2(real))
    assert np.allclose(transform("c2r", half, real, (6, 5), inverse=1), 30 * real)


@pytest.mark.parametrize("n, layout", [((1 << 40,), (0, 0, 0)), ((8,), (-1, 1, 0)), ((8,), (1 << 40, 1, 0))])
def test_transforms_of_what_is_not_there(n, layout):
    with pytest.raises(libraries.Outside):
        transform("c2c", np.zeros(8, "c8"), np.zeros(8, "c8"), n, 1, (*layout, 0))


def test_memory_that_is_not_the_devices():
    with pytest.raises(libraries.Outside):
        Memory().call("scal", 3, bits(2), 1 << 40, 1, 4)


@needs_compiler
def test_a_program_with_libraries(tmp_path, monkeypatch):
    files = {
        "a.raw": b"2 3\n1 2 3\n4 5 6.5\n",
        "b.raw": b"4\n1\n2\n3\n-7\n",
        "e.raw": b"2 3\n2 4 6\n8 10 13\n",
    }
    for name, data in (files | {"c.ppm": b"P6\n2 1\n255\n" + bytes([0, 9, 9, 9, 9, 255])}).items():
        (tmp_path / name).write_bytes(data)
    monkeypatch.chdir(tmp_path)
    done = run(PAIRS / "libraries.cu", "-i", "a.raw,b.raw,c.ppm", "-e", "e.raw", "-t", "matrix")
    assert found(done) == set() and done.status == 0


@needs_compiler
def test_every_function_of_the_runtime_is_there_or_refused_by_name(tmp_path):
    api = (library.cuda_headers() / "cuda_runtime_api.h").read_text(errors="replace")
    names = sorted(set(re.findall(r"^extern .*CUDARTAPI (cuda\w+)\(", api, re.MULTILINE)))
    driver = (library.cuda_headers() / "cuda.h").read_text(errors="replace")
    known = re.findall(r"^CUresult CUDAAPI (cu\w+)\(", driver, re.MULTILINE)
    now = dict(re.findall(r"^ *#define (cu\w+) +(?:__CUDA_API_PT\w\w\()?(cu\w+)", driver, re.MULTILINE))
    names += sorted({now.get(name, name) for name in known})
    assert len(names) > 700
    path = tmp_path / "all.cu"
    addresses = "\\n".join(f".quad {name}" for name in names)
    path.write_text(
        f'asm(".pushsection .data\\n{addresses}\\n.popsection");\n'
        "int main() { cudaIpcMemHandle_t handle; int* p; cudaMalloc(&p, 4); cudaIpcGetMemHandle(&handle, p); cudaFree(p); }\n"
    )
    assert found(run(path)) == {(2, "refused")}
