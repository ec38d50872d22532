"""Where one is in a record, and how one gets elsewhere: a moment, a thread, an element that is watched; and the keys for it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from .expressions import Expression
from .record import LOAD, SOURCE
from .replay import Replay, short

#: what `Session.press` and the commands below turn into a sentence
WRONG = (LookupError, ValueError, ArithmeticError, TypeError)


class Session:
    """t, who: the moment, and the thread whose variables are shown. watched: (array, flat index), or None. stops: lines
    at which to stop, each with a condition or None. said: about the last
    move, "" if there is nothing to say."""

    def __init__(self, replay: Replay):
        """At the fault, if there is one, else at the start. Errors: ValueError if no thread did anything."""
        self.replay = replay
        ran = [who for who, steps in replay.steps.items() if steps]
        if not ran:
            raise ValueError("no thread came to a line of the file")
        self.who, self.watched, self.said = min(ran), None, ""
        self.stops: list[tuple[int, Expression | None]] = []
        self.t = replay.start(self.who)
        if replay.to_fault()[0] >= 0:
            self.who, self.t = replay.to_fault()

    # -- moving ---------------------------------------------------------------------------------------

    def go(self, t: int, who: int | None = None) -> None:
        """To a moment, unless it is -1."""
        if t < 0:
            self.said = "there is none on that side"
            return
        self.t, self.who = t, self.who if who is None else who

    def line(self, by: int) -> None:
        self.go(self.replay.line(self.t, self.who, by))

    def over(self, by: int) -> None:
        """A line, but not into functions that it calls."""
        self.go(self.replay.line(self.t, self.who, by, self.replay.depth(self.t, self.who)))

    def out(self, by: int) -> None:
        """To the line that called the function."""
        if (depth := self.replay.depth(self.t, self.who)) < 2:
            self.said = "the thread is in the kernel itself"
        else:
            self.go(self.replay.line(self.t, self.who, by, depth - 1))

    def barrier(self, by: int) -> None:
        self.go(self.replay.barrier(self.t, self.who, by))

    def access(self, by: int) -> None:
        """To the next access of the watched element, or the one before, by whichever thread."""
        if self.watched is None:
            self.said = "w names the element to watch"
            return
        found = self.replay.touching(*self.watched, self.who >> 10)
        times = self.replay.time[found["row"]]
        beyond = np.flatnonzero(times > self.t if by > 0 else times < self.t)
        if not len(beyond):
            return self.go(-1)
        i = beyond[0] if by > 0 else beyond[-1]
        self.go(int(times[i]), int(found["who"][i]))

    def to_line(self, text: str, by: int) -> None:
        """Errors: ValueError."""
        wanted, moments = int(text), self.replay.moments
        self.go(
            self.replay.find(self.t, by, lambda u: moments[u].line == wanted and self.replay.has(self.who, u))
        )

    def condition(self, text: str, by: int) -> None:
        """To where an expression holds for the thread. Errors: ValueError."""
        self.go(self.replay.where(self.t, self.who, by, Expression(text)))

    def stop_at(self, text: str) -> None:
        """`38`, `38:q == 1`. Errors: ValueError."""
        line, _, condition = text.partition(":")
        if not line.strip().isdecimal():
            raise ValueError(
                f"{text.strip()} is not a line, such as 38, nor one with a condition, as 38:i == 3"
            )
        self.stops.append((int(line), Expression(condition) if condition.strip() else None))

    def stop(self, by: int, whose: Collection[int] = ()) -> None:
        """To the next stop, or the one before, of any thread, or of these."""
        if not self.stops:
            self.said = "k names a line at which to stop"
            return
        meets: list[int] = []

        def found(t: int) -> bool:
            moment = self.replay.moments[t]
            here = [condition for line, condition in self.stops if line == moment.line]
            lanes = [who for who in moment.steps if who in whose or not whose] if here else []
            meets[:] = [who for who in lanes if any(c is None or self.replay.holds(c, who, t) for c in here)]
            return bool(meets)

        t = self.replay.find(self.t, by, found)
        self.go(t, self.who if self.who in meets or t < 0 else meets[0])

    def fault(self) -> None:
        who, t = self.replay.to_fault()
        if who < 0:
            self.said = "no thread has a fault here"
        else:
            self.go(t, who)

    def watch(self, text: str) -> None:
        """Errors: LookupError, ValueError, of an expression."""
        self.watched = self.replay.flat(text, self.who, self.t)
        found = self.replay.touching(*self.watched, self.who >> 10)
        writes = int((~np.isin(found["how"], (LOAD, SOURCE))).sum())
        self.said = f"{self.name} is written {times(writes)} and read {times(len(found) - writes)}"

    def thread(self, text: str) -> None:
        """`3,1`, `3,1 0,2` with its block, or an element: the thread that writes it last. Errors: as `watch`."""
        if "[" in text:
            self.watch(text)
            return self.to_write()
        place = [tuple(int(n) for n in (part + ",0,0").split(",")[:3]) for part in text.split()]
        record = self.replay.record
        block = place[1] if place[1:] else record.thread_of(self.who)[1]
        if not place or any(n >= most for n, most in zip(place[0], record.block, strict=True)):
            raise ValueError("there is no such thread")
        who = record.who_of(place[0], block)
        if not self.replay.steps.get(who):
            raise LookupError("that thread came to no line, or is not in the record")
        later = (s.at for s in self.replay.steps[who] if s.at >= self.t)
        return self.go(next(later, self.replay.end(who)), who)

    def to_write(self) -> None:
        """To the last write of the watched element. Errors: LookupError if nobody writes it."""
        who = self.replay.writer(*self.watched)
        self.said = ""
        if who < 0:
            raise LookupError(f"no thread writes {self.name}")
        found = self.replay.touching(*self.watched, who >> 10)
        self.go(int(self.replay.time[found["row"][(found["who"] == who) & (found["how"] != LOAD)][-1]]), who)

    def value(self, text: str) -> None:
        """Says what an expression is. Errors: of an expression."""
        self.said = f"{text.strip()} = {short(self.replay.evaluate(Expression(text), self.who, self.t))}"

    # -- looking --------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Of the watched element."""
        array, flat = self.watched
        return self.replay.record.arrays[self.replay.record.number(array)].element(flat)

    def press(self, key: str, text: str = "") -> None:
        """One of KEYS. text: what it asks for."""
        self.said = ""
        try:
            KEYS[key].do(self, text)
        except WRONG as error:
            self.said = worded(error)

    def changed(self) -> dict[str, object]:
        """The thread's variables that its line has changed, or set for the first time."""
        step = self.replay.step_at(self.who, self.t)
        before = [s for s in self.replay.steps[self.who] if step and s.at < step.at][-1:]
        same = bool(before) and [f[0] for f in before[0].frames] == [f[0] for f in step.frames]
        old = self.replay.variables(self.who, before[0].at) if same else {}
        new = self.replay.variables(self.who, self.t)
        return {name: v for name, v in new.items() if name not in old or repr(old[name]) != repr(v)}

    def lanes(self) -> str:
        """The lanes of the warp: # is at this line, - is elsewhere, . has ended, a space is none."""
        first = self.who & ~31
        return "".join(self._lane(first + i) for i in range(32))

    def _lane(self, who: int) -> str:
        if not self.replay.steps.get(who):
            return " "
        if self.replay.has(who, self.t):
            return "#"
        return "." if self.replay.end(who) < self.t else "-"

    def standing(self) -> dict[int, int]:
        """Line -> how many lanes of the warp have come to it, and not further."""
        found: dict[int, int] = {}
        for who in range(self.who & ~31, (self.who & ~31) + 32):
            step = self.replay.step_at(who, self.t) if self.replay.steps.get(who) else None
            if step and (step.at == self.t or self.replay.end(who) > self.t):
                found[step.line] = found.get(step.line, 0) + 1
        return found

    def element(self) -> tuple[str, int] | None:
        """What to look at in memory: the watched element, or that of the thread's last access so far."""
        if self.watched:
            return self.watched
        a, record = self.replay.record.accesses, self.replay.record
        time = self.replay.time[a["row"]]
        mine = a[(a["who"] == self.who) & (time <= self.t) & (time >= 0) & (a["array"] >= 0)]
        if not len(mine):
            return None
        held = record.arrays[mine["array"][-1]]
        return held.name, int(mine["offset"][-1]) // held.dtype.itemsize


