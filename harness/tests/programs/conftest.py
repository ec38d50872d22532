"""The C++ library that takes minutes to build is kept from one run of the tests to the next."""

import os
from pathlib import Path

import pytest

from backwarp.programs.compiler import installation


@pytest.fixture(autouse=True)
def kept_library(monkeypatch):
    kept = os.environ.get("ZIG_GLOBAL_CACHE_DIR") or Path.home() / ".cache/backwarp/zig" / installation()
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(kept))
