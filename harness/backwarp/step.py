"""`backwarp step`: forth and back through a recorded run, key by key, or a part of it as text."""

from __future__ import annotations

import math
import queue
import shutil
import sys
import threading
from collections.abc import Collection
from math import prod

import numpy as np

from .devices.virtual.replay.record import WRITING, Record
from .devices.virtual.replay.replay import Replay, short
from .devices.virtual.replay.session import KEYS, WRONG, Session
from .errors import CourseError
from .grading.compare import either
from .grading.recorded import Recorded
from .grading.trace import Trace, trace
from .keys import keyboard
from .report.step import screen
from .report.terminal import show

_CLEAR = "\x1b[2J\x1b[3J\x1b[H"


def begin(
    recorded: Recorded,
    to: str = "",
    thread: tuple[int, ...] = (),
    block: tuple[int, ...] = (),
    watch: str = "",
    stops: Collection[str] = (),
) -> Session:
    """A session at its first place: the fault, else the write of what is wrong, else the start; or `to` "fault", a line or the last
    write of an element; of a thread. stops: as `38:i == 3`, of any thread unless one is named: at the first of them. Errors: CourseError if there is no such place."""
    try:
        session = Session(Replay(Record(recorded.record), recorded.fault))
        if thread:
            session.thread(" ".join(",".join(map(str, each)) for each in (thread, block) if each))
            session.go(session.replay.start(session.who))
        if to == "fault":
            session.fault()
        elif to.isdecimal():
            _to_line(session, to, any_thread=not thread)
        elif to:
            session.watch(to)
            session.to_write()
        elif not thread:
            _to_what_failed(session, recorded)
        for each in stops:
            session.stop_at(each)
        if session.stops and not to:
            session.t = -1
            session.stop(1, {session.who} if thread else ())
            if session.t < 0:
                raise LookupError(f"no thread comes to {' or to '.join(stops)}")
        if watch:
            session.watch(watch)
            session.said = ""
    except WRONG as error:
        what = (
            f"there is no {error.args[0]} in {recorded.kernel.name}"
            if type(error) is KeyError
            else str(error)
        )
        raise CourseError(what) from None
    if to == "fault" and session.said:
        raise CourseError(session.said)
    return session


def traced(recorded: Recorded, element: str = "") -> tuple[Replay, Trace]:
    """The terms of an element: `h=1,w=0` of the only output, `out[1,0]`; without one, of the first that is wrong. Errors:
    CourseError if there is none."""
    if recorded.puzzle.is_hopper:
        raise CourseError(
            f"a trace does not follow terms through TMA and wgmma: `backwarp step {recorded.puzzle.number}` shows the run"
        )
    replay, outputs = Replay(Record(recorded.record), recorded.fault), recorded.kernel.outputs
    if element and "[" not in element:
        if len(outputs) > 1:
            each = either([f"{a.name}[{element}]" for a in outputs])
            raise CourseError(f"{recorded.kernel.name} has {len(outputs)} outputs: name one, {each}")
        element = f"{outputs[0].name}[{element}]"
    element = element or recorded.wrong or f"{outputs[0].name}[0]"
    try:
        array, flat = replay.flat(element, min(replay.steps), 0)
    except WRONG as error:
        raise CourseError(f"{element} is no element of {recorded.kernel.name}'s output: {error}") from None
    if array not in (a.name for a in outputs):
        raise CourseError(f"{array} is no output of {recorded.kernel.name}")
    size = prod(replay.record.arrays[replay.record.number(array)].shape)
    if not 0 <= flat < size:
        raise CourseError(f"{element} is no element of {array}, which has {size}")
    return replay, trace(recorded, replay, array, flat)


def _to_what_failed(session: Session, recorded: Recorded) -> None:
    """The fault; or the last write of what is wrong; or, if no thread writes it, near the end of one that writes nothing."""
    replay = session.replay
    session.said = "" if replay.to_fault()[0] >= 0 else recorded.says
    if recorded.error or not recorded.wrong:
        return
    array, flat = replay.flat(recorded.wrong, session.who, session.t)
    if replay.writer(array, flat) >= 0:
        session.press("t", recorded.wrong)
        session.said = recorded.says
        return
    session.watched = array, flat
    session.said = f"no thread {'of this block ' * recorded.one_block}writes {session.name}, which should be {short(recorded.values[1])}"
    a = replay.record.accesses
    busy = set(a["who"][(a["array"] == replay.record.number(array)) & np.isin(a["how"], WRITING)].tolist())
    threads, held = math.prod(replay.record.block), replay.record.arrays[replay.record.number(array)]
    near = (
        flat * math.prod(replay.record.grid) * threads // math.prod(held.shape)
    )  # if threads go through it in order
    idle = (who for who, steps in replay.steps.items() if steps and who not in busy)
    idle = min(idle, key=lambda who: abs((who >> 10) * threads + (who & 1023) - near), default=None)
    if idle is not None:
        session.go(replay.steps[idle][-2:][0].at, idle)
        session.said += f"; this thread writes none of {array}"


def _to_line(session: Session, line: str, any_thread: bool) -> None:
    """The first time that the thread, or any, is at a line. Errors: LookupError."""
    whose = [session.who, *session.replay.steps] if any_thread else [session.who]
    for who in whose:
        for step in session.replay.steps[who]:
            if step.line == int(line):
                return session.go(step.at, who)
    raise LookupError(f"line {line} is never reached{'' if any_thread else ' by this thread'}")


def interact(recorded: Recorded, session: Session) -> None:
    """Until q, on a terminal."""
    events: queue.Queue = queue.Queue()
    with keyboard(events, threading.Event()):
        key, asked, typed = "", "", ""
        while True:
            size = shutil.get_terminal_size((80, 24))
            sys.stdout.write(_CLEAR)
            show(screen(recorded, session, size.columns, size.lines, f"{asked}: {typed}_" if key else ""))
            sys.stdout.flush()
            try:
                pressed = events.get()[1]
            except KeyboardInterrupt:
                return
            if key:
                key, typed = _typed(session, key, typed, pressed)
            elif pressed in ("q", "\x04"):
                return
            elif pressed in KEYS and KEYS[pressed].asks:
                key, asked, typed = pressed, KEYS[pressed].asks, ""
            elif pressed in KEYS:
                session.press(pressed)


def _typed(session: Session, key: str, typed: str, pressed: str) -> tuple[str, str]:
    """What is asked for, character by character: (the key, what has been typed so far); the key is "" once that is done."""
    if pressed in "\r\n":
        if typed.strip():
            session.press(key, typed)
        return "", ""
    if pressed in "\x7f\b":
        return key if typed else "", typed[:-1]
    return key, typed + pressed if pressed.isprintable() else typed
