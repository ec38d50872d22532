from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def cp(one_runtime):
    import backwarp.cupy

    return backwarp.cupy
