"""A launch goes to its file's folder; the tests after it stay where they are."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.chdir(os.getcwd())
