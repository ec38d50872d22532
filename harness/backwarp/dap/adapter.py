"""Answers an editor's requests. All of them come from outside: what does not fit is refused with a sentence, and the next one is
answered."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ..devices.virtual.replay.expressions import Expression
from ..devices.virtual.replay.replay import short
from ..devices.virtual.replay.session import KEYS, WRONG, Session, worded
from ..errors import BackwarpError, CourseError
from ..process import internal_error
from .looking import Call, Part, View
from .places import Places
from .protocol import CAPABILITIES, Arguments, Style, local
from .stops import Stop, coming_to
from .wire import LAST, Garbled, Inbox, Refused, framed

MOST_LOGGED = 1000  # lines of log points between two stops


@dataclass(frozen=True)
class Started:
    """What is debugged. verdict: about the run. wrong: an element of its output that is not right, as `out[1,2]`, or "". is_there:
    whether the session is at a place that was asked for."""

    session: Session
    path: Path
    verdict: str
    wrong: str = ""
    is_there: bool = False


class Adapter:
    def __init__(self, send: Callable[[dict], None], inbox: Inbox, start: Callable[[dict], Started]):
        """start: what launch does with its arguments. Errors of it: BackwarpError."""
        self._send, self.inbox, self.start, self.serial = send, inbox, start, 0
        self.style = Style()
        self.started: Started | None = None
        self.events: list[tuple[str, dict]] = []  # that follow the response
        self.printed, self.logged = -1, 0

    # -- messages ---------------------------------------------------------------------------------------

    def send(self, kind: str, **fields: object) -> None:
        self.serial += 1
        self._send({"seq": self.serial, "type": kind, **fields})

    def event(self, name: str, **body: object) -> None:
        self.events.append((name, body))

    def say(self, text: str, category: str = "console", line: int = 0) -> None:
        place = (
            {"source": self.style.source(self.started.path), "line": self.style.shown(line)} if line else {}
        )
        self.event("output", category=category, output=text.rstrip("\n") + "\n", **place)

    def answer(self, message: dict | Garbled) -> None:
        """Sends the response, and then what has happened."""
        fields = message if isinstance(message, dict) else {}
        command, number = fields.get("command"), fields.get("seq")
        reply = {
            "request_seq": number if type(number) is int else 0,
            "command": command if isinstance(command, str) else "",
        }
        try:
            if isinstance(message, Garbled):
                raise Refused(str(message))
            if fields.get("type") != "request" or command != reply["command"]:
                raise Refused("a message must be a request with its command")
            if command not in REQUESTS:
                raise Refused(f"there is no request {command[:40]} here")
            if not self.started and command not in BEFORE:
                raise Refused(f"{command} comes after launch")
            body = REQUESTS[command](self, Arguments(fields.get("arguments")))
            self.send("response", success=True, **reply, body=body or {})
        except (Refused, BackwarpError) as error:
            self._refuse(reply, str(error))
        except KeyboardInterrupt:
            if not self.inbox.urgent.is_set():
                raise
            self._refuse(reply, "the editor has left")
        except Exception as error:
            internal_error()
            self._refuse(reply, f"internal error ({type(error).__name__}: {error})")
        events, self.events = self.events, []
        for name, about in events:
            self.send("event", event=name, body=about)

    def _refuse(self, reply: dict, why: str) -> None:
        error = {"id": 1, "format": why, "showUser": reply["command"] == "launch"}
        self.send("response", success=False, **reply, message=why, body={"error": error})

    # -- the beginning and the end ----------------------------------------------------------------------

    def initialize(self, given: Arguments) -> dict:
        self.style = Style.of(given)
        return CAPABILITIES

    def launch(self, given: Arguments) -> None:
        if self.started:
            raise Refused("a run has been recorded already")
        asked = dict(given.fields)
        if asked.get("file") is not None:
            asked["file"] = local(given.of("file", str))
        with self.inbox.running():
            self.started = self.start(asked)
        self.view, self.replay = View(self.session), self.session.replay
        self.stop_on_entry = given.of("stopOnEntry", bool, False)
        self.places = Places(self.view, self.started.path, self.style)
        self.places.ending(self.started.wrong, self.started.verdict)
        self.say(self.started.verdict, "important", getattr(self.replay.fault, "line", 0))
        if self.replay.record.full:
            self.say(f"The record is full after {len(self.replay.record.rows)} rows: the run went on.")
        self.event("initialized")

    def attach(self, given: Arguments) -> None:
        raise Refused("nothing runs that one could attach to: launch records a run")

    def configuration_done(self, given: Arguments) -> None:
        replay = self.replay
        if self.started.is_there:
            return self.stopped("goto")
        self.session.who = min(replay.moments[0].steps)
        self.session.t = -1
        if not self.stop_on_entry:
            return self.run(1)
        self.move(0)
        return self.stopped("entry", said="the start of the run")

    def disconnect(self, given: Arguments) -> None:
        pass

    # -- where things are -------------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        return self.started.session

    def call(self, given: Arguments) -> Call:
        """Of frameId, else the chosen thread's."""
        number = given.of("frameId", int, 0)
        return self.view.referred(number, Call) if number else self.view.calls(self.session.who)[0]

    def thread(self, given: Arguments) -> int:
        who = given.of("threadId", int) - 1
        if not self.replay.steps.get(who):
            raise Refused("there is no such thread in the record")
        return who

    # -- moving -----------------------------------------------------------------------------------------

    def stopped(self, reason: str, stop: Stop | None = None, said: str = "") -> None:
        said = stop.said if stop else said
        more = {"description": said, "text": said} if said else {}
        if stop and stop.number:
            more["hitBreakpointIds"] = [stop.number]
        self.event("stopped", reason=reason, threadId=self.session.who + 1, allThreadsStopped=True, **more)

    def move(self, t: int, who: int | None = None) -> None:
        """Also prints what is printed for the first time."""
        self.session.go(t, who)
        self.view.forget()
        for at, text in self.replay.output:
            if self.printed < at <= t:
                self.event("output", category="stdout", output=text)
        self.printed = max(self.printed, t)

    def go_on(self, given: Arguments) -> dict:
        last = len(self.replay.moments) - 1
        if self.session.t == last:
            self.event("terminated")
            return {"allThreadsContinued": True}
        self.run(1)
        return {"allThreadsContinued": True}

    def go_back(self, given: Arguments) -> None:
        self.run(-1)

    def run(self, by: int) -> None:
        """To the next stop, or the one before, of whichever thread; rather of the chosen one."""
        self.logged = 0
        self.inbox.urgent.clear()
        stops, here = self.places.stops(), self.session.t
        times = {t for s in stops for t in s.times if (t - here) * by > 0}
        for t in sorted(times, reverse=by < 0):
            if self.inbox.urgent.is_set():
                return self.stopped("pause")
            for stop in stops:
                whose = stop.at(t)
                if whose and stop.log:
                    self._log(stop, whose, t, by)
                elif whose:
                    self.move(t, self.session.who if self.session.who in whose else whose[0])
                    return self.stopped(stop.reason, stop)
        if by > 0:
            self.move(len(self.replay.moments) - 1)
            return self.stopped("pause", said="the end of the run")
        first = self.replay.moments[0].steps
        self.move(0, self.session.who if self.session.who in first else min(first))
        return self.stopped("entry", said="the start of the run")

    def _log(self, stop: Stop, whose: tuple[int, ...], t: int, by: int) -> None:
        """Each thread's text, as it goes by; not on the way back."""
        for who in whose if by > 0 else ():
            self.logged += 1
            if self.logged <= MOST_LOGGED:
                text = re.sub(r"\{([^{}]*)\}", lambda found: self._value(found[1], who, t), stop.log)
                self.say(text)
            elif self.logged == MOST_LOGGED + 1:
                self.say(f"(only the first {MOST_LOGGED} lines of log points are shown)")

    def _value(self, text: str, who: int, t: int) -> str:
        try:
            return short(self.replay.evaluate(Expression(text), who, t))
        except WRONG as error:
            return f"({worded(error)})"

    def _step(self, given: Arguments, by: int, deepest: int) -> None:
        """The thread's next line, or the one before, in functions at most that deep, or at one of its breakpoints."""
        who, lines = self.thread(given), self.places.lines
        replay, t = self.replay, self.session.t

        def wanted(u: int) -> bool:
            if not replay.has(who, u):
                return False
            shallow = len(replay.moments[u].frames) <= deepest
            return shallow or any(who in s.at(u) for s in lines if u in s.whose and not s.log)

        to = replay.find(t, by, wanted)
        if to < 0:
            end = replay.end(who) if by > 0 else replay.start(who)
            self.move(end, who)
            said = f"the thread {'ends' if by > 0 else 'begins'} here"
            self.say(said)
            return self.stopped("step", said=said)
        self.move(to, who)
        return self.stopped("step")

    def step_over(self, given: Arguments) -> None:
        self._step(given, 1, self.replay.depth(self.session.t, self.thread(given)))

    def step_back(self, given: Arguments) -> None:
        self._step(given, -1, self.replay.depth(self.session.t, self.thread(given)))

    def step_in(self, given: Arguments) -> None:
        self._step(given, 1, 99)

    def step_out(self, given: Arguments) -> None:
        self._step(given, 1, self.replay.depth(self.session.t, self.thread(given)) - 1)

    def pause(self, given: Arguments) -> None:
        self.stopped("pause")

    def goto_targets(self, given: Arguments) -> dict:
        line = self.places.line_of(given, Arguments(given.of("source", dict)))
        times = [t for t, whose in coming_to(self.replay, line).items() if self.session.who in whose]
        now = self.session.t
        later, earlier = [t for t in times if t > now], [t for t in times if t < now]
        found = {"the next time": later[:1], "the time before": earlier[-1:]}
        found |= {"the first time": times[:1], "the last time": times[-1:]}
        labels = {t: label for label, at in reversed(found.items()) for t in at}
        return {
            "targets": [
                {
                    "id": self.view.reference(t),
                    "label": f"{label} that the thread is there",
                    "line": self.style.shown(line),
                }
                for t, label in sorted(labels.items(), key=lambda each: [*found].index(each[1]))
            ]
        }

    def goto(self, given: Arguments) -> None:
        t = self.view.referred(given.of("targetId", int), int)
        self.move(t, self.session.who)
        self.stopped("goto")

    def data_breakpoint_info(self, given: Arguments) -> dict:
        reference = given.of("variablesReference", int, 0)
        return self.places.about(given.of("name", str), self.call(given), reference)

    # -- looking ----------------------------------------------------------------------------------------

    def threads(self, given: Arguments) -> dict:
        return {"threads": self.view.threads()}

    def stack_trace(self, given: Arguments) -> dict:
        calls = self.view.calls(self.thread(given))
        first, many = given.of("startFrame", int, 0), given.of("levels", int, 0)
        frames = [
            {"id": self.view.reference(call), "name": call.name, "line": self.style.shown(call.line)}
            | {"column": self.style.first_column, "source": self.style.source(self.started.path)}
            for call in calls[max(0, first) :][: many if many > 0 else None]
        ]
        return {"stackFrames": frames, "totalFrames": len(calls)}

    def scopes(self, given: Arguments) -> dict:
        return {"scopes": self.view.scopes(self.view.referred(given.of("frameId", int), Call))}

    def variables(self, given: Arguments) -> dict:
        part = self.view.referred(given.of("variablesReference", int), Part)
        start, count = given.of("start", int, 0), given.of("count", int, 0)
        if given.of("filter", str, "") == "named" and part.kind == "array":
            return {"variables": []}
        return {"variables": self.view.unfolded(part, max(0, start), max(0, count))}

    def evaluate(self, given: Arguments) -> dict:
        text = given.of("expression", str)
        if text.startswith(":"):
            return self._key(text[1:].strip())
        return self.view.evaluated(text, self.call(given))

    def _key(self, text: str) -> dict:
        """A key of `backwarp step`, and what it asks for."""
        key, what = text[:1], text[1:].strip()
        if key not in KEYS or bool(KEYS[key].asks) != bool(what):
            names = [
                f":{k}{' ...' if each.asks else ''} {each.name}" for k, each in KEYS.items() if each.name
            ]
            return {"result": "; ".join(names), "variablesReference": 0}
        before = self.session.t, self.session.who
        self.session.press(key, what)
        if (self.session.t, self.session.who) != before:
            self.move(self.session.t)
            self.stopped("goto")
        return {"result": self.session.said, "variablesReference": 0}

    def exception_info(self, given: Arguments) -> dict:
        fault = self.replay.fault
        return {
            "exceptionId": fault.kind if fault else "wrong result",
            "description": self.started.verdict,
            "breakMode": "always",
        }

    def completions(self, given: Arguments) -> dict:
        column = given.of("column", int) - self.style.first_column
        text = given.of("text", str)[: max(0, column)]
        return {"targets": self.view.completions(text, self.call(given))}


