"""In unoptimised code, a thread lets others run between reading what they may write and its next step.

    ld.volatile.u32 %r1, [%rd1];      ->      ld.volatile.u32 %r1, [%rd1];
                                              turn;

See `analyse/turns` for where. This comes before functions are inlined, as a call of a header's function is
one step.
"""

from __future__ import annotations

from ..analyse.waits import Waits
from .insert import mark


def run(waits: Waits) -> None:
    """In place, for all functions of the module."""
    found = [f for f in waits.graph.functions.values() if f.body is not None and waits.takes_turns(f.name)]
    for function in found:
        places = waits.turns(function.name)
        function.body = [
            each
            for item in function.body
            for each in ((item, mark("turn", at=item)) if item in places else (item,))
        ]
