"""Kernels of the kinds found in real code: right against NumPy in both flavours, clean in full checks."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests import sampled, samples
from tests.devices.virtual.launches import FLAVOURS, device
from tests.samples import SAMPLES, compare, compile_sample, run

SCHEDULES = (0, 1, 2)
#: optimised too, where threads may go side by side: loops, shared memory, collectives, divergence, matrices, functions
OPTIMISED = (
    "saxpy",
    "transpose",
    "warp_scan",
    "spmv_csr",
    "gemm_wmma",
    "dct8x8",
    "black_scholes",
    "histogram",
    "lookback_scan",
    "md5",
)

#: with one flavour: as NVRTC takes a second for the headers of libcu++, or as full checks see more, and what they leave out
#: is in the others; every night with both
ONE = {name: ("full",) for name in SAMPLES if name not in OPTIMISED} | {"pipeline": ("memory",)}
DAILY = sampled([(name, ONE.get(name, FLAVOURS)) for name in sorted(SAMPLES)], always=())
NIGHTLY = [pytest.param(name, FLAVOURS, marks=pytest.mark.soak) for name in ONE]


MEANT = ("same-write", "order-dependent", "cooperative-launch")  # notes


@pytest.mark.parametrize(("name", "flavours"), DAILY + NIGHTLY)
def test_sample(name, flavours):
    entry = SAMPLES[name]
    jobs = [entry.job(case) for case in entry.cases]
    for dev in map(device, flavours):
        try:
            dev.quick = dev.checks == "full" or name not in OPTIMISED
            module = compile_sample(dev, entry)
            for job, dev.schedule in product(jobs, SCHEDULES):
                got, notes = run(job, dev, module)
                compare(job, got)
                assert [n for n in notes if n.kind not in MEANT] == [], dev.checks
        finally:
            dev.schedule, dev.quick = 0, True


def test_every_kernel_file_is_a_sample():
    files = {path.stem for path in Path(samples.__file__).parent.glob("*.cu")}
    assert files == set(SAMPLES)
