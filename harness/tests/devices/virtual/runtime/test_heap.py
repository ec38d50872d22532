"""malloc(), free(), new and delete in kernels: values, accesses to foreign memory, and leaks."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.errors import KernelFault
from tests.devices.virtual.launches import FLAVOURS, device, zeros

SOURCE = """
#define KERNEL(name) extern "C" __global__ void name(int* out)
struct Node { int value; Node* next; };
KERNEL(list) {
    Node* head = nullptr;
    for (int i = 0; i < 5; i++) { Node* n = new Node; n->value = i + threadIdx.x; n->next = head; head = n; }
    int sum = 0;
    while (head) { sum += head->value; Node* next = head->next; delete head; head = next; }
    out[threadIdx.x] = sum;
}
KERNEL(often) {
    int sum = 0;
    for (int i = 0; i < 1000; i++) { int* p = (int*)malloc(2000); p[i % 500] = i; sum += p[i % 500]; free(p); }
    out[threadIdx.x] = sum;
}
KERNEL(too_much) { char* p = (char*)malloc(9 << 20); out[threadIdx.x] = p == nullptr; free(p); }
__device__ int* kept;
KERNEL(give) { if (threadIdx.x == 0) { kept = (int*)malloc(128); for (int i = 0; i < 32; i++) kept[i] = i; } }
KERNEL(take) { out[threadIdx.x] = kept[threadIdx.x]; __syncthreads(); if (threadIdx.x == 0) free(kept); }
KERNEL(leak) { int* p = (int*)malloc(12); p[2] = 1; out[threadIdx.x] = p[2]; }
KERNEL(after) { int* p = (int*)malloc(16); p[1] = 5; free(p); out[threadIdx.x] = p[1]; }
KERNEL(past) { int* p = new int[4]; for (int i = 0; i <= 4; i++) p[i] = i; out[threadIdx.x] = p[2]; delete[] p; }
KERNEL(odd) { char* p = (char*)malloc(6); for (int i = 0; i < 7; i++) p[i] = i; free(p); }
KERNEL(twice) { int* p = (int*)malloc(16); free(p); free(p); }
KERNEL(inside) { int* p = (int*)malloc(16); free(p + 1); }
KERNEL(stranger) { free(out); }
KERNEL(unset) { int* p = (int*)malloc(16); out[threadIdx.x] = p[1]; free(p); }
KERNEL(race) {
    __shared__ int* p;
    if (threadIdx.x == 0) p = (int*)malloc(16);
    __syncthreads();
    p[1] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = p[1];
    __syncthreads();
    if (threadIdx.x == 0) free(p);
}
"""
LINES = {
    name: n
    for n, line in enumerate(SOURCE.splitlines(), 1)
    if (name := line.partition("KERNEL(")[2].split(")")[0])
}


def launch(name: str, checks: str, out=None):
    out = out or zeros(32, np.int32, checks=checks)
    done = device(checks).compile(SOURCE).get_function(name)(1, 32, (out,))
    return out.get(), done.notes


def fault(name: str, checks: str = "full") -> KernelFault:
    with pytest.raises(KernelFault) as caught:
        launch(name, checks)
    return caught.value


@pytest.mark.parametrize("checks", FLAVOURS)
def test_values(checks):
    threads = np.arange(32)
    for name, expected in (("list", 5 * threads + 10), ("often", 499500), ("too_much", 1)):
        values, notes = launch(name, checks)
        assert (values == expected).all() and not notes, name


@pytest.mark.parametrize("checks", FLAVOURS)
def test_memory_stays_from_launch_to_launch(checks):
    module = device(checks).compile(SOURCE)
    out = zeros(32, np.int32, checks=checks)
    (note,) = module.get_function("give")(1, 32, (out,)).notes
    assert note.kind == "leak" and "1 block " in str(note)
    assert not module.get_function("take")(1, 32, (out,)).notes
    assert (out.get() == np.arange(32)).all()


def test_what_is_not_freed_is_noted():
    (note,) = launch("leak", "full")[1]
    assert (note.kind, note.line, note.count) == ("leak", LINES["leak"], 32) and "384 bytes" in note.headline


@pytest.mark.parametrize("checks", FLAVOURS)
@pytest.mark.parametrize(
    "name, kind, said",
    [
        ("after", "out-of-bounds", "from byte 4 of the 16 bytes that thread (0,0,0) got from malloc()"),
        ("past", "out-of-bounds", "just past the end of the 16 bytes"),
        ("odd", "out-of-bounds", "just past the end of the 6 bytes"),
        ("twice", "invalid-free", "Double free"),
        ("inside", "invalid-free", "Invalid pointer to free"),
        ("stranger", "invalid-free", "Invalid pointer to free"),
    ],
)
def test_memory_that_is_not_there(name, kind, said, checks):
    found = fault(name, checks)
    assert (found.kind, found.line) == (kind, LINES[name]) and said in str(found)
    assert ("had freed them" in str(found)) == (name in ("after", "twice"))


def test_unset_and_racing_memory_is_named_by_its_line():
    found = fault("unset")
    assert (
        found.kind == "uninitialised-read"
        and f"element 1 of the memory from malloc() in line {LINES['unset']}" in str(found)
    )
    found = fault("race")
    assert found.kind == "race" and f"the memory from malloc() in line {LINES['race'] + 2}" in str(found)


def test_a_launch_that_is_repeated_finds_the_memory_of_others_as_it_was():
    """A file without malloc() may change no more of the heap than has been given out."""
    dev = device("full")
    heap = dev.compile(SOURCE)
    out = zeros(32, np.int32)
    heap.get_function("give")(1, 32, (out,))
    assert sum(part.nbytes for part in dev.heap.parts(grows=False)) < 1 << 20
    source = """extern "C" __global__ void add(int** kept) {
        __shared__ int nothing[32], copy[32];
        copy[threadIdx.x] = nothing[threadIdx.x];  // unset, which may matter: the launch is run once more
        (*kept)[threadIdx.x] += 100;
    }"""
    module = dev.compile(source)
    module.get_function("add")(1, 32, (heap.get_global("kept", np.uint64),))
    assert module.tracking
    heap.get_function("take")(1, 32, (out,))
    assert out.get().tolist() == [100 + i for i in range(32)]
