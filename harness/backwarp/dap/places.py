"""Where the user wants a run to stop: what the requests about breakpoints make of it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from ..devices.virtual.replay.replay import Replay
from .looking import Call, View
from .protocol import FAULT, WRONG_RESULT, Arguments, Style, local
from .stops import ACCESSES, Stop, asked, coming_to, touching
from .wire import Refused


class Places:
    """path: the file that is recorded."""

    def __init__(self, view: View, path: Path, style: Style):
        self.view, self.path, self.style = view, path, style
        self.replay: Replay = view.replay
        self.code = sorted({p[1] for p in self.replay.record.points if p[0] == "line"})
        self.lines: list[Stop] = []
        self.data: list[Stop] = []
        self.faults: dict[str, Stop] = {}
        self.filters: list = [FAULT, WRONG_RESULT]
        self.numbers = 0

    def ending(self, wrong: str, says: str) -> None:
        """Where the fault is, or the last write of an element that is wrong."""
        fault, (who, t) = self.replay.fault, self.replay.to_fault()
        if who >= 0:
            self.faults[FAULT] = Stop("exception", {t: (who,)}, fault.headline)
        elif wrong:
            writes = touching(self.replay, *self.replay.flat(wrong, self.view.session.who, 0), 0, "write")
            last = dict(sorted(writes.items())[-1:])
            self.faults[WRONG_RESULT] = Stop("exception", last, says)

    def stops(self) -> list[Stop]:
        return [s for name, s in self.faults.items() if name in self.filters] + self.data + self.lines

    def is_ours(self, source: Arguments) -> bool:
        path = local(source.of("path", str, "") or source.of("name", str, ""))
        try:
            return os.path.samefile(path, self.path)
        except (OSError, ValueError):
            return path == self.path.name

    def line_of(self, given: Arguments, source: Arguments) -> int:
        """The line, or the next one with code. Errors: Refused."""
        if not self.is_ours(source):
            raise Refused(f"only {self.path.name} is recorded")
        if not (found := next((n for n in self.code if n >= self.style.meant(given)), 0)):
            raise Refused("there is no code from here on")
        return found

    def set_lines(self, given: Arguments) -> dict:
        wanted = given.each("breakpoints") or [Arguments({"line": n}) for n in given.of("lines", list, [])]
        source = Arguments(given.of("source", dict))
        self.is_ours(source)  # or it is refused as a whole
        self.lines = []
        return {"breakpoints": [self._verified(self._line_stop, each, source) for each in wanted]}

    def _verified(self, make: Callable, asks: Arguments, *more: object) -> dict:
        """Makes a Stop of a breakpoint; or why it cannot be made."""
        self.numbers += 1
        try:
            return {"id": self.numbers, "verified": True, **make(asks, *more)}
        except Refused as error:
            return {"id": self.numbers, "verified": False, "message": str(error)}

    def _line_stop(self, asks: Arguments, source: Arguments) -> dict:
        line = self.line_of(asks, source)
        if not (whose := coming_to(self.replay, line)):
            raise Refused(f"no thread comes to line {line} in this run")
        self.lines.append(Stop("breakpoint", whose, number=self.numbers, **self._asks(asks)))
        return {"line": self.style.shown(line), "source": self.style.source(self.path)}

    def _asks(self, asks: Arguments) -> dict:
        names = ("condition", "hitCondition", "logMessage")
        return asked({name: asks.of(name, str, "") for name in names}, self.replay)

    def about(self, name: str, call: Call, reference: int) -> dict:
        """What can be watched at a name, in what has been unfolded if reference is not 0."""
        try:
            array, flat, block = self.view.element(name, reference, call)
        except Refused as error:
            return {"dataId": None, "description": f"{error}; a breakpoint with a condition finds variables"}
        held = self.replay.record.arrays[self.replay.record.number(array)]
        return {
            "dataId": f"{array}[{flat}] {block if held.space == 'shared' else 0}",
            "description": held.element(flat),
            "accessTypes": list(ACCESSES),
            "canPersist": True,
        }

    def set_data(self, given: Arguments) -> dict:
        self.data = []
        return {"breakpoints": [self._verified(self._data_stop, each) for each in given.each("breakpoints")]}

    def _data_stop(self, asks: Arguments) -> dict:
        kind, text = asks.of("accessType", str, "write"), asks.of("dataId", str)
        found = re.fullmatch(r"(\w+)\[(\d{1,12})\] (\d{1,9})", text)
        arrays = {held.name: held for held in self.replay.record.arrays}
        if not found or kind not in ACCESSES or found[1] not in arrays:
            raise Refused(f"{text} is no element of this run")
        name = arrays[found[1]].element(int(found[2]))
        if not (whose := touching(self.replay, found[1], int(found[2]), int(found[3]), kind)):
            raise Refused(f"no thread does that to {name}")
        more = self._asks(asks)
        self.data.append(Stop("data breakpoint", whose, name, number=self.numbers, **more))
        return {}

    def set_filters(self, given: Arguments) -> None:
        options = [each.of("filterId", str) for each in given.each("filterOptions")]
        self.filters = [*given.of("filters", list, []), *options]
