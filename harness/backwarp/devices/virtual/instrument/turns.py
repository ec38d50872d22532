"""In unoptimised code, a thread lets others run between reading what they may write and its next step.

                                              pause;
    ld.volatile.u32 %r1, [%rd1];      ->      pause.generic [%rd1];
                                              ld.volatile.u32 %r1, [%rd1];
                                              turn;
    st.volatile.u32 [%rd1], %r1;              st.volatile.u32 [%rd1], %r1;
                                              pause;

See `analyse/turns` for where. This comes before functions are inlined, as a call of a header's function is
one step. At a `pause`, where a kernel begins, before such a read, or after another access that others can see,
threads stop in random orders only: see `run/orders`.
"""

from __future__ import annotations

from ..analyse.waits import Waits
from ..ptx.ir import Instruction
from .insert import Inserts, mark


def run(waits: Waits) -> None:
    """In place, for all functions of the module."""
    found = [f for f in waits.graph.functions.values() if f.body is not None and waits.takes_turns(f.name)]
    for function in found:
        places, pauses = waits.turns(function.name), waits.pauses(function.name)
        first = next(item for item in function.body if isinstance(item, Instruction))
        inserts = Inserts(function)
        for item in function.body:
            if item in places:
                inserts.before(item, _before(item))
                inserts.after(item, mark("turn", at=item))
            elif item in pauses:
                inserts.after(item, mark("pause", at=item))
        if function.entry:
            inserts.start.append(mark("pause", at=first))
        inserts.done()


def _before(ins: Instruction) -> Instruction:
    """The pause before a read: by an instruction, or by a call of a function whose first argument says what it reads."""
    if ins.op.flow != "call":
        return mark(f"pause.{ins.op.space}", ins.address, at=ins)
    _, _, arguments = ins.called
    return mark("pause.param", arguments[0], at=ins) if arguments else mark("pause", at=ins)
