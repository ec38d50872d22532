"""Scans and reductions."""

from __future__ import annotations

import numpy as np

from tests.samples import Job, Launch, ceil_div, i32, sample


def whole(rng, n: int, low: int = -99, high: int = 100) -> np.ndarray:
    return rng.integers(low, high, n).astype(np.int32)


@sample(dict(n=1), dict(n=256), dict(n=1000))
def block_scan(rng, n):
    x = whole(rng, n)
    blocks = ceil_div(n, 256)
    starts = np.concatenate([[0], np.cumsum(x)[:-1]]).astype(np.int32)
    return Job(
        [
            Launch("scan_blocks", blocks, 128, "x out sums n", 1024),
            Launch("scan_blocks", 1, 128, "sums scanned total blocks", 1024),
            Launch("add_sums", ceil_div(n, 64), 64, "out scanned n"),
        ],
        inputs=dict(x=x),
        outputs=dict(out=starts),
        state={
            name: (np.zeros(size, np.int32), None)
            for name, size in (("sums", blocks), ("scanned", blocks), ("total", 1))
        },
        scalars=i32(n=n, blocks=blocks),
    )


@sample(dict(n=1), dict(n=257), dict(n=999))
def warp_scan(rng, n):
    x = rng.standard_normal(n).astype(np.float32)
    return Job(
        [Launch("warp_scan", 1, 128, "x out n")],
        inputs=dict(x=x),
        outputs=dict(out=np.cumsum(x, dtype=float).astype(np.float32)),
        scalars=i32(n=n),
        atol=1e-4,
    )


@sample(dict(lengths=(1,)), dict(lengths=(5, 0, 33, 100, 1, 64, 31)))
def segmented_reduction(rng, lengths):
    starts = np.cumsum([0, *lengths]).astype(np.int32)
    x = rng.standard_normal(starts[-1]).astype(np.float32)
    parts = np.split(x, starts[1:-1])
    return Job(
        [Launch("segmented_reduction", ceil_div(len(lengths), 2), 64, "x starts sums largest segments")],
        inputs=dict(x=x, starts=starts),
        outputs=dict(
            sums=np.array([p.sum(dtype=float) for p in parts], np.float32),
            largest=np.array([p.max(initial=-np.inf) for p in parts], np.float32),
        ),
        scalars=i32(segments=len(lengths)),
    )


@sample(dict(n=1, blocks=1), dict(n=1001, blocks=5), dict(n=3000, blocks=7))
def last_block_reduction(rng, n, blocks):
    x = rng.standard_normal(n).astype(np.float32)
    launch = Launch("last_block_reduction", blocks, 128, "x partial sum n")
    return Job(
        [launch, launch],
        inputs=dict(x=x),
        outputs=dict(sum=np.array([x.sum(dtype=float)], np.float32)),
        state=dict(partial=(np.full(blocks, np.nan, np.float32), None)),
        scalars=i32(n=n),
        atol=1e-4,
    )


@sample(dict(n=3), dict(n=4099))
def histogram(rng, n):
    data = rng.integers(0, 256, n).astype(np.uint8) // rng.integers(1, 9, n).astype(np.uint8)
    counts = np.bincount(data, minlength=256).astype(np.uint32)
    return Job(
        [Launch("histogram", 3, 128, "data counts n")],
        inputs=dict(data=data),
        state=dict(counts=(np.zeros(256, np.uint32), counts)),
        scalars=i32(n=n),
    )


@sample(dict(n=1), dict(n=1000))
def stream_compaction(rng, n):
    x = rng.standard_normal(n).astype(np.float32)
    blocks = ceil_div(n, 96)
    kept = [part[part > 0.25] for part in np.split(x, range(96, n, 96))]

    def check(got):
        for start, part in zip(got["block_starts"], kept, strict=True):
            assert (got["kept"][start : start + len(part)] == part).all()

    count = sum(map(len, kept))
    return Job(
        [Launch("stream_compaction", blocks, 96, "x kept block_starts total n limit")],
        inputs=dict(x=x),
        state=dict(
            kept=(np.zeros(max(count, 1), np.float32), None),
            block_starts=(np.zeros(blocks, np.int32), None),
            total=(np.zeros(1, np.int32), np.array([count], np.int32)),
        ),
        scalars=i32(n=n) | dict(limit=np.float32(0.25)),
        check=check,
    )


@sample(dict(n=1), dict(n=1111))
def lookback_scan(rng, n):
    x = whole(rng, n)
    blocks = ceil_div(n, 128)
    return Job(
        [Launch("lookback_scan", blocks, 128, "x out status n")],
        inputs=dict(x=x),
        outputs=dict(out=np.cumsum(x).astype(np.int32)),
        state=dict(status=(np.zeros(blocks, np.uint64), None)),
        scalars=i32(n=n),
    )


@sample(dict(n=1), dict(n=1001))
def tiled_reduction(rng, n):
    x = rng.standard_normal(n).astype(np.float32)
    blocks = ceil_div(n, 96)
    tiles = np.concatenate([x, np.zeros(blocks * 96 - n)]).reshape(-1, 16).sum(1)
    zero = np.zeros(1, np.float32)
    return Job(
        [
            Launch("tiled_reduction", blocks, 96, "x tile_sums total n"),
            Launch("count_positive", ceil_div(n, 64), 64, "x count n"),
        ],
        inputs=dict(x=x),
        outputs=dict(tile_sums=tiles.astype(np.float32)),
        state=dict(
            total=(zero, np.array([x.sum(dtype=float)], np.float32)),
            count=(np.zeros(1, np.int32), np.array([(x > 0).sum()], np.int32)),
        ),
        scalars=i32(n=n),
        atol=1e-4,
    )


@sample(dict(count=1), dict(count=5))
def pipeline(rng, count):
    rows = rng.standard_normal((count, 128)).astype(np.float32)
    turned = np.array([np.roll(row, -i) for i, row in enumerate(rows)])
    return Job(
        [Launch("pipeline", 1, 128, "rows out count")],
        inputs=dict(rows=rows),
        outputs=dict(out=np.cumsum(turned, axis=0, dtype=float).astype(np.float32)),
        scalars=i32(count=count),
    )


@sample(dict(chunks=1), dict(chunks=5))
def warp_specialised(rng, chunks):
    x = rng.standard_normal((chunks, 96)).astype(np.float32)
    out = sum(np.roll(row, -c).astype(float) for c, row in enumerate(x)).astype(np.float32)
    return Job(
        [Launch("warp_specialised", 1, 128, "x out chunks")],
        inputs=dict(x=x),
        outputs=dict(out=out),
        scalars=i32(chunks=chunks),
    )
