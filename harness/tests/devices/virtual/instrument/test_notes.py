"""Notes of accesses: what is inserted, and what the rows hold after a launch."""

import numpy as np
import pytest

from backwarp.devices import open_device
from backwarp.devices.virtual.instrument import notes
from backwarp.devices.virtual.ptx import parse

KERNEL = """
extern "C" __device__ float at(const float* row, int i) { return row[i]; }
extern "C" __global__ void k(const float* x, float* y, int n) {
    __shared__ float tile[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float own[2] = {at(x + i, 1), 0.0f};
    tile[threadIdx.x] = own[i % 2];
    for (const float* p = x; p < x + n; p += 2) y[i] = *p + tile[threadIdx.x];
}
"""


@pytest.fixture(scope="module")
def noted():
    """(sites, rows, where x begins) of a launch of two blocks of one thread."""
    with open_device("cpu", checks=notes.BUILD) as device:
        module = device.compile(KERNEL + notes.DECLARATION)
        x, y = device.array(np.arange(4, dtype=np.float32), name="x"), device.empty(2, name="y")
        counted = module.get_global(notes.NAME, np.int64)
        counted.set(0)
        module.get_function("k")(2, 1, (x, y, np.int32(4)))
        got = counted.get()
        sites = notes.run(parse.parse(module.compiled.text))
        assert y.get().tolist() == [3.0, 2.0]
        yield sites, got[1:].view(notes.ROW)[: got[0]], x.pointer


def of(noted, kind: str, function: str = "k") -> tuple[notes.Site, np.ndarray]:
    sites, rows, _ = noted
    number = next(i for i, s in enumerate(sites, 1) if (s.kind, s.function) == (kind, function) and s.nbytes)
    return sites[number - 1], rows[rows["site"] == number]


def test_a_file_without_notes_stays_as_it_is():
    text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ld.global.u32 %r1, [%rd1]; ret; }"
    module = parse.parse(text)
    before = [str(i) for i in module.functions["k"].body]
    assert notes.run(module) == []
    assert [str(i) for i in module.functions["k"].body] == before


def test_a_read_in_a_function_knows_its_variables_and_what_it_read(noted):
    site, rows = of(noted, "load", "at")
    assert (site.line, site.nbytes) == (2, 4)
    assert dict(site.names).keys() == {"row", "i"} and site.set_in["i"] == (0,)
    assert sorted(rows["value"][:, 0].view(np.float32).tolist()) == [1.0, 2.0]
    assert sorted((rows["address"] - noted[2]).tolist()) == [4, 8]
    column = [name for name, _ in site.names].index("i")
    assert rows["names"][:, column].tolist() == [1, 1]


def test_rows_tell_threads_and_blocks(noted):
    site, rows = of(noted, "store")
    assert sorted(zip(rows["block"].tolist(), rows["thread"].tolist(), strict=True)) == [(0, 0), (1, 0)]


def test_a_pointer_that_moves_is_noted_with_what_moves_beside_it(noted):
    sites, *_ = noted
    site = next(s for s in sites if s.kind == "load" and "p" in dict(s.names))
    assert site.line == 8 and 8 in site.set_in["p"]


def test_local_arrays_are_not_noted(noted):
    sites, *_ = noted
    assert all(s.line != 6 for s in sites if s.kind in ("load", "store"))


def test_calls_are_noted(noted):
    sites, rows, _ = noted
    (call,) = [i for i, s in enumerate(sites, 1) if s.kind == "call"]
    assert sites[call - 1].line == 6 and (rows["site"] == call).sum() == 2
