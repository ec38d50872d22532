"""The cache on disk: its size is limited, and nobody else can write to it."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from backwarp.devices import store as module_under_test
from backwarp.devices.store import Store, cache_root


def test_the_store_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setenv("BACKWARP_CACHE", str(tmp_path))
    store = Store("s", limit=10_000)
    for i in range(40):
        store.put(f"{i:02d}abc", bytes(1000))
    kept = [p for p in (tmp_path / "s").rglob("*") if p.is_file()]
    assert 0 < sum(p.stat().st_size for p in kept) <= 10_000
    assert store.get("39abc") == bytes(1000)


def test_the_store_looks_at_the_sizes_now_and_then(tmp_path, monkeypatch):
    monkeypatch.setenv("BACKWARP_CACHE", str(tmp_path))
    store, looks = Store("s", limit=160_000), []
    monkeypatch.setattr(store, "_prune", looks.append)
    for i in range(20):
        store.put(f"{i:02d}abc", bytes(1000))
    assert len(looks) == 2  # at first, and after a sixteenth of the limit


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o775, 0o777])
def test_only_its_user_can_write_to_the_cache(tmp_path, monkeypatch, mode):
    root = tmp_path / "cache"
    monkeypatch.setenv("BACKWARP_CACHE", str(root))
    root.mkdir()
    root.chmod(mode)
    safe = not mode & 0o022
    assert cache_root() == (root if safe else None)
    Store("s").put("abc", b"data")
    assert Store("s").get("abc") == (b"data" if safe else None)


def test_an_entry_that_others_could_have_written_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setenv("BACKWARP_CACHE", str(tmp_path))
    old = os.umask(0)
    try:
        Store("s").put("abc", b"data")
    finally:
        os.umask(old)
    entry = tmp_path / "s" / "ab" / "abc"
    assert [p.stat().st_mode & 0o077 for p in (entry.parent.parent, entry.parent, entry)] == [0, 0, 0]
    entry.chmod(0o620)
    assert Store("s").get("abc") is None


def test_the_cache_of_another_user_is_not_used(tmp_path, monkeypatch):
    """It may hold machine code of theirs."""
    monkeypatch.setenv("BACKWARP_CACHE", str(tmp_path))
    monkeypatch.setattr(
        module_under_test, "os", SimpleNamespace(**vars(os) | {"geteuid": lambda: os.geteuid() + 1})
    )
    assert cache_root() is None
    Store("s").put("abc", b"data")
    assert Store("s").get("abc") is None
