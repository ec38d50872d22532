"""Random rings of tiles against what they compute step by step, and with something wrong in one step.

`python -m tests.soak.rings --seconds S` draws rings (stages, steps, producers, consumers, boxes, how a stage is released) for so
long. A right one must be exact and have no fault, in every order; a wrong one must be told where its mistake matters, and be
exact where it is harmless. It prints what was tried and each disagreement, and ends with status 1 where there is one.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

import click
import numpy as np

from backwarp.errors import KernelFault
from tests.devices.virtual.hopper.rings import Ring, drawn, result, spoilt


def tried(ring: Ring, seed: int) -> tuple[str, bool]:
    """What happened, and whether that is as it must be."""
    found = result(ring, seed)
    if isinstance(found, KernelFault):
        return f"{ring.wrong}: {found.kind}", ring.matters
    return f"{ring.wrong}: {'exact' if found else 'other sums'}", found and not ring.matters


@click.command()
@click.option("--seconds", default=60.0)
@click.option("--seed", default=0)
def main(seconds: float, seed: int) -> None:
    rng, counts, bad, end = np.random.default_rng(seed), Counter(), 0, time.monotonic() + seconds
    while time.monotonic() < end:
        ring = drawn(rng, products=not rng.integers(4))
        if result(ring, 0, "memory") is not True:
            bad += 1
            print(f"with memory checks alone: {ring}")
        for each in (ring, spoilt(rng, ring)):
            for order in (0, 1, 2):
                what, well = tried(each, order)
                counts[what] += 1
                if not well:
                    bad += 1
                    print(f"order {order}, {what}, must be {'told' if each.matters else 'exact'}: {each}")
    for what, n in sorted(counts.items()):
        print(f"{n:7,}  {what}")
    print(f"{counts.total():,} runs, {bad} disagreements")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
