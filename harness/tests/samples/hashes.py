"""Hash functions and hash tables; updates under a lock."""

from __future__ import annotations

import hashlib

import numpy as np

from tests.samples import Job, Launch, ceil_div, i32, sample


def murmur3(data: bytes, seed: int) -> int:
    h, full = seed, 0xFFFFFFFF

    def mixed(k):
        k = k * 0xCC9E2D51 & full
        return ((k << 15 | k >> 17) & full) * 0x1B873593 & full

    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        h ^= mixed(int.from_bytes(data[at : at + 4], "little"))
        h = ((h << 13 | h >> 19) & full) * 5 + 0xE6546B64 & full
    if data[whole:]:
        h ^= mixed(int.from_bytes(data[whole:], "little"))
    h ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ h >> shift) * factor & full
    return h ^ h >> 16


@sample(dict(count=1), dict(count=50))
def murmur(rng, count):
    texts = [rng.bytes(int(n)) for n in rng.integers(0, 23, count)]
    text = np.frombuffer(b"".join(texts) or b"x", np.uint8)
    starts = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    hashes = np.array([murmur3(t, 42) for t in texts], np.uint32)
    return Job(
        [Launch("murmur", ceil_div(count, 32), 32, "text starts hashes count seed")],
        inputs=dict(text=text, starts=starts),
        outputs=dict(hashes=hashes),
        scalars=i32(count=count) | dict(seed=np.uint32(42)),
    )


@sample(dict(count=1), dict(count=40))
def md5(rng, count):
    lengths = rng.integers(0, 56, count).astype(np.int32)
    messages = rng.integers(0, 256, (count, 55)).astype(np.uint8)
    digests = [
        hashlib.md5(m[:n].tobytes(), usedforsecurity=False).digest()
        for m, n in zip(messages, lengths, strict=True)
    ]
    sines = np.floor(abs(np.sin(np.arange(1, 65))) * 2**32).astype(np.uint32)
    return Job(
        [Launch("md5", ceil_div(count, 32), 32, "messages lengths digests sines count width")],
        inputs=dict(messages=messages, lengths=lengths, sines=sines),
        outputs=dict(digests=np.frombuffer(b"".join(digests), np.uint32).reshape(count, 4).copy()),
        scalars=i32(count=count, width=55),
    )


@sample(dict(n=1), dict(n=200))
def hash_table(rng, n):
    keys, queries = rng.integers(0, 80, n).astype(np.uint32), np.arange(100, dtype=np.uint32)
    table = np.full((127, 2), 0, np.uint32)
    table[:, 0] = 0xFFFFFFFF
    return Job(
        [
            Launch("insert", ceil_div(n, 64), 64, "table capacity keys n"),
            Launch("lookup", 2, 64, "table capacity queries counts queried"),
        ],
        inputs=dict(keys=keys, queries=queries),
        outputs=dict(counts=np.bincount(keys, minlength=100).astype(np.int32)),
        state=dict(table=(table, None)),
        scalars=i32(n=n, queried=100) | dict(capacity=np.uint32(127)),
    )


@sample(dict(n=1), dict(n=150))
def spin_lock(rng, n):
    x, keys = rng.standard_normal(n).astype(np.float32), rng.integers(0, 5, n).astype(np.int32)
    kind = np.dtype([("lock", np.int32), ("count", np.int32), ("least", np.float32), ("most", np.float32)])
    expected = np.zeros(5, kind)
    for k in set(keys.tolist()):
        mine = x[keys == k]
        expected[k] = 0, len(mine), mine.min(), mine.max()
    return Job(
        [Launch("spin_lock", ceil_div(n, 64), 64, "x keys buckets n")],
        inputs=dict(x=x, keys=keys),
        state=dict(buckets=(np.zeros((5, 4), np.int32), expected.view(np.int32).reshape(5, 4))),
        scalars=i32(n=n),
    )
