"""The output of `backwarp run`: arrays, what the kernel printed, the fault, and counts per line."""

from __future__ import annotations

import sys
from typing import TextIO

import numpy as np
from rich.console import Console
from rich.text import Text

from ..grading import sentences
from ..run import Run
from .profile import line_table
from .terminal import body_lines, printable, seconds, terminal_width, wants_colour

MOST_PRINTED = 40  # lines of printf
_SHOWN = 6  # elements


def show_run(run: Run, stream: TextIO | None = None) -> None:
    """Writes the report."""
    stream = stream or sys.stdout
    colour, width = wants_colour(stream), terminal_width(stream)
    how = {"highlight": False, "force_terminal": colour, "no_color": not colour}
    clock = f"{run.device}, {seconds(run.seconds)}"
    print_run(Console(file=stream, width=width, force_jupyter=False, **how), run, width, clock)


def print_run(console: Console, run: Run, width: int, clock: str = "") -> None:
    """Prints the report. clock: on which device, and how long it took."""

    def say(text: str) -> None:
        for line in body_lines(text, width):
            console.print(Text.assemble(*line), soft_wrap=True)

    if run.errors:
        console.print(Text.assemble(("x ", "bold red"), (printable(run.file), "bold"), "   does not compile"))
        for line in run.errors:
            say(line)
        return
    mark, style = ("x", "bold red") if run.fault or run.differences else ("ok", "bold green")
    grid, block = _triple(run.grid), _triple(run.block)
    shape = f"<<<{grid}, {block}>>>   {clock}" if clock else f"   grid of {grid}, blocks of {block}"
    head = Text.assemble((f"{mark} ", style), (printable(run.kernel), "bold"), shape)
    console.print(head, soft_wrap=True)
    if run.fault:
        for line in sentences.fault(run.fault, run.source, behind=run.values):
            say(line)
    for line in run.differences:
        say(line)
    for name in run.met:
        say(f"{name} is as expected: all {run.arrays[name].size:,} elements.")
    for name, array in run.arrays.items():
        say(f"{name}: {array_line(array, name in run.changed)}")
    if run.launch and run.launch.stdout:
        lines = run.launch.stdout.splitlines()
        say("The kernel printed:")
        for line in lines[:MOST_PRINTED]:
            console.print(Text("    " + printable(line), "dim"), soft_wrap=True)
        if left := max(0, len(lines) - MOST_PRINTED) + run.launch.stdout_dropped:
            say(f"... and {left:,} more lines, cut")
    for note in run.notes:
        say(f"Note: {note}")
    if run.counters.get("lines"):
        console.print()
        console.print(line_table(run.counters, run.source, width), soft_wrap=True)


def array_line(array: np.ndarray, changed: bool) -> str:
    """Type, shape, the first elements and their range."""
    shape = " x ".join(map(str, array.shape))
    if not changed:
        return f"{array.dtype} [{shape}], unchanged"
    flat = array.reshape(-1)
    first = " ".join(f"{x:.5g}" if array.dtype.kind == "f" else str(x) for x in flat[:_SHOWN])
    text = f"{array.dtype} [{shape}]  {first}{' ...' if flat.size > _SHOWN else ''}"
    if array.dtype.kind == "f" and np.isfinite(flat).any():
        good = flat[np.isfinite(flat)].astype(np.float64)
        text += f"   from {good.min():.5g} to {good.max():.5g}"
        if strange := flat.size - good.size:
            text += f", {strange:,} not finite"
    elif array.dtype.kind in "iu" and flat.size:
        text += f"   from {flat.min()} to {flat.max()}"
    return text


def document(run: Run) -> dict:
    """For `--json`."""
    fault = run.fault
    return {
        "format": 1,
        "file": run.file,
        "kernel": run.kernel,
        "grid": run.grid,
        "block": run.block,
        "device": run.device,
        "seconds": run.seconds,
        "arrays": {
            n: {"dtype": a.dtype.str, "shape": a.shape, "changed": n in run.changed}
            for n, a in run.arrays.items()
        },
        "stdout": run.launch.stdout if run.launch else "",
        "notes": run.notes,
        "differences": run.differences,
        "met": run.met,
        "errors": run.errors,
        "fault": fault
        and {
            "kind": fault.kind,
            "headline": fault.headline,
            "explanation": fault.explanation,
            "file": fault.file,
            "line": fault.line,
            "thread": fault.thread,
            "block": fault.block,
            "element": f"{fault.array}[{fault.index}]" if fault.array else "",
        },
        "counters": run.counters,
    }


def _triple(sizes: tuple[int, int, int]) -> str:
    x, y, z = sizes
    return str(x) if y == z == 1 else f"({x}, {y})" if z == 1 else f"({x}, {y}, {z})"
