"""Builds what is published: `python -m backwarp.maintain.release DIR` writes a wheel and an sdist. In them are what takes
time to make: the runtime's machine code for common processors, and the course for students."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import click

from .. import CHECKOUT
from ..begin import made_for_students
from ..course.checkout import Course
from ..devices.virtual.compile import runtime_code
from ..devices.virtual.compile.levels import LEVELS


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
def main(folder: Path) -> None:
    """Build the wheel and the sdist in FOLDER, from a checkout on x86-64."""
    objects = [runtime_code.write_for(level) for level in LEVELS]
    for path in {*objects[0].parent.iterdir()} - {*objects}:  # of other texts
        path.unlink()
    try:
        for name, data in made_for_students(Course(CHECKOUT)).items():
            path = CHECKOUT / "harness" / "released" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        subprocess.run([sys.executable, "-m", "build", "--outdir", folder, CHECKOUT], check=True)
    finally:
        for made in (objects[0].parent, CHECKOUT / "harness" / "released"):
            shutil.rmtree(made, ignore_errors=True)


if __name__ == "__main__":
    main()
