"""Random expressions against exact models for as long as you like: `python -m tests.soak.values --seconds S`.

Each seed draws one file of kernels for the two builds of grading and, in turn, one of the others. Ends with status 1
where something was wrong.
"""

from __future__ import annotations

import sys
import time

import click

from tests.conformance.expressions import BUILDS, disagreements, kernels


@click.command()
@click.option("--seconds", default=300.0, help="How long.")
@click.option("--seed", default=0, help="Of the first file.")
@click.option(
    "--build",
    "builds",
    multiple=True,
    type=click.Choice(list(BUILDS)),
    help="One of them; several times for more.",
)
@click.option("--expressions", default=10, help="Of each of a file's four kernels.")
def main(seconds: float, seed: int, builds: tuple[str, ...], expressions: int) -> None:
    """Draw expressions and print those whose value is wrong."""
    others = [build for build in BUILDS if build not in ("full", "memory")]
    end, first = time.monotonic() + seconds, seed
    total = together = wrong = 0
    while time.monotonic() < end:
        drawn = kernels(seed, expressions)
        for build in builds or ("full", "memory", others[seed % len(others)]):
            lines, side_by_side = disagreements(drawn, build)
            total, together, wrong = total + 4 * expressions, together + side_by_side, wrong + len(lines)
            for line in lines:
                click.echo(f"seed {seed}, {build}: {line}")
        seed += 1
    click.echo(f"{total} expressions of {seed - first} files, {together} kernels side by side: {wrong} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
