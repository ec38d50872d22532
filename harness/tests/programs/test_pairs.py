"""Programs with mistakes in their host part, and the same programs without: all that is marked is found, and nothing else."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from backwarp.errors import DeviceError
from backwarp.programs import compiler
from backwarp.programs.run import Asked, run_program

PAIRS = Path(__file__).with_name("pairs")


def lacks() -> str:
    try:
        return "" if compiler.find() else ""
    except DeviceError as error:
        return str(error)


needs_compiler = pytest.mark.skipif(bool(lacks()), reason=lacks() or "-")


def marks(path: Path, which: str = "") -> set[tuple[int, str]]:
    found = set()
    for number, line in enumerate(path.read_text().split("\n"), 1):
        if match := re.search(r"// ([a-z][a-z-]+)(?: (\d+))?$", line):
            if (match[2] or "") == which:
                found.add((number, match[1]))
    return found


def run(path: Path, *arguments: str, macros: tuple[str, ...] = (), **how):
    with open(os.devnull, "w") as nowhere:
        return run_program(Asked(path, arguments, macros=macros, **how), output=(nowhere.fileno(),) * 2)


def found(done) -> set[tuple[int, str]]:
    assert done.error is None, done.error
    places = ((m, done.places(m.frames)) for m in done.mistakes)
    return {
        (m.fault.line, m.fault.kind) if m.kind == "kernel" else (p[0].line if p else 0, m.kind)
        for m, p in places
    }


@needs_compiler
@pytest.mark.parametrize(
    "name", ["copies", "frees", "launches", "waits", "streams", "graphs", "textures", "driver"]
)
def test_all_that_is_marked_and_nothing_else(name):
    path = PAIRS / f"{name}.cu"
    right = run(path)
    assert found(right) == set() and right.exit_status == 0
    wrong = run(path, macros=("WRONG",))
    ignored = {"unset", "full"} | ({"leak"} if name != "frees" else set())
    assert {(line, kind) for line, kind in found(wrong) if kind not in ignored} == marks(path)
    assert wrong.exit_status == 3


@needs_compiler
@pytest.mark.soak  # all of these again
@pytest.mark.parametrize("name", ["copies", "frees", "launches", "waits", "streams", "textures"])
def test_optimised_host_code(name, monkeypatch):
    options = [option.replace("-O1", "-O2") for option in compiler._OPTIONS]
    monkeypatch.setattr(compiler, "_OPTIONS", options)
    test_all_that_is_marked_and_nothing_else(name)


@needs_compiler
@pytest.mark.parametrize("which", range(9))
def test_what_stops_a_program(which):
    path = PAIRS / "stops.cu"
    assert found(run(path, str(which))) == set()
    wrong = run(path, str(which), macros=("WRONG",))
    assert {f for f in found(wrong) if f[1] != "leak"} == marks(path, str(which))


@needs_compiler
@pytest.mark.parametrize("which", ["0", "1"])
def test_what_the_host_writes_past_the_end_of_its_memory(which):
    path = PAIRS / "heap.cu"
    assert found(run(path, which, guard=True)) == set()
    assert found(run(path, which, macros=("WRONG",), guard=True)) == marks(path, which)


@needs_compiler
def test_kernels_that_only_their_file_knows():
    done = run(PAIRS / "namespaces.cu")
    assert found(done) == set() and done.status == 0 and done.launches == 4


HOST_FUNCTIONS = """
__host__ __device__ float f(float x) { return rsqrtf(x) + max(1, 2u); }
__global__ void k(float* a) { *a = f(4); }
int main() {
    float *a, b;
    cudaMalloc(&a, sizeof b);
    k<<<1, 1>>>(a);
    cudaMemcpy(&b, a, sizeof b, cudaMemcpyDeviceToHost);
    cudaFree(a);
    return !(b == 2.5f && f(4) == b && rsqrt(4.0) == 0.5 && min(3, (size_t)2) == 2 && max(1.5f, 2.0) == 2);
}
"""


@needs_compiler
def test_the_host_has_what_cuda_adds_to_its_functions(tmp_path):
    path = tmp_path / "prog.cu"
    path.write_text(HOST_FUNCTIONS)
    done = run(path)
    assert found(done) == set() and done.status == 0
