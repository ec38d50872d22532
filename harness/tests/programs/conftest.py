"""The C++ library that takes minutes to build is kept from one run of the tests to the next."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def kept_library(monkeypatch):
    kept = Path.home() / ".cache" / "backwarp" / "zig"
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(kept))
