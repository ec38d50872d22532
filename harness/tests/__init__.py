"""The tests mirror the packages. What several of them share is here."""

from collections.abc import Collection, Iterable
from pathlib import Path

import pytest

#: CUDA sources of several tests
KERNELS = Path(__file__).with_name("kernels")


def sampled(values: Iterable, always: Collection = ()) -> list:
    """For parametrize: every third value, and those of `always`; the others every night."""
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=[pytest.mark.soak] * (number % 3 > 0 and value not in always),
        )
        for number, value in enumerate(values)
    ]
