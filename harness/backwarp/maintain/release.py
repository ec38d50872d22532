"""Builds what is published: `python -m backwarp.maintain.release DIR` writes a wheel and an sdist, with the runtime's
machine code for common processors, so that a first verdict need not wait for it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import click

from .. import CHECKOUT
from ..devices.virtual.compile import runtime_code
from ..devices.virtual.compile.levels import LEVELS


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
def main(folder: Path) -> None:
    """Build the wheel and the sdist in FOLDER, from a checkout on x86-64."""
    made = [runtime_code.write_for(level) for level in LEVELS]
    for path in {*made[0].parent.iterdir()} - {*made}:  # of other texts
        path.unlink()
    try:
        subprocess.run([sys.executable, "-m", "build", "--outdir", folder, CHECKOUT], check=True)
    finally:
        shutil.rmtree(made[0].parent)


if __name__ == "__main__":
    main()
