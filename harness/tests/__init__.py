"""The tests mirror the packages. What several of them share is here."""

from collections.abc import Collection, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "harness"  # where processes of their own find backwarp and these tests
#: CUDA sources of several tests
KERNELS = Path(__file__).with_name("kernels")


def sampled(values: Iterable, always: Collection = (), every: int = 3) -> list:
    """For parametrize: every third value, and those of `always`; the others every night. every: 0 for those alone."""
    import pytest  # the children that tests start need none of it

    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=[pytest.mark.soak] * (value not in always and (not every or number % every > 0)),
        )
        for number, value in enumerate(values)
    ]
