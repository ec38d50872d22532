"""The arena: allocation, shadow, red zones, and whose an address is."""

from __future__ import annotations

import mmap
import re
import resource
from pathlib import Path

import numpy as np
import pytest

from backwarp.devices.virtual.device import VirtualGPU
from backwarp.devices.virtual.run.arena import LOCAL_BYTES, MIB, SHARED_GUARD, Arena, Owner
from backwarp.devices.virtual.runtime.abi import INIT, PARTIAL, READ, SHARED_WINDOW, SLOT_BYTES, WRITE
from backwarp.errors import DeviceError


@pytest.fixture(scope="module")
def shared_arena():
    arena = Arena()
    yield arena
    arena.close()


@pytest.fixture
def arena(shared_arena):
    made = []

    def allocate(nbytes: int, name: str = "x", **options) -> Owner:
        made.append(
            shared_arena.allocate(
                lambda start: Owner(name, start, nbytes, "global", itemsize=4), nbytes, **options
            )
        )
        return made[-1]

    shared_arena.make = allocate
    yield shared_arena
    for owner in made:
        shared_arena.free(owner)


# --- shadow --------------------------------------------------------------------------------------


@pytest.mark.parametrize("nbytes", [1, 2, 3, 4, 5, 63, 64, 4096, 70_001])
def test_exactly_the_bytes_of_an_allocation_are_valid(arena, nbytes):
    owner = arena.make(nbytes)
    first, whole, rest = owner.start // 4, nbytes // 4, nbytes % 4
    assert (arena.shadow[first : first + whole] & (READ | WRITE) == READ | WRITE).all()
    if rest:
        last = int(arena.shadow[first + whole])
        assert last & PARTIAL and not last & READ and last >> 4 == (2 << rest) - 1
    assert arena.shadow[first - 1] == 0 and arena.shadow[first + whole + (rest > 0)] == 0


