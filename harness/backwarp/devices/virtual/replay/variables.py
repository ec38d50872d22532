"""What the variables of a thread held at a moment: in registers, as recorded; in local memory, from the thread's stores."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..analyse.scopes import Scoped, Type
from ..ptx.types import BYTES
from .moments import Moments, Step
from .record import KIND, Held, typed

MOST = 64  # elements of an array that are shown


class Frame:
    """A thread's function at one of its steps. rows: its rows so far; kinds: theirs."""

    def __init__(self, moments: Moments, who: int, step: Step):
        self.record, self.step = moments.record, step
        self.rows = self.record.threads[who][: step.end]
        self.kinds = self.record.kind[self.rows]
        self.function = step.frames[-1][0] if step.frames else ""
        self.visible = self.record.scopes.around(step.block)

    def variables(self, only: str = "") -> dict[str, object]:
        """Name -> value of the variables in scope that have one, inner ones hiding outer ones: int, float, bool; a pointer as
        "array + element"; list, dict of arrays and structs, with None for what is unset. only: those of this name."""
        known, scoped = self._assigned(), self.record.scopes.variables
        found = {}
        for n in sorted(known, key=lambda n: (scoped[n].block, n)):
            named = only in ("", scoped[n].name)
            if named and scoped[n].function == self.function and scoped[n].block in self.visible:
                found[scoped[n].name] = self.shown(known[n], scoped[n].type)
        for v, at in self._in_memory():
            if only in ("", v.name) and v.name not in found:
                found[v.name] = self._decoded(*self._local(at, v.type.nbytes), v.type)
        return found

    def _assigned(self) -> dict[int, int]:
        """Variable -> bits, as assigned last in this frame."""
        begin, kinds = self.step.begin, self.kinds
        depth = np.cumsum(kinds == KIND["enter"]) - np.cumsum(kinds == KIND["leave"])
        own = np.flatnonzero((kinds[begin:] == KIND["var"]) & (depth[begin:] == depth[begin])) + begin
        rows = self.rows[own]
        return {
            self.record.of(row)[4]: value
            for row, value in zip(rows.tolist(), self.record.rows["value"][rows].tolist(), strict=True)
            if self.record.of(row)[4] >= 0
        }

    def bases(self) -> Iterator[tuple[str, int, int, int]]:
        """(depot, start in it, bytes, address) of the pieces of local memory, the last first."""
        for row in self.rows[np.flatnonzero(self.kinds == KIND["base"])][::-1].tolist():
            _, _, _, _, _, nbytes, depot, start = self.record.of(row)
            yield depot, start, nbytes, int(self.record.rows["value"][row])

    def _in_memory(self) -> Iterator[tuple[Scoped, int]]:
        """(variable, address) of those in local memory."""
        bases = list(self.bases())
        for v in self.record.scopes.variables:
            if v.symbol and v.function == self.function and v.block in self.visible:
                held = (a + v.offset - s for d, s, n, a in bases if d == v.symbol and s <= v.offset < s + n)
                for at in list(held)[:1]:
                    yield v, at

    def _local(self, at: int, nbytes: int) -> tuple[bytes, bytes]:
        """(bytes, whether each is known) of local memory."""
        data, known = bytearray(nbytes), bytearray(nbytes)
        at_rows = np.flatnonzero(self.kinds == KIND["at"])
        addresses = self.record.rows["value"][self.rows[at_rows]]
        for i in at_rows[(addresses >= at) & (addresses < at + nbytes)].tolist():
            a = int(self.record.rows["value"][self.rows[i]]) - at
            size = BYTES.get(self.record.of(self.rows[i])[6], 1)
            while (i := i + 1) < len(self.rows) and self.kinds[i] == KIND["given"]:
                value = int(self.record.rows["value"][self.rows[i]])
                data[a : a + size] = value.to_bytes(8, "little")[:size]
                known[a : a + size] = b"\1" * size
                a += size
        return bytes(data[:nbytes]), bytes(known[:nbytes])

    def _decoded(self, data: bytes, known: bytes, t: Type) -> object:
        if t.kind == "array" and t.of and t.of.nbytes:
            n = t.of.nbytes
            starts = range(0, min(len(data) // n, MOST) * n, n)
            return [self._decoded(data[i : i + n], known[i : i + n], t.of) for i in starts]
        if t.kind == "struct":
            fields = ((f, slice(o, o + x.nbytes), x) for f, o, x in t.fields)
            return {f: self._decoded(data[part], known[part], x) for f, part, x in fields}
        return self.shown(int.from_bytes(data, "little"), t) if all(known) else None

    def shown(self, bits: int, t: Type) -> object:
        """The value of bits; a pointer as "array + element"."""
        if t.kind != "pointer":
            return typed(bits, t)
        array, offset = self.record.place(bits)
        if array < 0:
            return self.local_name(bits) or f"{bits:#x}"
        about: Held = self.record.arrays[array]
        n = offset // about.dtype.itemsize
        return about.name + (f" + {n}" if n else "")

    def local_name(self, address: int) -> str:
        """`p[1].b` of an address in local memory; "" if no variable is there."""
        for v, at in self._in_memory():
            if at <= address < at + v.type.nbytes:
                return v.name + _part(v.type, address - at)
        return ""


def _part(t: Type, offset: int) -> str:
    """`[2].x`"""
    if t.kind == "array" and t.of and t.of.nbytes:
        shape = t.shape or (t.nbytes // t.of.nbytes,)
        index = np.unravel_index(min(offset // t.of.nbytes, int(np.prod(shape)) - 1), shape)
        return "".join(f"[{i}]" for i in index) + _part(t.of, offset % t.of.nbytes)
    if t.kind == "struct":
        within = (f".{f}" + _part(x, offset - o) for f, o, x in t.fields if o <= offset < o + x.nbytes)
        return next(within, "")
    return ""
