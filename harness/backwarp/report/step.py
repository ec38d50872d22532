"""A moment of a recorded run, as lines: on a screen, with the keys, or as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

import numpy as np

from ..devices.virtual.replay.record import Record
from ..devices.virtual.replay.replay import short
from ..devices.virtual.replay.session import KEYS, Session, times
from ..grading.recorded import Recorded
from .terminal import Line, printable, wrap

AROUND = 4  # elements on both sides of the one that is looked at
MOST = 3  # lines of variables, of accesses, of memory on a screen
_SAME = {True: "reverse", False: ""}


def triple(values: Iterable[int]) -> str:
    return ",".join(map(str, values))


def heading(recorded: Recorded, session: Session) -> list[Line]:
    return heading_of(recorded, session.replay.record)


def heading_of(recorded: Recorded, record: Record) -> list[Line]:
    only = " (this block alone is recorded)" if recorded.one_block else ""
    full = " (as far as the record goes)" if record.full else ""
    about = f"{recorded.kernel.name}, case {recorded.case.name}"
    return [[(f"{about}: grid {triple(record.grid)}, block {triple(record.block)}{only}{full}", "bold")]]


def place(session: Session) -> Line:
    replay, t = session.replay, session.t
    thread, block = replay.record.thread_of(session.who)
    passed = replay.moments[t].interval
    barriers = f"{passed} barrier{'s' * (passed != 1)} passed"
    return [
        (
            f"thread {triple(thread)} of block {triple(block)}   {barriers}   moment {t + 1} of {len(replay.moments)}",
            "",
        )
    ]


def variables(session: Session) -> list[tuple[str, bool]]:
    """(`name = value`, whether it has just changed), the innermost first. Pointers to the start of what has the same name are
    left out."""
    changed, known = session.changed(), session.replay.variables(session.who, session.t)
    return [(f"{n} = {short(v)}", n in changed) for n, v in reversed(known.items()) if v != n]


def accesses(session: Session) -> list[str]:
    """What the thread does at this line to arrays and its own, and what it prints."""
    found = session.replay.accesses_at(session.t, session.who)
    said = [session.replay.said(a) for a in found if session.replay.named(a)]
    printed = "".join(session.replay.printed(session.t, session.who)).splitlines()
    return said + [f"prints {text}" for text in printed]


def memory(session: Session) -> list[str]:
    """The elements around the one that is looked at, now: of its row, and of the rows beside it."""
    if not (element := session.element()):
        return []
    replay, (array, flat) = session.replay, element
    held = replay.record.arrays[replay.record.number(array)]
    if not 0 <= flat < int(np.prod(held.shape)):
        return [f"{held.element(flat)} is outside {array}"]
    values, known = replay.memory(array, session.t, session.who >> 10)
    *outer, column = map(int, np.unravel_index(flat, held.shape))
    first = max(0, min(column - AROUND, held.shape[-1] - 2 * AROUND - 1))
    columns = range(first, min(first + 2 * AROUND + 1, held.shape[-1]))
    rows = [outer]
    if outer:
        near = range(max(0, outer[-1] - 1), min(outer[-1] + 2, held.shape[-2]))
        rows = [[*outer[:-1], i] for i in near]
    said = []
    for row in rows:
        cells = (
            (short(values[*row, i].item()) if known[*row, i] else "?", row == outer and i == column)
            for i in columns
        )
        text = " ".join(f"[{cell}]" if here else f" {cell} " for cell, here in cells)
        said.append(f"{array}[{triple([*row, f'{columns[0]}..{columns[-1]}'])}] {text}")
    return said


def output(session: Session) -> list[Line]:
    """What has been printed so far: the end of it."""
    lines = "".join(session.replay.printed(session.t)).splitlines()
    more = f" (the last of {len(lines)} lines)" if len(lines) > MOST - 1 else ""
    head = [[(f"printed so far{more}:", "dim")]] if lines else []
    return head + [[("  " + printable(text), "")] for text in lines[1 - MOST :]]


def source(recorded: Recorded, session: Session, rows: int, width: int) -> list[Line]:
    """The lines around the thread's, which is there as a whole, with how many lanes of its warp stand at each."""
    text = recorded.source.split("\n")
    here = session.replay.step_at(session.who, session.t).line
    first = max(1, min(here - rows // 2, len(text) - rows + 1))
    standing = session.standing()
    found = []
    seen = textwrap.dedent("\n".join(text[first - 1 : first - 1 + rows])).split("\n")
    for n, code in enumerate(seen, first):
        margin = f"{standing.get(n, ''):>3} {'>' if n == here else ' '}{n:>4} | "
        parts = [printable(code)]
        if n == here:
            hang = " " * (len(code) - len(code.lstrip()) + 4)
            parts = textwrap.wrap(parts[0], max(20, width - len(margin)), subsequent_indent=hang) or parts
        for part in parts:
            found.append([(margin, "dim"), (part, _SAME[n == here])])
            margin = " " * (len(margin) - 2) + "| "
    return found[:rows]


def footer(width: int) -> list[Line]:
    keys = [f"{k} {key.name}" for k, key in KEYS.items() if key.name] + ["capitals: back", "q quit"]
    return [
        [(line, "dim")] for line in wrap("  ".join(k.replace(" ", "\u00a0") for k in keys), width, hang="")
    ]


def clipped(line: Line, width: int) -> Line:
    found, left = [], width
    for text, style in line:
        found.append((text[:left].replace("\u00a0", " "), style))
        left -= len(found[-1][0])
    return found


def screen(recorded: Recorded, session: Session, width: int, height: int, asked: str = "") -> list[Line]:
    """At most height - 1 lines of at most width columns. asked: what stands at the bottom in the place of what is said."""
    named = variables(session)
    about = [[("lanes ", "dim"), (session.lanes(), "bold")]]
    about += _laid_out(named, width)
    about += [[("  " + printable(text), "")] for text in accesses(session)[:MOST]]
    about += [[("  " + printable(text), "")] for text in memory(session)[:MOST]]
    about += output(session)
    said = asked or session.said or fault_here(session)
    below = [[(printable(part), "bold")] for part in wrap(said, width, hang="")[:2]] + footer(width)
    above = [*heading(recorded, session), place(session)]
    rows = max(3, height - 1 - len(above) - len(about) - len(below))
    return [
        clipped(line, width) for line in (*above, *source(recorded, session, rows, width), *about, *below)
    ][: height - 1]


def _laid_out(named: list[tuple[str, bool]], width: int) -> list[Line]:
    """Variables, in a few lines; a star is before those that have changed."""
    lines: list[Line] = []
    left = 0
    for text, has_changed in named:
        cell = f"{'*' if has_changed else ' '}{printable(text)}  "
        if len(cell) > left:
            if len(lines) == MOST:
                break
            lines.append([])
            left = width - 1
        lines[-1].append((cell, "bold" if has_changed else ""))
        left -= len(cell)
    return lines


def fault_here(session: Session) -> str:
    """The fault, at its place: the headline, and the first sentence of what it is."""
    fault = session.replay.fault
    if not fault or (session.who, session.t) != session.replay.to_fault():
        return ""
    return f"{fault.headline}. {fault.explanation.split('. ')[0].rstrip('.')}."


def text(recorded: Recorded, session: Session, count: int) -> list[Line]:
    """The last lines of the thread up to where it is, or its first ones if it is at its start: what each changes and accesses; and
    all accesses of the watched element."""
    replay, who, t = session.replay, session.who, session.t
    here = [s.at for s in replay.steps[who]]
    end = max(n for n, at in enumerate(here) if at <= t) + 1
    shown = here[max(0, end - count) : end] if end > 1 else here[:count]
    thread, block = replay.record.thread_of(who)
    lines = [
        *heading(recorded, session),
        [(f"thread {triple(thread)} of block {triple(block)}", "")],
        [("", "")],
    ]
    code = recorded.source.split("\n")
    for session.t in dict.fromkeys(shown):
        line = replay.moments[session.t].line
        together, lanes = session.lanes().count("#"), 32 - session.lanes().count(" ")
        lines.append([(f"{line:>6} | {printable(code[line - 1])}", "bold")])
        if together < lanes and replay.lockstep:
            lines.append([(f"         {together} of the warp's {lanes} lanes are here", "dim")])
        lines += [[("         " + printable(said), "")] for said in accesses(session)]
        if named := [said for said, has_changed in variables(session) if has_changed]:
            lines += [
                [("         " + part, "")]
                for part in wrap(printable("   ".join(reversed(named))), 90, hang="")
            ]
    session.t = t
    said = [s for s in (session.said, fault_here(session)) if s]
    lines += [[("", "")], *([(printable(s), "bold")] for s in said)] if said else []
    return lines + (watched(session, count) if session.watched else [])


def watched(session: Session, count: int) -> list[Line]:
    """The accesses of the watched element in the order of time, those nearest to now."""
    replay = session.replay
    found = replay.touching(*session.watched, session.who >> 10)
    near = np.argsort(np.abs(replay.time[found["row"]] - session.t), kind="stable")[:count]
    said = f"accessed {times(len(found))}:" if len(found) else "never accessed"
    lines: list[Line] = [[("", "")], [(f"{session.name}, {said}", "bold")]]
    for access in found[np.sort(near)]:
        thread, block = replay.record.thread_of(int(access["who"]))
        moment = replay.moments[int(replay.time[access["row"]])]
        who = f"thread {triple(thread)} of block {triple(block)}"
        lines.append(
            [(f"  line {moment.line}, {moment.interval} barriers passed, {who}: {replay.said(access)}", "")]
        )
    return lines
