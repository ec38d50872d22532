"""The record of a launch: what every thread does, in order. See instrument/steps.py for how it is made, and replay/ for what
is read from it.

It crosses processes as plain data, in `Launch.record`: "rows": abi's Row[]; "points": what they say, by number; "sources": what of; "full": whether
there was no room for more; "grid", "block", "kernel", "text" (the PTX); "slots": the device address where the memory of blocks
begins; "arrays": (name, start, bytes, shape, dtype, axes, bytes that it held before) of each argument, and of each variable of
the module, with its PTX type in place of a dtype; "shared": (name, start in the window, bytes, shape, bytes of an element, type);
"printed": (row, text) of each printf: the row of its call, or, of a thread that is not recorded, -1 - how many rows there were.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..runtime import abi

if TYPE_CHECKING:
    from .printf import Output

MOST_BLOCKS = 1 << 22


class Recording:
    """Of one launch (`execution`), into a buffer of its own."""

    def __init__(self, execution, launch: abi.Launch):
        self.execution, device = execution, execution.device
        self.rows = abi.array("Row", device.keep_rows)
        launch.rows = self.rows.ctypes.data
        launch.rows_end = launch.rows + self.rows.nbytes
        launch.rows_first, launch.rows_blocks = device.rows_first, device.rows_blocks
        launch.rows_pair = sum(who << 32 * i for i, who in enumerate(device.rows_pair))
        owners = [(a._owner, list(a.shape), a.dtype.str) for a in execution.args if hasattr(a, "_owner")]
        variables = execution.module.lowered.variables.values()
        owners += [(o, [], v.type) for o, (_, v) in zip(execution.module.owners, variables, strict=True)]
        self.arrays = [
            (
                o.name,
                o.start,
                o.nbytes,
                shape,
                dtype,
                o.axes,
                device.arena.bytes[o.start :][: o.nbytes].copy(),
            )
            for o, shape, dtype in owners
        ]

    def taken(self, launch: abi.Launch, output: Output) -> dict:
        """What has been recorded. output: of the launch."""
        from ..explain.owners import Owners  # takes a while to load

        run = self.execution
        done = (launch.rows - self.rows.ctypes.data) // self.rows.itemsize
        return {
            "rows": self.rows[:done].copy(),
            "full": done == len(self.rows),
            "points": (points := run.module.lowered.points),
            "sources": run.module.lowered.sources,
            "arrays": self.arrays,
            "shared": [
                (o.name, o.start, o.nbytes, list(o.shape), o.itemsize, type_)
                for o, type_ in Owners(run).shared()
            ],
            "printed": list(self._printed(output, points)),
            "slots": run.arena.slots_start,
            "grid": list(run.grid),
            "block": list(run.block),
            "kernel": run.kernel.info.name,
            "text": run.module.compiled.text,
        }

    def _printed(self, output: Output, points: list[tuple]) -> Iterator[tuple[int, str]]:
        """A thread that is recorded says that it calls printf just before it does."""
        last = -1
        for at, text in zip(output.places, output.parts, strict=False):
            row = (at - self.rows.ctypes.data) // self.rows.itemsize - 1
            calls = row > last and points[self.rows["point"][row]][0] == "call"
            if calls and points[self.rows["point"][row]][4] == "vprintf":
                last = row
                yield row, text
            else:
                yield -2 - row, text