@pytest.mark.parametrize("nbytes", [1, 3, 4, 7, 8, 21, 24])
def test_exactly_the_bytes_that_are_stored_to_count_as_written(arena, nbytes):
    for first in range(nbytes + 1):
        for end in range(first, nbytes + 1):
            owner = arena.make(nbytes, written=False)
            arena.store(owner.start + first, end - first)
            whole = nbytes // 4 * 4
            expected = (np.arange(whole) >= first) & (np.arange(whole) < end)
            np.testing.assert_array_equal(arena.written(owner.start, whole), expected)
            rest = int(arena.shadow[owner.start // 4 + whole // 4]) >> 4
            assert rest == sum(1 << i - whole for i in range(max(first, whole), end)) | (
                1 << nbytes - whole
            ) * (nbytes > whole)
            arena.fill(owner)
            assert arena.written(owner.start, whole).all()


def test_readonly_and_unwritten_memory(arena):
    assert arena.shadow[arena.make(8, writable=False).start // 4] == READ | INIT
    assert arena.shadow[arena.make(8, written=False).start // 4] == READ | WRITE


def test_freed_memory_belongs_to_nobody(arena):
    owner = arena.make(1000)
    arena.free(owner)
    assert not arena.shadow[owner.start // 4 : owner.start // 4 + 250].any()
    arena.free(owner)  # again: nothing happens
    assert arena.make(1000).start == owner.start  # and it is used again


class Pages:
    """The memory of an arena on a system with large pages, which refuses parts of them."""

    def __init__(self, held, size: int):
        self.held, self.size = held, size

    def madvise(self, how: int, start: int, nbytes: int) -> None:
        assert start % self.size == nbytes % self.size == 0 and nbytes > 0
        self.held.madvise(how, start, nbytes)


@pytest.fixture(params=[4, 16, 64])
def pages(request, arena, monkeypatch) -> int:
    """Pages of so many KiB, as some ARM systems have them: their size."""
    size = max(request.param << 10, mmap.PAGESIZE)
    monkeypatch.setattr(mmap, "PAGESIZE", size)
    monkeypatch.setattr(arena, "_map", Pages(arena._map, size))
    return size


def test_freed_large_memory_is_given_back(arena, pages):
    arena.make(4096)
    owner = arena.make(4 * MIB)
    arena.bytes[owner.start : owner.start + owner.nbytes] = 7
    arena.free(owner)
    assert not arena.bytes[owner.start + pages : owner.start + owner.nbytes - pages].any()


@pytest.mark.parametrize("nbytes", [5, 5000, MIB + 5, 3 * MIB + 5])
def test_clearing(arena, nbytes, pages):
    owner = arena.make(nbytes + 8)
    arena.bytes[owner.start : owner.start + nbytes + 8] = 7
    arena.clear(owner.start + 4, nbytes)
    memory = arena.bytes[owner.start : owner.start + nbytes + 8]
    assert (memory[:4] == 7).all() and not memory[4:-4].any() and (memory[-4:] == 7).all()


def test_allocations_are_aligned_and_far_apart(arena):
    owners = sorted((arena.make(n) for n in (4, 100_000, 12, 3 * MIB)), key=lambda o: o.start)
    for a, b in zip(owners, owners[1:], strict=False):
        assert a.start % 256 == 0
        assert b.start - (a.start + a.nbytes) >= max(64 << 10, a.nbytes)


def test_an_empty_allocation(arena):
    owner = arena.make(0)
    assert arena.shadow[owner.start // 4] == 0 and arena.nearest(owner.start) is owner


def test_a_full_arena(arena):
    with pytest.raises(DeviceError, match="out of device memory: .* bytes do not fit"):
        arena.make(arena.size)


def test_null_is_nobodys(arena):
    assert not arena.shadow[: MIB // 4].any()


# --- owners --------------------------------------------------------------------------------------


def test_whose_an_address_is(arena):
    a, b = sorted((arena.make(40, "a"), arena.make(40, "b")), key=lambda o: o.start)
    for owner in (a, b):
        for address in (owner.start, owner.start + 39, owner.start + 40, owner.start + 4000):
            assert arena.nearest(address) is owner
        assert arena.nearest(owner.start - 4) is owner
    assert arena.nearest(b.start - 400) is b


@pytest.mark.parametrize("races", [False, True])
def test_memory_of_running_blocks_is_apart(races):
    arena = Arena(races)
    assert arena.shared_base(0) == arena.slots_start == 2 << 30  # in every build
    assert arena.shared_base(2) - arena.shared_base(1) == SLOT_BYTES
    assert arena.local_base(1) >= arena.shared_base(1) + SHARED_WINDOW
    assert arena.local_base(1) + LOCAL_BYTES == arena.shared_base(2)
    assert arena.shared_base(arena.slots) <= arena.size and arena.slots >= 8
    assert SHARED_GUARD % 128 == 0  # the 32 banks stay where they are
    assert (arena.cells is not None) == races
    arena.close()


@pytest.mark.parametrize(
    "shape, axes, at, index",
    [
        ((10,), "n", 3, "n=3"),
        ((10,), "", 3, "3"),
        ((10,), "n", -1, "n=-1"),
        ((2, 3, 4), "bhw", 23, "b=1,h=2,w=3"),
        ((2, 3, 4), "bhw", 24, "b=2,h=0,w=0"),
        ((2, 3, 4), "bhw", -1, "b=-1,h=2,w=3"),
        ((2, 3, 4), "", 13, "1,0,1"),
        ((2, 3, 4), "bh", 13, "1,0,1"),  # too few letters: none
        ((2, 0, 4), "bhw", 13, "13"),  # nothing to divide by
        ((), "", 2, "2"),
    ],
)
def test_index_of_an_address(shape, axes, at, index):
    owner = Owner("x", 4096, 4 * int(np.prod(shape, dtype=int)), "global", shape, 4, axes)
    assert owner.element(4096 + 4 * at) == index
    assert owner.element(4096 + 4 * at + 3) == index  # any byte of it


@pytest.mark.parametrize(
    "shape, axes, text",
    [((2, 3), "hw", "h x w = 2 x 3"), ((2, 3), "", "2 x 3"), ((5,), "n", "n = 5"), ((), "", "")],
)
def test_description_of_a_shape(shape, axes, text):
    assert Owner("x", 0, 4, "global", shape, 4, axes).describe_shape() == text


@pytest.mark.parametrize("checks", ["full", "memory", "count"])
@pytest.mark.parametrize("gigabytes", [1, 3, 6])
def test_a_limit_on_address_space_is_an_error_with_words(checks, gigabytes):
    """`ulimit -v`: the device opens with less, or says what it needs."""
    used = int(re.search(r"VmSize:\s*(\d+)", Path("/proc/self/status").read_text())[1]) << 10
    before = resource.getrlimit(resource.RLIMIT_AS)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (used + (gigabytes << 30), before[1]))
        with VirtualGPU(checks, cores=2) as dev:
            assert dev.array(np.ones(3, np.float32)).get().tolist() == [1, 1, 1]
    except DeviceError as error:
        assert "GiB of address space" in str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
