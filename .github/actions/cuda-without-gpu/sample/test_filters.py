import cupy
import numpy as np
import pytest
from filters import blur, threshold


@pytest.mark.parametrize("n", [1, 64, 65, 200])
def test_blur(n):
    x = cupy.random.rand(n, dtype=cupy.float32)
    padded = np.pad(x.get(), 1)
    np.testing.assert_allclose(blur(x).get(), (padded[:-2] + padded[1:-1] + padded[2:]) / 3, rtol=1e-5)


def test_threshold():
    x = cupy.arange(300, dtype=cupy.float32)
    assert int(threshold(x, 250).sum()) == 49
