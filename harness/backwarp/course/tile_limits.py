"""Limits for products through square tiles, in puzzles 26 and 30 to 34.

A block of TILE x TILE threads computes as many sums. For every TILE steps each thread copies one element of
each tile, waits, reads two numbers for each of TILE products, and waits. A kernel that does more than this,
with its own tile size, repeats work that the puzzle is meant to save; the limits on memory requests and
barriers assume tiles of 16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from .declare import Gate, Launch, ceil_div


def implicit_product(d: dict[str, int]) -> list[tuple[int, int, int]]:
    """Rows, columns and depth of a convolution as a product with the column matrix."""
    return [(d["C_out"], d["width"], d["rows"])]


def one_tile_each(d: dict[str, int], t: Mapping[str, int]) -> Launch:
    """A block for every tile of it."""
    side = t["TILE"]
    return Launch((ceil_div(d["width"], side), ceil_div(d["C_out"], side)), (side, side))


def in_tiles(products: Iterable[tuple[int, int, int]], side: int = 16) -> tuple[int, int]:
    """The number of blocks, and of the pairs of tiles they fill together."""
    found = [(ceil_div(m, side) * ceil_div(n, side), ceil_div(k, side)) for m, n, k in products]
    return sum(blocks for blocks, _ in found), sum(blocks * depth for blocks, depth in found)


def tile_limits(
    kernel: str, products: Callable[[dict[str, int]], Iterable[tuple[int, int, int]]], but: str = ""
) -> tuple[Gate, ...]:
    """products(d): the rows, columns and depth of every product of a launch. but: quantities that the puzzle
    limits itself."""

    def steps(d: dict[str, int], side: int) -> tuple[int, int]:
        return in_tiles(products(d), side)

    def warps(side: int) -> int:
        return ceil_div(side * side, 32)

    def requests(d: dict[str, int], side: int) -> float:
        """Requests of one warp per block: two for each pair of tiles, one for a bias, one for its sums."""
        blocks, pairs = steps(d, side)
        return 2 * pairs + 2 * blocks

    def wavefronts(d: dict[str, int]) -> float:
        return 1.3 * steps(d, d["TILE"])[1] * warps(d["TILE"]) * (2 * d["TILE"] + 2)

    found = Gate.limits(
        kernel,
        flops=lambda d: 1.05 * 2 * steps(d, d["TILE"])[1] * d["TILE"] ** 3,
        global_requests=lambda d: 1.25 * warps(16) * requests(d, 16),
        global_requests_busiest=lambda d: 2 * requests(d, d["TILE"]),
        shared_wavefronts=wavefronts,
        barriers=lambda d: 1.25 * 2 * steps(d, 16)[1] * warps(16),
    )
    return tuple(gate for gate in found if gate.quantity != but)
