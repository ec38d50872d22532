"""Layers of a network and vectors: softmax, normalisation, optimisers, axpy."""

from __future__ import annotations

import numpy as np

from tests.samples import Job, Launch, ceil_div, i32, sample


@sample(dict(rows=1, columns=1), dict(rows=3, columns=300))
def online_softmax(rng, rows, columns):
    x = (5 * rng.standard_normal((rows, columns))).astype(np.float32)
    weights = np.exp(x.astype(float) - x.max(1, keepdims=True))
    return Job(
        [Launch("online_softmax", rows, 96, "x out columns")],
        inputs=dict(x=x),
        scalars=i32(columns=columns),
        outputs=dict(out=(weights / weights.sum(1, keepdims=True)).astype(np.float32)),
    )


@sample(dict(rows=1, columns=2), dict(rows=3, columns=201))
def layer_norm(rng, rows, columns):
    x = (3 + rng.standard_normal((rows, columns))).astype(np.float32)
    gain, bias = rng.standard_normal((2, columns)).astype(np.float32)
    wide = x.astype(float)
    out = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * gain + bias
    return Job(
        [Launch("layer_norm", rows, 96, "x gain bias out columns epsilon")],
        inputs=dict(x=x, gain=gain, bias=bias),
        outputs=dict(out=out.astype(np.float32)),
        scalars=i32(columns=columns) | dict(epsilon=np.float32(1e-5)),
        rtol=1e-4,
        atol=1e-5,
    )


@sample(
    dict(n=1), dict(n=515), expressions=("axpy<float>", "axpy<double, 4>", "axpy<int, 2>", "axpy<long long>")
)
def saxpy(rng, n):
    job = Job([], scalars=i32(n=n))
    for c_type, kind in (("float", "f4"), ("double, 4", "f8"), ("int, 2", "i4"), ("long long", "i8")):
        x, y = rng.integers(-1000, 1000, (2, n)).astype(kind)
        job.inputs[f"x_{kind}"] = x
        job.scalars[f"a_{kind}"] = np.dtype(kind).type(3)
        job.state[f"y_{kind}"] = y, 3 * x + y
        job.launches.append(Launch(f"axpy<{c_type}>", 3, 64, f"a_{kind} x_{kind} y_{kind} n"))
    return job


@sample(dict(n=1), dict(n=301))
def axpy_half2(rng, n):
    a = np.float16(0.5)
    x, y = rng.standard_normal((2, n)).astype(np.float16)
    words = (rng.standard_normal(n).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    values = (words.astype(np.uint32) << 16).view(np.float32)
    after = (a.astype(float) * x + y).astype(np.float16)
    return Job(
        [Launch("axpy_half2", 2, 64, "a x y n"), Launch("squares_bf16", 1, 64, "words squares n")],
        inputs=dict(x=x, words=words),
        state=dict(
            y=(y, after),
            squares=(np.zeros(1, np.float32), np.array([(values.astype(float) ** 2).sum()], np.float32)),
        ),
        scalars=i32(n=n) | dict(a=a),
    )


@sample(dict(n=3), dict(n=262))
def adam(rng, n):
    w, g, m = rng.standard_normal((3, n)).astype(np.float32)
    v = rng.random(n).astype(np.float32)
    values = dict(
        rate=0.01, beta1=0.9, beta2=0.99, epsilon=1e-6, decay=0.1, correction1=0.3, correction2=0.05
    )
    step = np.array(tuple(values.values()), [(name, np.float32) for name in values])[()]
    s = {name: float(np.float32(value)) for name, value in values.items()}
    m2 = s["beta1"] * m.astype(float) + (1 - s["beta1"]) * g
    v2 = s["beta2"] * v.astype(float) + (1 - s["beta2"]) * g.astype(float) ** 2
    w2 = w - s["rate"] * (
        m2 / s["correction1"] / (np.sqrt(v2 / s["correction2"]) + s["epsilon"]) + s["decay"] * w
    )
    after = {name: x.astype(np.float32) for name, x in (("w", w2), ("m", m2), ("v", v2))}
    return Job(
        [Launch("adam", ceil_div(n, 128), 32, "w g m v n step")],
        inputs=dict(g=g),
        state=dict(w=(w, after["w"]), m=(m, after["m"]), v=(v, after["v"])),
        scalars=i32(n=n) | dict(step=step),
    )


@sample(dict(count=1, width=1), dict(count=20, width=70))
def embedding_gradient(rng, count, width):
    tokens = rng.integers(0, 6, count).astype(np.int32)
    rows = rng.standard_normal((count, width)).astype(np.float32)
    table, sums, largest = np.zeros((6, width)), np.zeros(6), np.full(6, -np.inf, np.float32)
    np.add.at(table, tokens, rows)
    np.add.at(sums, tokens, rows.sum(1, dtype=float))
    np.maximum.at(largest, tokens, rows.max(1))
    return Job(
        [Launch("embedding_gradient", count + 1, 32, "tokens rows table sums largest count width")],
        inputs=dict(tokens=tokens, rows=rows),
        state=dict(
            table=(np.zeros((6, width), np.float32), table.astype(np.float32)),
            sums=(np.zeros(6), sums),
            largest=(np.full(6, -np.inf, np.float32), largest),
        ),
        scalars=i32(count=count, width=width),
    )
