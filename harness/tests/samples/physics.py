"""Bodies, prices, random numbers."""

from __future__ import annotations

from math import erf

import numpy as np

from tests.samples import Job, Launch, ceil_div, i32, sample


@sample(dict(n=1), dict(n=100))
def nbody(rng, n):
    bodies = rng.standard_normal((n, 4)).astype(np.float32)
    d = bodies[None, :, :3].astype(float) - bodies[:, None, :3]
    strength = bodies[None, :, 3] / ((d**2).sum(2) + np.float32(0.01)) ** 1.5
    return Job(
        [Launch("nbody", ceil_div(n, 64), 64, "bodies acceleration n softening")],
        inputs=dict(bodies=bodies),
        outputs=dict(acceleration=(d * strength[..., None]).sum(1).astype(np.float32)),
        scalars=i32(n=n) | dict(softening=np.float32(0.01)),
        rtol=1e-4,
        atol=1e-3,
    )


@sample(dict(n=1), dict(n=333))
def black_scholes(rng, n):
    spot, strike, years = (
        rng.uniform(a, b, n).astype(np.float32) for a, b in ((5, 30), (1, 100), (0.25, 10))
    )
    rate, volatility = np.float32(0.02), np.float32(0.3)
    s, x, t, r, v = (np.asarray(value, float) for value in (spot, strike, years, rate, volatility))
    normal = np.vectorize(lambda d: 0.5 * (1 + erf(d / 2**0.5)))
    d1 = (np.log(s / x) + (r + v * v / 2) * t) / (v * np.sqrt(t))
    d2 = d1 - v * np.sqrt(t)
    call = s * normal(d1) - x * np.exp(-r * t) * normal(d2)
    return Job(
        [Launch("black_scholes", 2, 64, "spot strike years call put n rate volatility")],
        inputs=dict(spot=spot, strike=strike, years=years),
        outputs=dict(call=call.astype(np.float32), put=(call - s + x * np.exp(-r * t)).astype(np.float32)),
        scalars=i32(n=n) | dict(rate=rate, volatility=volatility),
        rtol=1e-4,
        atol=2e-5,
    )


@sample(dict(count=3))
def binomial_options(rng, count):
    kind = np.dtype([(name, float) for name in ("spot", "strike", "years", "rate", "volatility")])
    options = np.zeros(count, kind)
    for name, low, high in (
        ("spot", 80, 120),
        ("strike", 80, 120),
        ("years", 0.5, 2),
        ("rate", 0.01, 0.05),
        ("volatility", 0.1, 0.4),
    ):
        options[name] = rng.uniform(low, high, count)
    prices, steps = [], 64
    for spot, strike, years, rate, volatility in options.tolist():
        up, grow = np.exp(volatility * np.sqrt(years / steps)), np.exp(rate * years / steps)
        p, i = (grow - 1 / up) / (up - 1 / up), np.arange(steps + 1)
        value = np.maximum(strike - spot * up ** (2.0 * i - steps), 0)
        for step in range(steps - 1, -1, -1):
            held = (p * value[1:] + (1 - p) * value[:-1]) / grow
            value = np.maximum(held, strike - spot * up ** (2.0 * i[: step + 1] - step))
        prices.append(value[0])
    raw = options.view(float).reshape(count, 5)
    return Job(
        [Launch("binomial_options", count, 65, "options prices")],
        inputs=dict(options=raw),
        outputs=dict(prices=np.array(prices)),
        rtol=1e-9,
    )


def philox(counter: np.ndarray, key: int) -> np.ndarray:
    """Random words of every row of counters."""
    mask = np.uint64(0xFFFFFFFF)
    x, y, z, w = counter.astype(np.uint64).T
    k0, k1 = np.uint64(key), np.uint64(0)
    for _ in range(10):
        a, b = x * np.uint64(0xD2511F53), z * np.uint64(0xCD9E8D57)
        x, y, z, w = (b >> np.uint64(32)) ^ y ^ k0, b & mask, (a >> np.uint64(32)) ^ w ^ k1, a & mask
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & mask, (k1 + np.uint64(0xBB67AE85)) & mask
    return np.stack([x, y, z, w], -1)


@sample(dict(blocks=1, rounds=1), dict(blocks=3, rounds=7))
def monte_carlo_pi(rng, blocks, rounds):
    threads, seed = blocks * 64, int(rng.integers(1 << 32))
    counters = np.zeros((threads, rounds, 4))
    counters[..., 0], counters[..., 1] = np.arange(threads)[:, None], np.arange(rounds)
    words = philox(counters.reshape(-1, 4), seed)
    half = (words >> np.uint64(1)).reshape(-1, 2, 2)
    hits = ((half**2).sum(2) < np.uint64(1 << 62)).sum()
    return Job(
        [Launch("monte_carlo_pi", blocks, 64, "hits samples rounds seed")],
        outputs=dict(samples=words[::rounds, 0].astype(np.uint32)),
        state=dict(hits=(np.zeros(1, np.uint64), np.array([hits], np.uint64))),
        scalars=i32(rounds=rounds) | dict(seed=np.uint32(seed)),
    )


@sample(dict(n=2, steps=1), dict(n=70, steps=9))
def split_barrier(rng, n, steps):
    start = rng.standard_normal(n).astype(np.float32)
    line = start.astype(float)
    for _ in range(steps):
        line = np.concatenate([line[:1], 0.25 * line[:-2] + 0.5 * line[1:-1] + 0.25 * line[2:], line[-1:]])
    return Job(
        [Launch("split_barrier", 1, 96, "start out n steps", 2 * 96 * 4)],
        inputs=dict(start=start),
        outputs=dict(out=line.astype(np.float32)),
        scalars=i32(n=n, steps=steps),
    )