def worded(error: Exception) -> str:
    """One of WRONG as a sentence."""
    return f"there is no {error} here" if type(error) is KeyError else str(error.args[0])


def times(n: int) -> str:
    """`once`, `12 times`."""
    return ("never", "once", "twice")[n] if n < 3 else f"{n} times"


@dataclass(frozen=True)
class Key:
    """name: as the footer has it; "" for the other direction of one that is there. asks: for what, before it does anything."""

    name: str
    do: Callable[[Session, str], None]
    asks: str = ""


KEYS = {
    "n": Key("next line", lambda s, _: s.line(1)),
    "p": Key("previous", lambda s, _: s.line(-1)),
    "o": Key("over calls", lambda s, _: s.over(1)),
    "O": Key("", lambda s, _: s.over(-1)),
    "u": Key("out", lambda s, _: s.out(1)),
    "U": Key("", lambda s, _: s.out(-1)),
    "b": Key("barrier", lambda s, _: s.barrier(1)),
    "B": Key("", lambda s, _: s.barrier(-1)),
    "l": Key("line ...", lambda s, text: s.to_line(text, 1), "to line"),
    "L": Key("", lambda s, text: s.to_line(text, -1), "back to line"),
    "c": Key("condition", lambda s, text: s.condition(text, 1), "to where, as i == 3"),
    "C": Key("", lambda s, text: s.condition(text, -1), "back to where, as i == 3"),
    "k": Key("stop at ...", lambda s, text: s.stop_at(text), "line, or line:condition"),
    "g": Key("go to stop", lambda s, _: s.stop(1)),
    "G": Key("", lambda s, _: s.stop(-1)),
    "w": Key("watch", lambda s, text: s.watch(text), "element, as tile[1,2]"),
    "a": Key("access", lambda s, _: s.access(1)),
    "A": Key("", lambda s, _: s.access(-1)),
    "t": Key("thread", lambda s, text: s.thread(text), "x,y,z [block], or element: who writes it"),
    "x": Key("expression", lambda s, text: s.value(text), "expression"),
    "f": Key("fault", lambda s, _: s.fault()),
    "s": Key("start", lambda s, _: s.go(s.replay.start(s.who))),
    "e": Key("end", lambda s, _: s.go(s.replay.end(s.who))),
}
