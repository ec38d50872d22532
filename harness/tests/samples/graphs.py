"""Graphs."""

from __future__ import annotations

import numpy as np

from tests.samples import Job, Launch, ceil_div, i32, sample

FAR = 1 << 28


def shortest_paths(distance: np.ndarray) -> np.ndarray:
    best = distance.copy()
    for via in range(len(best)):
        best = np.minimum(best, best[:, via : via + 1] + best[via : via + 1])
    return best


@sample(dict(n=1), dict(n=37))
def floyd_warshall(rng, n):
    distance = np.where(rng.random((n, n)) < 0.15, rng.integers(1, 100, (n, n)), FAR).astype(np.int32)
    np.fill_diagonal(distance, 0)
    expected = shortest_paths(distance)
    tiles = ceil_div(n, 16)
    launches = [Launch("relax", (ceil_div(n, 32), n), 32, f"plain n v{v}") for v in range(n)]
    for t in range(tiles):
        for phase, grid in ((0, 1), (1, (tiles, 2)), (2, (tiles, tiles))):
            launches.append(Launch("relax_tiles", grid, (16, 16), f"tiled n v{t} p{phase}"))
    return Job(
        launches,
        state=dict(plain=(distance, expected), tiled=(distance, expected)),
        scalars=i32(n=n, p0=0, p1=1, p2=2, **{f"v{v}": v for v in range(max(n, 1))}),
    )


def neighbours_of(rng, vertices: int, edges: int) -> np.ndarray:
    """Pairs of vertices, both ways."""
    pairs = rng.integers(0, vertices, (edges, 2)).astype(np.int32)
    return np.concatenate([pairs, pairs[:, ::-1]])


@sample(dict(vertices=1, edges=1), dict(vertices=200, edges=230))
def breadth_first_search(rng, vertices, edges):
    pairs = neighbours_of(rng, vertices, edges)
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    starts = np.searchsorted(pairs[:, 0], np.arange(vertices + 1)).astype(np.int32)
    distance, wave = np.full(vertices, -1, np.int32), [0]
    distance[0] = 0
    while wave:
        found = {int(w) for v in wave for w in pairs[starts[v] : starts[v + 1], 1] if distance[w] < 0}
        for w in found:
            distance[w] = distance[wave[0]] + 1
        wave = list(found)
    zeros = np.zeros(vertices, np.int32)
    return Job(
        [Launch("breadth_first_search", 3, 64, "starts neighbours distance frontier next sizes vertices")],
        inputs=dict(starts=starts, neighbours=pairs[:, 1].copy()),
        outputs=dict(distance=distance),
        state=dict(frontier=(zeros, None), next=(zeros, None), sizes=(np.zeros(2, np.int32), None)),
        scalars=i32(vertices=vertices),
    )


@sample(dict(vertices=1, edges=1), dict(vertices=150, edges=120))
def connected_components(rng, vertices, edges):
    pairs = neighbours_of(rng, vertices, edges)[:edges].copy()
    component = np.arange(vertices, dtype=np.int32)
    for _ in range(vertices):
        before = component.copy()
        for a, b in pairs:
            component[a] = component[b] = min(component[a], component[b])
        if (before == component).all():
            break
    return Job(
        [
            Launch("hook", ceil_div(edges, 64), 64, "pairs parent edges"),
            Launch("flatten", ceil_div(vertices, 64), 64, "parent component vertices"),
        ],
        inputs=dict(pairs=pairs),
        outputs=dict(component=component),
        state=dict(parent=(np.arange(vertices, dtype=np.int32), None)),
        scalars=i32(vertices=vertices, edges=edges),
    )
