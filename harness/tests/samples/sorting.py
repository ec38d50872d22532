"""Sorting and merging."""

from __future__ import annotations

import numpy as np

from tests.samples import Job, Launch, ceil_div, i32, sample


@sample(dict(n=200), dict(n=1000))
def bitonic_sort(rng, n):
    padded = max(256, 1 << (n - 1).bit_length())
    keys = np.full(padded, 0xFFFFFFFF, np.uint32)
    keys[:n] = rng.permutation(5 * n)[:n] * 1000003
    values = np.arange(padded, dtype=np.int32)
    scalars, blocks = {}, padded // 256
    launches = [Launch("sort_shared", blocks, 128, "keys values whole")]
    size = 512
    while size <= padded:
        scalars[f"size{size}"] = np.uint32(size)
        stride = size // 2
        while stride >= 256:
            scalars[f"stride{stride}"] = np.uint32(stride)
            launches.append(
                Launch("sort_global", padded // 256, 128, f"keys values size{size} stride{stride}")
            )
            stride //= 2
        launches.append(Launch("sort_shared", blocks, 128, f"keys values size{size}"))
        size *= 2
    order = np.argsort(keys, kind="stable")

    def check(got):
        assert (got["values"][:n] == order[:n]).all()

    return Job(
        launches,
        state=dict(keys=(keys, keys[order]), values=(values, None)),
        scalars=scalars | dict(whole=np.uint32(0)),
        check=check,
    )


@sample(dict(n=1, shift=0), dict(n=777, shift=8))
def radix_sort(rng, n, shift):
    keys = rng.integers(0, 1 << 32, n, dtype=np.uint32)
    blocks = ceil_div(n, 128)
    return Job(
        [
            Launch("count_digits", blocks, 128, "keys counts n shift"),
            Launch("scan_counts", 1, 32, "counts total"),
            Launch("scatter", blocks, 128, "keys out counts n shift"),
        ],
        inputs=dict(keys=keys),
        outputs=dict(out=keys[np.argsort(keys >> shift & 15, kind="stable")]),
        state=dict(counts=(np.zeros(16 * blocks, np.int32), None)),
        scalars=i32(n=n, shift=shift, total=16 * blocks),
    )


@sample(dict(na=1, nb=0), dict(na=100, nb=333))
def merge_path(rng, na, nb):
    a, b = (np.sort(rng.integers(0, 500, n)).astype(np.int32) for n in (na, nb))
    return Job(
        [Launch("merge_path", ceil_div(na + nb, 320), 64, "a na b nb out")],
        inputs=dict(a=a, b=b),
        outputs=dict(out=np.sort(np.concatenate([a, b]))),
        scalars=i32(na=na, nb=nb),
    )


@sample(dict(columns=3), dict(columns=200))
def top_k(rng, columns):
    rows = 5
    x = rng.integers(0, 50, (rows, columns)).astype(np.float32)
    order = np.argsort(-x, axis=1, kind="stable")[:, :4].astype(np.int32)
    values = np.take_along_axis(x, order, 1)
    missing = 4 - order.shape[1]
    if missing > 0:
        order = np.pad(order, ((0, 0), (0, missing)), constant_values=-1)
        values = np.pad(values, ((0, 0), (0, missing)), constant_values=-np.inf)
    return Job(
        [Launch("top_k", rows, 32, "x values indices columns")],
        inputs=dict(x=x),
        outputs=dict(values=values, indices=order),
        scalars=i32(columns=columns),
    )
