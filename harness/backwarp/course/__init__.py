"""The course: puzzle declarations, the student's files, inputs, progress."""

from importlib import import_module

#: the names for declaring puzzles
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
    """Loads `declare` on first use, since a process that only reads a kernel's text does not need it."""
    if name in __all__:
        return getattr(import_module(".declare", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
