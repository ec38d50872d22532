"""A run to step through: what its cells show."""

import numpy as np
import pytest

from backwarp.report.pictures.explore import number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (-0.657, "-0.66"),
        (0.2637, "0.264"),
        (-1.053, "-1.05"),
        (-0.01234, "-0.01"),
        (123456, "1e+05"),
        (np.nan, ""),
        (-np.inf, "-inf"),
    ],
)
def test_numbers_fit_their_cells(value, text):
    assert number(np.float64(np.float32(value))) == text
