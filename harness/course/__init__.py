"""What the course asks: puzzles as they are declared, the student's files, inputs, progress."""

from importlib import import_module

#: what puzzles are declared with
__all__ = [
    "PARTS",
    "Array",
    "Case",
    "Constant",
    "Float",
    "Gate",
    "Gradient",
    "In",
    "InOut",
    "Int",
    "Kernel",
    "Launch",
    "Mistake",
    "Out",
    "Param",
    "Program",
    "Puzzle",
    "Scalar",
    "ceil_div",
    "mistakes_in",
    "require",
]


def __getattr__(name: str):
    """From `declare`, which is loaded with the first puzzle: a process that reads a kernel's text needs none of it."""
    if name in __all__:
        return getattr(import_module(".declare", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
