"""One function under construction: the operations that instructions are written with, and the collaborators.

Each collaborator has its own state: the text, the current thread, the runtime's fields and functions, the
values of operands, variables, the places in the student's code, control flow, what is known about memory.
"""

from __future__ import annotations

from ..analyse.lanes import Lanes
from ..analyse.uniformity import Coarsening
from ..ptx.ir import Function
from .control import DEAD, Control
from .lanes.checks import Checks
from .lanes.lift import LaneText
from .lanes.values import LaneValues
from .memory import Arrays
from .sites import Sites
from .special_registers import SpecialRegisters
from .state import State
from .text import Text
from .threads import Threads
from .unit import Unit
from .values import Values
from .variables import Variables


class Emitter:
    """site: see `Sites`. coroutine: its threads can wait. coarsening, or lanes and width: how several
    run together, if they do."""

    def __init__(
        self,
        function: Function,
        module: Unit,
        site: str,
        coroutine: bool = False,
        coarsening: Coarsening | None = None,
        lanes: Lanes | None = None,
        width: int = 1,
    ):
        self.function, self.module, self.facts = function, module, module.facts.of(function)
        text = self.text = LaneText(module, width, lanes.rows, module.facts.masks) if lanes else Text(module)
        self.threads = Threads(coarsening)
        self.state = State(text, self.threads)
        special = SpecialRegisters(text, self.state, self.threads)
        values = Values(text, self.threads, special)
        if lanes:
            values = LaneValues(text, self.threads, special, lanes)
        self.values = values
        self.variables = Variables(function, module, text, self.state, values, DEAD)
        self.sites = Sites(function, module, site)
        self.control = Control(self, coroutine)
        self.control.alone = bool(lanes and lanes.block)
        self.arrays = Arrays()
        self.limits: Checks | None = None  # of arrays that all accesses are known to be meant for
        self.line, self.fresh, self.emit, self.once = text.line, text.fresh, text.emit, text.once
        self.op, self.cast, self.resize = text.op, text.cast, text.resize
        self.label, self.fresh_label, self.branch = text.label, text.fresh_label, text.branch
        self.value, self.set = values.value, values.set