REQUESTS: dict[str, Callable[[Adapter, Arguments], dict | None]] = {
    "initialize": Adapter.initialize,
    "launch": Adapter.launch,
    "attach": Adapter.attach,
    "configurationDone": Adapter.configuration_done,
    "disconnect": Adapter.disconnect,
    "terminate": Adapter.disconnect,
    "setBreakpoints": lambda a, given: a.places.set_lines(given),
    "dataBreakpointInfo": Adapter.data_breakpoint_info,
    "setDataBreakpoints": lambda a, given: a.places.set_data(given),
    "setExceptionBreakpoints": lambda a, given: a.places.set_filters(given),
    "continue": Adapter.go_on,
    "reverseContinue": Adapter.go_back,
    "next": Adapter.step_over,
    "stepBack": Adapter.step_back,
    "stepIn": Adapter.step_in,
    "stepOut": Adapter.step_out,
    "pause": Adapter.pause,
    "gotoTargets": Adapter.goto_targets,
    "goto": Adapter.goto,
    "threads": Adapter.threads,
    "stackTrace": Adapter.stack_trace,
    "scopes": Adapter.scopes,
    "variables": Adapter.variables,
    "evaluate": Adapter.evaluate,
    "exceptionInfo": Adapter.exception_info,
    "completions": Adapter.completions,
}
BEFORE = ("initialize", "launch", "attach", *LAST)  # launch


def serve(start: Callable[[dict], Started]) -> int:
    """On standard input and output, until the editor leaves. Errors: CourseError if they are closed."""
    try:
        sink: BinaryIO = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)  # what else is printed
    except OSError:
        raise CourseError("an editor starts this: standard output is closed") from None
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    inbox = Inbox(sys.stdin.buffer)

    def send(message: dict) -> None:
        sink.write(framed(message))
        sink.flush()

    adapter, message = Adapter(send, inbox, start), {}
    try:
        for message in inbox:
            adapter.answer(message)
    except BrokenPipeError:
        pass
    return 2 if isinstance(message, Garbled) else 0
