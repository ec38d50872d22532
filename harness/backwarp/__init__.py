"""The grader of Backwarp: compiles, runs and judges CUDA kernels on a GPU or without one."""

from pathlib import Path

__version__ = "0.1.0"

PACKAGE = Path(__file__).resolve().parent
SOURCES = PACKAGE.parent  # where a process of its own finds this package
COURSE = PACKAGE / "course.zip"  # puzzles, solutions, lessons and notebooks; in an installed package
#: the folder of a checkout, which has the reference beside the package's sources; None when installed, with it inside
CHECKOUT = None if (PACKAGE / "reference").is_dir() else PACKAGE.parents[1]
if CHECKOUT:
    __path__.append(str(CHECKOUT))


def install(extra: str = "") -> str:
    """The command that installs this package, with what one of its extras needs."""
    editable, name = ("-e ", ".") if CHECKOUT else ("", "backwarp")
    return f"pip install {editable}" + (f"'{name}[{extra}]'" if extra else name)
