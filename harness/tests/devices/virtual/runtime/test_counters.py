"""Which lanes are together: random divergent programs, compared with a warp simulated in lockstep in Python.

A program is a tree of accesses, branches, loops (with break and continue), calls, returns and barriers whose
conditions depend on the lane. It is written as PTX, so that no compiler rearranges it, with a line for each
node.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from backwarp.devices import open_device
from backwarp.devices.virtual.runtime import abi
from tests import sampled

WORDS = 1 << 12  # of the array that is read
THREADS = 48  # a warp and a half


@dataclass
class Node:
    """kind: "load" | "if" | "loop" | "repeat" (a loop with as many iterations for every lane) | "break" | "continue" | "return" | "call" | "barrier" | "syncwarp" | "half"."""

    kind: str
    line: int
    seeds: tuple[int, int, int] = (0, 0, 0)
    body: list[Node] = field(default_factory=list)
    other: list[Node] = field(default_factory=list)


class Program:
    """A random program. `mix` is what every condition, trip count and address is made of."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.lines = 0
        self.body = self.block(0, leave=("return",), uniform=True)

    def node(self, kind: str, **parts) -> Node:
        self.lines += 1
        return Node(kind, self.lines, tuple(self.random.randrange(1, 64) | 1 for _ in range(3)), **parts)

    def block(self, depth: int, leave=(), uniform: bool = False, called: bool = False) -> list[Node]:
        """leave: ways to leave it early. uniform: all lanes that have not ended get here, together."""
        return [
            self.statement(depth, leave, uniform, called)
            for _ in range(self.random.randint(1, 3 if depth else 5))
        ]

    def statement(self, depth: int, leave, uniform: bool, called: bool) -> Node:
        kind = self.random.choice(["load", "if", "loop", "loop", "call", "leave", "sync"])
        if depth < 4 and kind == "if":
            parts = {"body": self.block(depth + 1, leave, called=called)}
            if self.random.random() < 0.5:
                parts["other"] = self.block(depth + 1, leave, called=called)
            return self.node("if", **parts)
        if depth < 4 and kind == "loop":
            if uniform and self.random.random() < 0.5:
                return self.node("repeat", body=self.block(depth + 1, uniform=True, called=called))
            return self.node("loop", body=self.block(depth + 1, ("break", "continue"), called=called))
        if depth < 4 and kind == "call" and not called:
            return self.node(
                "call", body=self.block(depth + 1, () if uniform else ("return",), uniform, called=True)
            )
        if depth and kind == "leave" and leave:
            return self.node("if", body=[self.node(self.random.choice(leave))])
        if kind == "sync" and uniform:
            return self.node(self.random.choice(["barrier", "syncwarp", "half"]))
        return self.node("load")


def mix(lane, counters, seeds) -> int:
    """Depends on the lane and on the iterations of the loops of the function."""
    a, b, c = seeds
    value = lane * a + c
    for n in counters:
        value = value * 5 + n * b
    return (value ^ value >> 3) & 0xFFFF


def trips(n: Node, lane, counters) -> int:
    return n.seeds[0] % 4 if n.kind == "repeat" else mix(lane, counters, n.seeds) % 7


# -- in lockstep ------------------------------------------------------------------------------------------


