"""What an editor shows of a moment: threads, their calls, variables, arrays, the value of an expression."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..devices.nvrtc.symbols import demangle
from ..devices.virtual.replay.expressions import Expression
from ..devices.virtual.replay.moments import Step
from ..devices.virtual.replay.replay import short
from ..devices.virtual.replay.session import KEYS, WRONG, Session, worded
from ..devices.virtual.replay.variables import Frame
from .wire import Refused

MOST = 1000  # elements of an array for an editor that asks for all
PREVIEW = 8  # values of a row that are shown in its place
OTHERS = 64  # warps that are listed beside the chosen one


@dataclass(frozen=True)
class Call:
    """One frame of a thread. step: its last one in there, up to now; None: it has not begun. inner: whether it calls another."""

    who: int
    name: str
    line: int
    step: Step | None
    inner: bool


@dataclass(frozen=True)
class Part:
    """What can be unfolded: of a call, "variables", "builtins", "accesses", "shared" or "global"; the elements of an array with
    these first indices; or a variable's value. name: an expression for it, or ""."""

    kind: str
    call: Call | None = None
    array: int = 0
    block: int = 0
    index: tuple[int, ...] = ()
    value: list | dict | None = None
    name: str = ""


class View:
    """References to what is shown are valid until the next move."""

    def __init__(self, session: Session):
        self.session, self.replay, self.record = session, session.replay, session.replay.record
        self._known: list[object] = []

    def forget(self) -> None:
        self._known = []

    def reference(self, to: object) -> int:
        self._known.append(to)
        return len(self._known)

    def referred(self, number: int, kind: type):
        """Errors: Refused."""
        found = self._known[number - 1] if 0 < number <= len(self._known) else None
        if not isinstance(found, kind):
            raise Refused("that was of an earlier stop")
        return found

    # -- threads ----------------------------------------------------------------------------------------

    def threads(self) -> list[dict]:
        """The lanes of the chosen thread's warp, and a lane of each other warp: of its block, then of others."""
        ran = sorted(who for who, steps in self.replay.steps.items() if steps)
        warp, block = self.session.who >> 5, self.session.who >> 10
        first = {who >> 5: who for who in reversed(ran)}
        ours = [w for w in first if w >> 5 == block and w != warp]
        others = {w >> 5: w for w in sorted(first, reverse=True) if w >> 5 != block}.values()
        others = sorted(others, key=lambda w: abs((w >> 5) - block))[: OTHERS - len(ours)]
        lanes = [{"id": who + 1, "name": self._lane(who)} for who in ran if who >> 5 == warp]
        return lanes + [
            {"id": first[w] + 1, "name": f"{self._thread(first[w])} and its {self._warp(first[w])}"}
            for w in (*sorted(ours), *sorted(others))
        ]

    def _warp(self, who: int) -> str:
        block = f" of block {_triple(self.record.thread_of(who)[1])}" if np.prod(self.record.grid) > 1 else ""
        return f"warp {(who & 1023) >> 5}{block}"

    def _lane(self, who: int) -> str:
        t, replay = self.session.t, self.replay
        step = replay.step_at(who, t)
        at = "not begun" if not step else "ended" if replay.end(who) < t else f"line {step.line}"
        here = "" if replay.has(who, t) else f" ({at})"
        return f"{self._thread(who)}{here}, lane {who & 31} of {self._warp(who)}"

    def _thread(self, who: int) -> str:
        return _triple(self.record.thread_of(who)[0])

    def calls(self, who: int) -> list[Call]:
        """The innermost first."""
        steps, now = self.replay.steps[who], self.replay.step_at(who, self.session.t)
        shown = now or steps[0]
        frames = shown.frames or ((self.record.taken["kernel"], shown.line),)
        lines = [line for _, line in frames[:-1]] + [shown.line]
        found = []
        for depth, ((function, _), line) in enumerate(zip(frames, lines, strict=True), 1):
            step = now and next(
                (s for s in reversed(steps[: steps.index(now) + 1]) if len(s.frames) == depth), now
            )
            found.append(Call(who, demangle(function), line, step, depth < len(frames)))
        return found[::-1]

    # -- values -----------------------------------------------------------------------------------------

    def variables(self, call: Call) -> dict[str, object]:
        if call.step is None or not call.step.frames:
            return {}
        if not call.inner:
            return self.replay.variables(call.who, self.session.t)
        now = self.replay.step_at(call.who, self.session.t)
        return Frame(self.replay, call.who, replace(call.step, end=now.end)).variables()

    def scopes(self, call: Call) -> list[dict]:
        arrays = {space: any(a.space == space for a in self.record.arrays) for space in ("shared", "global")}
        about = [
            ("Variables", "variables", True),
            ("This line did", "accesses", not call.inner and self.replay.has(call.who, self.session.t)),
            ("Built-ins", "builtins", True),
            ("Shared memory", "shared", arrays["shared"]),
            ("Arrays", "global", arrays["global"]),
        ]
        return [
            {"name": name, "variablesReference": self.reference(Part(kind, call)), "expensive": False}
            | ({"presentationHint": "locals"} if kind == "variables" else {})
            for name, kind, there in about
            if there
        ]

    def unfolded(self, part: Part, start: int, count: int) -> list[dict]:
        """Of an array, or a list, `count` elements from `start`; 0: all."""
        call = part.call
        match part.kind:
            case "variables":
                return [self.shown(n, v, n, call.who) for n, v in reversed(self.variables(call).items())]
            case "builtins":
                thread, block = self.record.thread_of(call.who)
                dims = dict(
                    threadIdx=thread, blockIdx=block, blockDim=self.record.block, gridDim=self.record.grid
                )
                known = {n: dict(zip("xyz", values, strict=True)) for n, values in dims.items()}
                own = [self.shown(n, v, n, call.who) for n, v in known.items()]
                return own + [self.shown("lane", call.who & 31, "", call.who)]
            case "accesses":
                found = self.replay.accesses_at(self.session.t, call.who)
                said = [self.replay.said(a).partition(": ") for a in found if self.replay.named(a)]
                return [{"name": what, "value": value, "variablesReference": 0} for what, _, value in said]
            case "shared" | "global":
                numbers = [n for n, a in enumerate(self.record.arrays) if a.space == part.kind]
                return [self.array(self.record.arrays[n].name, n, call.who >> 10) for n in numbers]
            case "array":
                return list(self._elements(part, start, count))
        named = list(part.value.items()) if isinstance(part.value, dict) else []
        if named:
            return [self.shown(k, v, part.name and f"{part.name}.{k}", part.block << 10) for k, v in named]
        items = list(enumerate(part.value))[start:][: count or MOST]
        return [
            self.shown(f"[{i}]", v, part.name and f"{part.name}[{i}]", part.block << 10) for i, v in items
        ]

    def shown(self, name: str, value: object, expression: str, who: int) -> dict:
        """A variable's value. expression: for it, or ""."""
        found = {"name": name, "value": short(value), "variablesReference": 0}
        if expression:
            found["evaluateName"] = expression
        if isinstance(value, str) and (pointed := self._pointed(value)) >= 0:
            inside = self.array(name, pointed, who >> 10)
            inside["value"] = inside["value"] if value == name else f"{value}: {inside['value']}"
            return found | inside
        if isinstance(value, list | dict) and value:
            part = Part("value", block=who >> 10, value=value, name=expression)
            found["variablesReference"] = self.reference(part)
            found["indexedVariables" if isinstance(value, list) else "namedVariables"] = len(value)
        return found

    def _pointed(self, pointer: str) -> int:
        """The array that a pointer, `input + 12`, is to; -1 if to none."""
        name = pointer.partition(" + ")[0]
        return next((n for n, a in enumerate(self.record.arrays) if a.name == name), -1)

    def array(self, name: str, number: int, block: int, index: tuple[int, ...] = ()) -> dict:
        """An array, or its part with these first indices; what has one part only stands for it."""
        held = self.record.arrays[number]
        whole, left = not index, held.shape[len(index) :]
        text = f"{held.dtype} {''.join(f'[{n}]' for n in left)}"
        while len(left) > 1 and left[0] == 1:
            index, left = (*index, 0), left[1:]
        if len(index) == len(held.shape):
            values, known = self._held(number, block)
            return {"name": name, "value": short(values[index].item() if known[index] else None)} | {
                "variablesReference": 0,
                "evaluateName": f"{held.name}[{_triple(index) or 0}]",
            }
        part = Part("array", array=number, block=block, index=index)
        if len(left) == 1:
            values, known = self._held(number, block)
            row = zip(values[index][:PREVIEW].tolist(), known[index][:PREVIEW].tolist())
            some = " ".join(short(v) if k else "?" for v, k in row) + (" ..." if left[0] > PREVIEW else "")
            text = f"{text}: {some}" if whole else some
        return (
            {"name": name, "value": text, "type": f"{held.dtype}", "indexedVariables": left[0]}
            | {"variablesReference": self.reference(part)}
            | ({"evaluateName": held.name} if whole else {})
        )

    def _held(self, number: int, block: int) -> tuple[np.ndarray, np.ndarray]:
        return self.replay.memory(self.record.arrays[number].name, self.session.t, block)

    def _elements(self, part: Part, start: int, count: int) -> Iterator[dict]:
        held, axis = self.record.arrays[part.array], len(part.index)
        letter = held.axes[axis] if len(held.axes) == len(held.shape) else ""
        end = min(held.shape[axis], start + (count or MOST))
        for i in range(start, end):
            name = f"[{letter}={i}]" if letter else f"[{i}]"
            yield self.array(name, part.array, part.block, (*part.index, i))
        if not count and end < held.shape[axis]:
            yield {"name": "...", "value": f"{held.shape[axis] - end} more", "variablesReference": 0}

    # -- expressions ------------------------------------------------------------------------------------

    def evaluated(self, text: str, call: Call) -> dict:
        """Errors: Refused."""
        text = text.strip().rstrip(";")
        known = self.variables(call)
        if text not in known and (number := self._pointed(text)) >= 0 and " " not in text:
            found = self.array(text, number, call.who >> 10)
        else:
            try:
                value = self.replay.evaluate(Expression(text), call.who, self.session.t, known)
            except WRONG as error:
                raise Refused(worded(error)) from None
            found = self.shown(text, value, text, call.who)
        return {
            "result": found.pop("value"),
            **{k: v for k, v in found.items() if k not in ("name", "evaluateName")},
        }

    def element(self, text: str, reference: int, call: Call) -> tuple[str, int, int]:
        """(array, flat index, block) of an expression, or, with a reference, of a name in what has been unfolded. Errors: Refused."""
        part = self.referred(reference, Part) if reference else None
        if part and part.kind == "array":
            held = self.record.arrays[part.array]
            number = re.search(r"(\d+)\]$", text)
            index = (*part.index, int(number[1])) if number else ()
            if len(index) == len(held.shape) and index[-1] < held.shape[-1]:
                return held.name, int(np.ravel_multi_index(index, held.shape)), part.block
        call = part.call if part and part.call else call
        try:
            return *self.replay.flat(text, call.who, self.session.t), call.who >> 10
        except WRONG as error:
            raise Refused(worded(error)) from None

    def completions(self, text: str, call: Call) -> list[dict]:
        """Names that begin as the text ends."""
        word = re.search(r"\w*$", text)[0]
        if text.strip() == ":":
            return [{"label": key, "text": key, "detail": k.name} for key, k in KEYS.items() if k.name]
        names = [*self.variables(call), *(a.name for a in self.record.arrays)]
        names += ["threadIdx", "blockIdx", "blockDim", "gridDim"]
        return [
            {"label": n, "length": len(word), "start": len(text) - len(word)}
            for n in dict.fromkeys(names)
            if n.startswith(word)
        ]


def _triple(values: tuple[int, ...]) -> str:
    return ",".join(map(str, values))
