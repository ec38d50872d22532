"""Matrix products, dense, sparse and quantised; attention."""

from __future__ import annotations

import numpy as np

from tests.samples import Job, Launch, ceil_div, i32, sample


def normal(rng, *shape) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def product(a, b) -> np.ndarray:
    return (a.astype(float) @ b.astype(float)).astype(np.float32)


@sample(dict(m=4, n=4, k=4), dict(m=67, n=132, k=20))
def gemm_warp_tiled(rng, m, n, k):
    a, b = normal(rng, m, k), normal(rng, k, n)
    return Job(
        [Launch("gemm_warp_tiled", (ceil_div(n, 64), ceil_div(m, 64)), 256, "a b c m n k")],
        inputs=dict(a=a, b=b),
        outputs=dict(c=product(a, b)),
        scalars=i32(m=m, n=n, k=k),
        atol=1e-4,
    )


@sample(dict(m=1, n=1, k=1), dict(m=130, n=67, k=19))
def gemm_128(rng, m, n, k):
    a, b, c = normal(rng, m, k), normal(rng, k, n), normal(rng, m, n)
    launch = Launch("gemm_128", (ceil_div(n, 128), ceil_div(m, 128)), 256, "a b c m n k alpha beta")
    return Job(
        [launch],
        inputs=dict(a=a, b=b),
        state=dict(c=(c, 0.5 * product(a, b) - 2 * c)),
        atol=1e-4,
        scalars=i32(m=m, n=n, k=k) | dict(alpha=np.float32(0.5), beta=np.float32(-2)),
    )


@sample(dict(m=16, n=16, k=16), dict(m=33, n=47, k=37))
def gemm_wmma(rng, m, n, k):
    a, b = (normal(rng, *s).astype(np.float16) for s in ((m, k), (k, n)))
    return Job(
        [Launch("gemm_wmma", (ceil_div(n, 32), ceil_div(m, 32)), 128, "a b c m n k")],
        inputs=dict(a=a, b=b),
        outputs=dict(c=product(a, b)),
        scalars=i32(m=m, n=n, k=k),
        atol=1e-4,
    )


@sample(dict(m=1, n=1, k=8), dict(m=60, n=45, k=104))
def gemm_mma(rng, m, n, k):
    a, b = (normal(rng, *s).astype(np.float16) for s in ((m, k), (n, k)))
    shared = 3 * (64 + 32) * 40 * 2
    return Job(
        [Launch("gemm_mma", (ceil_div(n, 32), ceil_div(m, 64)), 128, "a b c m n k", shared)],
        inputs=dict(a=a, b=b),
        outputs=dict(c=product(a, b.T)),
        scalars=i32(m=m, n=n, k=k),
        atol=1e-4,
    )


@sample(dict(rows=1), dict(rows=50))
def spmv_csr(rng, rows):
    dense = rng.standard_normal((rows, 70)) * (rng.random((rows, 70)) < rng.random((rows, 1)))
    starts = np.concatenate([[0], np.cumsum((dense != 0).sum(1))]).astype(np.int32)
    columns, values, x = np.nonzero(dense)[1].astype(np.int32), dense[dense != 0], rng.standard_normal(70)
    return Job(
        [Launch("spmv_csr", 3, (32, 4), "starts columns values x y rows")],
        inputs=dict(starts=starts, columns=columns, values=values, x=x),
        outputs=dict(y=dense @ x),
        scalars=i32(rows=rows),
        rtol=1e-12,
        atol=1e-12,
    )


@sample(dict(m=1, n=1, words=1), dict(m=3, n=70, words=9))
def int8_product(rng, m, n, words):
    a, b = (rng.integers(-128, 128, (rows, 4 * words)).astype(np.int8) for rows in (m, n))
    scaled = (a.astype(np.int32) @ b.T.astype(np.int32)).astype(np.float32) * np.float32(0.003)
    return Job(
        [Launch("int8_product", (ceil_div(n, 64), m), 64, "a b out m n words scale")],
        inputs=dict(a=a, b=b),
        outputs=dict(out=np.clip(np.rint(scaled), -128, 127).astype(np.int8)),
        scalars=i32(m=m, n=n, words=words) | dict(scale=np.float32(0.003)),
    )


@sample(dict(length=1, causal=0), dict(length=45, causal=0), dict(length=70, causal=1))
def flash_attention(rng, length, causal):
    heads, dim = 2, 16
    q, k, v = (normal(rng, heads, length, dim) for _ in range(3))
    scores = np.einsum("hid,hjd->hij", q.astype(float), k) * 0.25
    if causal:
        scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
    most = scores.max(2, keepdims=True)
    weights = np.exp(scores - most)
    total = weights.sum(2, keepdims=True)
    return Job(
        [
            Launch(
                "flash_attention", (ceil_div(length, 32), heads), 32, "q k v out logsum length causal scale"
            )
        ],
        inputs=dict(q=q, k=k, v=v),
        outputs=dict(
            out=np.einsum("hij,hjd->hid", weights / total, v).astype(np.float32),
            logsum=(most + np.log(total))[..., 0].astype(np.float32),
        ),
        scalars=i32(length=length, causal=causal) | dict(scale=np.float32(0.25)),
        atol=1e-5,
    )


@sample(dict(order=1, count=1), dict(order=13, count=5))
def cholesky(rng, order, count):
    root = rng.standard_normal((count, order, order))
    a = root @ root.transpose(0, 2, 1) + order * np.eye(order)
    return Job(
        [Launch("cholesky", ceil_div(count, 2), 64, "a l order count", 16 * order * (order + 1))],
        inputs=dict(a=a),
        outputs=dict(l=np.linalg.cholesky(a)),
        scalars=i32(order=order, count=count),
        rtol=1e-10,
        atol=1e-10,
    )
