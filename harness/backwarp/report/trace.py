"""The table of `backwarp trace`."""

from __future__ import annotations

import shlex

import numpy as np

from ..devices.virtual.replay.replay import Replay, short
from ..devices.virtual.replay.slices import Leaf
from ..grading.recorded import Recorded
from ..grading.trace import FOREIGN, RIGHT, ZERO, Added, Trace
from .step import heading_of, triple
from .terminal import WIDTH, Line, printable, wrap

MOST, WRITERS, MISSING = 24, 6, 6  # rows that are shown
_MARK = {RIGHT: "", FOREIGN: "bold"}


def lines_of(recorded: Recorded, replay: Replay, found: Trace) -> list[Line]:
    """Who wrote the element; each term with its line, its thread and what varies; and how they agree with the right answer."""
    name = replay.record.arrays[replay.record.number(found.array)].element(found.flat)
    lines: list[Line] = [*heading_of(recorded, replay.record), [("", "")]]
    if not found.writes:
        return [*lines, [(f"No thread writes {name}.", "bold")], *_missing(replay, found)]
    for who, at, value in found.writes[:WRITERS]:
        thread, block = replay.record.thread_of(who)
        said = f" it gives {short(value)}" if value is not None else ""
        where = (
            f"{name}: thread {triple(thread)} of block {triple(block)}, line {replay.moments[at].line}:{said}"
        )
        lines.append([(where, "bold")])
    if more := len(found.writes) - WRITERS:
        lines += [[(f"and {more} more threads", "dim")]] if more > 0 else []
    if not found.is_sum:
        return lines + _no_sum(recorded, name)
    lines += [[("", "")], *_rows(recorded, replay, found.added), *_summary(found), *_missing(replay, found)]
    return lines


def _no_sum(recorded: Recorded, name: str) -> list[Line]:
    step = shlex.join(
        ["backwarp", "step", recorded.puzzle.number, "--case", recorded.case.name, "--to", name]
    )
    said = "The right answer is no sum of products of inputs, so there are no terms to compare. How it comes about: "
    return [[("", "")], *([(part, "")] for part in wrap(said + f"`{step}`.", WIDTH, hang=""))]


def _rows(recorded: Recorded, replay: Replay, added: list[Added]) -> list[Line]:
    variables = [replay.variables(a.who, a.at) for a in added[:512]]
    names = dict.fromkeys(n for each in variables for n in each)
    varying = [n for n in names if len({repr(each.get(n)) for each in variables}) > 1]
    threads = len({a.who for a in added}) > 1
    table = []
    for a, known in zip(added, variables, strict=False):
        where = f"line {replay.moments[a.at].line}"
        if threads:
            thread, block = replay.record.thread_of(a.who)
            where += f", thread {triple(thread)} of block {triple(block)}"
        said = [f"{n} = {short(known[n])}" for n in varying if isinstance(known.get(n), int | float)][-4:]
        cells = (where, "  ".join(said), _product(replay, a.leaves), f"<- {a.verdict}" if a.verdict else "")
        table.append((a.verdict, cells))
    odd = [i for i, (verdict, _) in enumerate(table) if verdict not in (None, RIGHT, ZERO)]
    shown = sorted({*range(min(len(table), MOST - 8)), *odd[:MOST]})[:MOST]
    widths = [max((len(table[i][1][c]) for i in shown), default=0) for c in range(3)]
    lines: list[Line] = []
    for i in shown:
        verdict, cells = table[i]
        text = "  ".join(cell.ljust(width) for cell, width in zip(cells, [*widths, 0], strict=True))
        lines.append([(printable(f"  {text}".rstrip()), _MARK.get(verdict, ""))])
    if len(added) > len(shown):
        lines.append([(f"  and {len(added) - len(shown)} more", "dim")])
    return lines


def _product(replay: Replay, leaves: tuple[Leaf, ...]) -> str:
    parts = []
    for array, flat in leaves[:4]:
        held = replay.record.arrays[replay.record.number(array)]
        values = np.array(held.before).view(held.dtype)
        parts.append(
            f"{held.element(flat)} ({short(values[flat].item()) if 0 <= flat < len(values) else '?'})"
        )
    return " * ".join(parts)


def _summary(found: Trace) -> list[Line]:
    if found.expected is None:
        return [[("What belongs here takes too long to find out: nothing stands beside it.", "dim")]]
    right = sum(a.verdict == RIGHT for a in found.added)
    wrong = sum(a.verdict not in (RIGHT, ZERO) for a in found.added)
    missing = len(found.missing)
    said = f"{right} of {found.expected} terms are right. Missing: {missing}. Not of this element: {wrong}."
    return [[(said, "bold")]]


def _missing(replay: Replay, found: Trace) -> list[Line]:
    return [
        [(printable("  missing: " + _product(replay, leaves)), "bold")] for leaves in found.missing[:MISSING]
    ]
