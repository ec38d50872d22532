"""Random rings of tiles: right ones are exact and never accused; what is wrong in one step is told, or harmless."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.errors import KernelFault
from tests.devices.virtual.hopper.rings import drawn, result, spoilt


@pytest.mark.parametrize("products, count", [(False, 16), (True, 4)])
def test_rings(products, count):
    rng = np.random.default_rng(36)
    for number in range(count):
        ring = drawn(rng, products)
        wrong = spoilt(rng, ring)
        for seed in (0, 1, 2)[number % 2 :][:2]:
            assert result(ring, seed) is True, ring
            found = result(wrong, seed)
            assert isinstance(found, KernelFault) == wrong.matters and (wrong.matters or found is True), wrong
