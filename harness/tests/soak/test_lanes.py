"""A few files of lanes.py; `python -m tests.soak.lanes` compares all of them."""

from __future__ import annotations

from itertools import count

import pytest

from tests import sampled
from tests.soak import lanes
from tests.soak.lanes import Subject, Tally, compare

#: part -> the start of a subject's name
FEW = {
    "mistakes": "02_matmul ",
    "rows": "test_half ties",
    "intrinsics": "intrinsics integers 24",
    "functions": "atan2f",
}


@pytest.fixture(scope="module")
def devices():
    return lanes.open_devices((1, *lanes.WIDTHS))


def _compared(subject: Subject, devices) -> Tally:
    tally = Tally()
    compare(subject, devices, tally)
    assert not tally.differences, "\n".join(tally.differences)
    assert tally.counts["kernels as lanes"] and tally.counts["runs"]
    return tally


#: with all that emit/lanes has, two parts are enough to see that lanes.py works; it compares all of them every night
@pytest.mark.soak
@pytest.mark.parametrize("part", sampled(FEW, always=("rows", "functions"), every=0))
def test_lanes_of_each_width_give_the_bits_of_single_threads(part, devices):
    subject = next(s for s in lanes.PARTS[part]() if s.name.startswith(FEW[part]))
    _compared(subject, devices)


@pytest.mark.soak
def test_expressions_as_lanes(devices):
    _compared(next(lanes.drawn(count(1), 2)), devices)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [6, 26])  # where a compiler placed blocks of one path among those of another
def test_branches_as_lanes(seed, devices):
    _compared(next(lanes.branches(count(seed))), devices)


def test_what_differs_is_told(devices):
    """Bits, faults of another kind, and a file that only some builds refuse."""
    source = 'extern "C" __global__ void k(int* p) { p[threadIdx.x] = threadIdx.x; }'

    def load(device):
        return device.compile(source)

    def wide(device, module):
        return {"p": bytes([device.lanes > 16])}

    tally = Tally()
    compare(Subject("k", load, {"one": wide}), devices, tally)
    assert tally.differences == ["k, one, 32 lanes: ['p']"]
    assert tally.counts["runs"] == len(lanes.WIDTHS) and tally.counts["kernels as lanes"] == 1

    def outside(device, module):
        module.get_function("k")(1, 32 if device.lanes == 4 else 16, (device.empty(16, "i4"),))
        return {}

    tally = Tally()
    compare(Subject("k", load, {"two": outside}), devices, tally)
    assert len(tally.differences) == 1 and tally.differences[0].startswith("k, two, 4 lanes: ")

    def refused(device):
        return load(device) if device.lanes == 1 else device.compile("no kernel")

    tally = Tally()
    compare(Subject("k", refused, {}), devices, tally)
    assert len(tally.differences) == 1
