"""Images, grids and transforms."""

from __future__ import annotations

import numpy as np

from tests.samples import Job, Launch, ceil_div, i32, sample


@sample(dict(height=1, width=1), dict(height=40, width=67))
def transpose(rng, height, width):
    a = rng.standard_normal((height, width)).astype(np.float32)
    grid = ceil_div(width, 32), ceil_div(height, 32)
    variants = {"naive": (32, 32), "tiled": (32, 32), "padded": (32, 8)}
    return Job(
        [
            Launch(f"transpose_{name}", grid, block, f"a {name} height width")
            for name, block in variants.items()
        ],
        inputs=dict(a=a),
        outputs={name: np.ascontiguousarray(a.T) for name in variants},
        scalars=i32(height=height, width=width),
    )


@sample(dict(height=1, width=1), dict(height=19, width=37))
def separable_convolution(rng, height, width):
    image = rng.standard_normal((height, width)).astype(np.float32)
    taps = np.array([0.03, 0.11, 0.22, 0.28, 0.22, 0.11, 0.03])
    rows = np.array([np.convolve(row, taps)[3 : 3 + width] for row in image.astype(float)])
    both = np.array([np.convolve(column, taps)[3 : 3 + height] for column in rows.T]).T
    grid = ceil_div(width, 16), ceil_div(height, 8)
    return Job(
        [
            Launch("convolve_rows", grid, (16, 8), "image rows height width"),
            Launch("convolve_columns", grid, (16, 8), "rows out height width"),
        ],
        inputs=dict(image=image),
        outputs=dict(rows=rows.astype(np.float32), out=both.astype(np.float32)),
        scalars=i32(height=height, width=width),
    )


@sample(dict(nx=1, ny=1, nz=1), dict(nx=19, ny=11, nz=5))
def stencil_3d(rng, nx, ny, nz):
    a = rng.standard_normal((nz, ny, nx)).astype(np.float32)
    p = np.pad(a.astype(float), 1)
    sides = (
        p[:-2, 1:-1, 1:-1]
        + p[2:, 1:-1, 1:-1]
        + p[1:-1, :-2, 1:-1]
        + p[1:-1, 2:, 1:-1]
        + p[1:-1, 1:-1, :-2]
        + p[1:-1, 1:-1, 2:]
    )
    return Job(
        [Launch("stencil_3d", (ceil_div(nx, 16), ceil_div(ny, 8)), (16, 8), "a out nx ny nz centre side")],
        inputs=dict(a=a),
        outputs=dict(out=(0.4 * a + 0.1 * sides).astype(np.float32)),
        scalars=i32(nx=nx, ny=ny, nz=nz) | dict(centre=np.float32(0.4), side=np.float32(0.1)),
    )


@sample(dict(width=4, height=1), dict(width=52, height=7))
def sobel(rng, width, height):
    image = rng.integers(0, 256, (height, width)).astype(np.uint8)
    p = np.pad(image.astype(int), 1, mode="edge")
    gx = (p[:-2, 2:] + 2 * p[1:-1, 2:] + p[2:, 2:]) - (p[:-2, :-2] + 2 * p[1:-1, :-2] + p[2:, :-2])
    gy = (p[2:, :-2] + 2 * p[2:, 1:-1] + p[2:, 2:]) - (p[:-2, :-2] + 2 * p[:-2, 1:-1] + p[:-2, 2:])
    edges = np.minimum(abs(gx) + abs(gy), 255)
    return Job(
        [Launch("sobel", (ceil_div(width, 128), height), 32, "image out width height limit")],
        inputs=dict(image=image),
        outputs=dict(out=np.where(edges >= 120, edges, 0).astype(np.uint8)),
        scalars=i32(width=width, height=height) | dict(limit=np.uint32(120)),
    )


@sample(dict(width=8, height=8), dict(width=40, height=24))
def dct8x8(rng, width, height):
    image = rng.integers(0, 256, (height, width)).astype(np.uint8)
    u, i = np.mgrid[:8, :8]
    basis = np.cos((2 * i + 1) * u * np.pi / 16) * np.where(u == 0, np.sqrt(1 / 8), 0.5)
    tiles = image.reshape(height // 8, 8, width // 8, 8).transpose(0, 2, 1, 3).reshape(-1, 8, 8) - 128.0
    return Job(
        [Launch("dct8x8", ceil_div(len(tiles), 4), 32, "image out width tiles")],
        inputs=dict(image=image),
        outputs=dict(out=(basis @ tiles @ basis.T).astype(np.float32)),
        scalars=i32(width=width, tiles=len(tiles)),
        rtol=1e-4,
        atol=1e-3,
    )


@sample(dict(rows=3))
def fft(rng, rows):
    x = rng.standard_normal((rows, 256, 2)).astype(np.float32)
    spectrum = np.fft.fft(x[..., 0] + 1j * x[..., 1])
    out = np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)
    return Job(
        [Launch("fft", rows, 128, "x out")], inputs=dict(x=x), outputs=dict(out=out), rtol=1e-4, atol=1e-4
    )


@sample(dict(log_n=2), dict(log_n=9), dict(log_n=10))
def walsh_transform(rng, log_n):
    n = 1 << log_n
    x = rng.integers(-9, 10, (2, n)).astype(np.int32)
    out = x
    for step in range(log_n):
        pairs = out.reshape(2, -1, 2, 1 << step)
        out = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], 2).reshape(2, n)
    return Job(
        [Launch("walsh_transform", 2, n // 4, "x out log_n", 4 * n)],
        inputs=dict(x=x),
        outputs=dict(out=out),
        scalars=i32(log_n=log_n),
    )


@sample(dict(width=20, height=11))
def mandelbrot(rng, width, height):
    left, top, step, limit = np.float32(-2), np.float32(-1), np.float32(3 / width), 60
    cx = (np.arange(width, dtype=np.float32).astype(float) * step + left).astype(np.float32)[None, :]
    cy = (np.arange(height, dtype=np.float32).astype(float) * step + top).astype(np.float32)[:, None]
    x = y = xx = yy = np.zeros((height, width), np.float32)
    count = np.zeros((height, width), np.uint16)
    for _ in range(limit):
        inside = xx + yy < 4
        count += inside
        y = np.where(inside, np.float32(2) * x * y + cy, y)
        x = np.where(inside, xx - yy + cx, x)
        xx, yy = x * x, y * y
    launch = Launch("mandelbrot", 2, (16, 16), "image width height left top step limit")
    return Job(
        [launch, launch],
        outputs=dict(image=count),
        scalars=i32(width=width, height=height, limit=limit) | dict(left=left, top=top, step=step),
    )


@sample(dict(words=1, height=1), dict(words=3, height=10))
def game_of_life(rng, words, height):
    cells = rng.integers(0, 2, (height, 32 * words))
    around = sum(np.roll(cells, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)) - cells
    after = (around == 3) | ((around == 2) & (cells == 1))

    def packed(bits):
        return np.packbits(bits.astype(np.uint8), axis=1, bitorder="little").view(np.uint32)

    return Job(
        [Launch("game_of_life", (ceil_div(words, 4), ceil_div(height, 8)), (4, 8), "grid next words height")],
        inputs=dict(grid=packed(cells)),
        outputs=dict(next=packed(after)),
        scalars=i32(words=words, height=height),
    )