class Warp:
    """Runs a program with all lanes of a warp at once; counts the requests of every line."""

    def __init__(self, program: Program, lanes: range):
        self.requests: dict[int, int] = {}
        self.sectors: dict[int, int] = {}
        self.divergent: dict[int, int] = {}
        self.returned: set[int] = set()
        self.run(program.body, set(lanes), [], set(), set())

    def run(self, nodes, lanes, counters, broken, continued) -> set[int]:
        """Returns the lanes that get to the end of `nodes`."""
        for n in nodes:
            lanes = lanes - broken - continued - self.returned
            if not lanes:
                break
            if n.kind == "load":
                sectors = {mix(lane, counters, n.seeds) % WORDS // 8 for lane in lanes}
                self.requests[n.line] = self.requests.get(n.line, 0) + 1
                self.sectors[n.line] = self.sectors.get(n.line, 0) + len(sectors)
            elif n.kind == "if":
                yes = {lane for lane in lanes if mix(lane, counters, n.seeds) >> 2 & 1}
                self.branch(n.line, yes, lanes)
                self.run(n.body, yes, counters, broken, continued)
                self.run(n.other, lanes - yes, counters, broken, continued)
            elif n.kind in ("loop", "repeat"):
                self.loop(n, lanes, counters)
            elif n.kind == "call":
                outside, self.returned = self.returned, set()
                self.run(n.body, lanes, [], set(), set())
                self.returned = outside
            elif n.kind == "half":
                self.branch(n.line, {lane for lane in lanes if lane % 32 >= 16}, lanes)
            elif n.kind == "break":
                broken |= lanes
            elif n.kind == "continue":
                continued |= lanes
            elif n.kind == "return":
                self.returned |= lanes

    def loop(self, n, lanes, counters) -> None:
        broken, iteration = set(), 0
        while lanes := {lane for lane in lanes if lane not in broken and lane not in self.returned}:
            going_on = {lane for lane in lanes if iteration < trips(n, lane, counters)}
            self.branch(n.line, going_on, lanes)
            self.run(n.body, going_on, [*counters, iteration], broken, set())
            lanes, iteration = going_on, iteration + 1

    def branch(self, line, taken, lanes) -> None:
        if taken and taken != lanes:
            self.divergent[line] = self.divergent.get(line, 0) + 1


# -- as PTX ------------------------------------------------------------------------------------------------


class Ptx:
    """The program as PTX text."""

    def __init__(self, program: Program):
        self.serial, self.functions = 0, []
        entry = self.function(
            program.body,
            ".visible .entry k(.param .u64 data)",
            "ld.param.u64 %rd1, [data];\nmov.u32 %r1, %tid.x;",
        )
        head = '.version 8.0\n.target sm_80\n.address_size 64\n.file 1 "kernel.ptx"\n'
        self.text = head + "\n".join(self.functions) + entry

    def fresh(self, hint: str) -> str:
        self.serial += 1
        return f"{hint}{self.serial}"

    def function(self, nodes, header: str, prologue: str) -> str:
        saved = getattr(self, "registers", 0)
        self.registers = 20
        body = self.nodes(nodes, [], None, "DONE")
        text = (
            f"{header} {{\n.reg .b32 %r<{self.registers + 1}>;\n.reg .b64 %rd<9>;\n.reg .pred %p<3>;\n"
            f".loc 1 1 0\n{prologue}\n{body}\nDONE:\nret;\n}}\n"
        )
        self.registers = saved
        return text

    def register(self) -> str:
        self.registers += 1
        return f"%r{self.registers}"

    def mix(self, counters, seeds) -> str:
        """Leaves the value in %r2."""
        a, b, c = seeds
        lines = [f"mad.lo.u32 %r2, %r1, {a}, {c};"]
        for n in counters:
            lines += [f"mul.lo.u32 %r3, {n}, {b};", "mad.lo.u32 %r2, %r2, 5, %r3;"]
        return "\n".join(
            [*lines, "shr.u32 %r3, %r2, 3;", "xor.b32 %r2, %r2, %r3;", "and.b32 %r2, %r2, 65535;"]
        )

    def nodes(self, nodes, counters, labels, end: str) -> str:
        return "\n".join(
            f".loc 1 {n.line} 0\n{getattr(self, n.kind + '_')(n, counters, labels, end)}" for n in nodes
        )

    def load_(self, n, counters, labels, end) -> str:
        return (
            f"{self.mix(counters, n.seeds)}\nrem.u32 %r2, %r2, {WORDS};\nmul.wide.u32 %rd2, %r2, 4;\n"
            "add.s64 %rd3, %rd1, %rd2;\nld.global.u32 %r4, [%rd3];"
        )

    def if_(self, n, counters, labels, end) -> str:
        no, after = self.fresh("NO"), self.fresh("AFTER")
        return (
            f"{self.mix(counters, n.seeds)}\nand.b32 %r2, %r2, 4;\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra {no};\n"
            f"{self.nodes(n.body, counters, labels, end)}\nbra {after};\n{no}:\n"
            f"{self.nodes(n.other, counters, labels, end)}\n{after}:"
        )

    def loop_(self, n, counters, labels, end) -> str:
        head, next_, out = self.fresh("HEAD"), self.fresh("NEXT"), self.fresh("OUT")
        i, trips = self.register(), self.register()
        count = f"mov.u32 {trips}, {n.seeds[0] % 4};" if n.kind == "repeat" else f"rem.u32 {trips}, %r2, 7;"
        return (
            f"{self.mix(counters, n.seeds)}\n{count}\nmov.u32 {i}, 0;\n{head}:\n"
            f"setp.ge.u32 %p1, {i}, {trips};\n@%p1 bra {out};\n"
            f"{self.nodes(n.body, [*counters, i], (out, next_), end)}\n{next_}:\nadd.u32 {i}, {i}, 1;\n"
            f"bra {head};\n{out}:"
        )

    repeat_ = loop_

    def break_(self, n, counters, labels, end) -> str:
        return f"bra {labels[0]};"

    def continue_(self, n, counters, labels, end) -> str:
        return f"bra {labels[1]};"

    def return_(self, n, counters, labels, end) -> str:
        return "ret;" if self.serial % 2 else f"bra {end};"

    def call_(self, n, counters, labels, end) -> str:
        name = self.fresh("function")
        header = f".func {name}(.param .u64 pointer_0, .param .b32 lane_0)"
        text = self.function(n.body, header, "ld.param.u64 %rd1, [pointer_0];\nld.param.u32 %r1, [lane_0];")
        self.functions.append(text)
        return (
            "{\n.param .b64 a;\nst.param.b64 [a], %rd1;\n.param .b32 b;\nst.param.b32 [b], %r1;\n"
            f"call.uni {name}, (a, b);\n}}"
        )

    def barrier_(self, n, counters, labels, end) -> str:
        return "bar.sync 0;"

    def half_(self, n, counters, labels, end) -> str:
        """The first 16 lanes wait for one another."""
        after = self.fresh("AFTER")
        return (
            f"mov.u32 %r2, %laneid;\nsetp.ge.u32 %p1, %r2, 16;\n@%p1 bra {after};\nbar.warp.sync 0xffff;\n"
            f"{after}:"
        )

    def syncwarp_(self, n, counters, labels, end) -> str:
        return "bar.warp.sync 0xffffffff;"


@pytest.fixture(scope="module")
def device():
    made = open_device("cpu", checks="count")
    made.quick = True  # each kernel is launched once
    return made


def counted(device, text: str) -> dict:
    data = device.array(np.zeros(WORDS, np.uint32), name="data")
    return device.load_ptx(text).get_function("k")(1, THREADS, (data,)).counters


def per_line(lines: dict, name: str) -> dict:
    return {line: counts[name] for line, counts in lines.items() if counts.get(name)}


def expected(program: Program) -> dict[str, dict[int, int]]:
    """Of both warps together."""
    found = {"global_load_requests": {}, "global_load_sectors": {}, "divergent_branches": {}}
    for lanes in (range(32), range(32, THREADS)):
        warp = Warp(program, lanes)
        for into, counts in zip(found.values(), (warp.requests, warp.sectors, warp.divergent), strict=True):
            for line, n in counts.items():
                into[line] = into.get(line, 0) + n
    return found


@pytest.mark.sampled
@pytest.mark.parametrize("seed", sampled(range(40)))
def test_lanes_are_together_as_in_lockstep(device, monkeypatch, seed):
    """After how many iterations the lanes of a warp wait for each other must not matter."""
    monkeypatch.setattr(abi, "COUNT_SLICE", (1, 3, 1000)[seed % 3])
    program = Program(seed)
    device.schedule = seed
    counters = counted(device, Ptx(program).text)
    for name, lines in expected(program).items():
        assert per_line(counters["lines"], name) == lines, name
    assert counters["split"] == 0
