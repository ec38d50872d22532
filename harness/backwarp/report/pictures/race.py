"""The timeline of a race: two threads, what each did to the element, and where nothing orders them."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from ...grading.verdict import Verdict
from .canvas import COLOURS, FAINT, IDLE, INK, LEFT, LETTER, Pen

INKS = {"read": COLOURS["read"], "write": COLOURS["write"], "atomic": "#f6d58e"}
VERBS = {"read": "reads", "write": "writes", "atomic": "atomically changes"}
ALARM = "#b3261e"
LANE, BETWEEN = 340, 28  # a thread's column, and the gap between the two
# heights: of an access, of a barrier; above and below the line of a missing one
ROW, BAR, GAP = 52, 24, 14
TOP = 112
LONGEST = 48  # letters of code


def race_picture(verdict: Verdict) -> Figure | None:
    """The timeline of a verdict; None if it has none."""
    if not (found := verdict.timeline):
        return None
    events = found["events"]
    racing = [i for i, event in enumerate(events) if event["race"]]
    bottom = TOP + 2 * BAR + ROW * len(events) + 2 * GAP + 20
    says = advice(found)
    pen = Pen(bottom + 20 * len(says) + 50, 20)
    pen.text(LEFT, 24, f"{element(found)}: two threads, and nothing says which comes first", "title")
    note = f"{verdict.kernel}, case {verdict.case}; time runs down, in the order of one run"
    pen.text(LEFT, 50, note, "label", FAINT)
    for who in (0, 1):
        pen.text(middle(who), TOP - 22, thread_name(found, who), "label", INK, "center")
    y = bar(pen, TOP, opening(found))
    for i, event in enumerate(events):
        if i == racing[1]:
            y = gap(pen, y)
        box(pen, y, event, found)
        y += ROW
    y = bar(pen, y + 6, closing(found))
    for i, line in enumerate(says):
        pen.text(LEFT, y + 24 + 20 * i, line, "label", INK)
    legend(pen, y + 30 + 20 * len(says))
    return pen.figure


def element(found: dict[str, Any]) -> str:
    """`part[3]`, or the variable's name."""
    return f"{found['array']}[{found['index']}]" if found["index"] else found["array"] or "one word of memory"


def thread_name(found: dict[str, Any], who: int) -> str:
    """`thread (1,0,0) of block (0,0,0)`."""
    thread, block = (",".join(map(str, found[name][who])) for name in ("threads", "blocks"))
    return f"thread ({thread}) of block ({block})"


def opening(found: dict[str, Any]) -> str:
    if found["missing"]["kind"] == "blocks":
        return "the launch starts"
    return f"a barrier, line {found['begins']}" if found["begins"] else "the block starts"


def closing(found: dict[str, Any]) -> str:
    if found["missing"]["kind"] == "blocks":
        return "the launch ends"
    return f"a barrier, line {found['ends']}" if found["ends"] else "the block ends"


def advice(found: dict[str, Any]) -> list[str]:
    """What would order the two accesses, in one or two lines."""
    missing = found["missing"]
    if missing.get("signal"):
        return [
            "One thread signals the other: a __threadfence() belongs before the signal,",
            "and another after it is seen.",
        ]
    atomic = ", or an atomic" if missing.get("updates") else ""
    if missing["kind"] == "blocks":
        return [f"No barrier orders blocks: give each block its own elements{atomic}."]
    if missing["kind"] == "one thread":
        lines = " and ".join(map(str, missing["lines"]))
        return [
            f"Both threads change it in line{'s' * (len(missing['lines']) > 1)} {lines}, which no barrier orders:",
            f"give each element a thread of its own{atomic}.",
        ]
    barrier = "__syncwarp()" if found["same_warp"] else "__syncthreads()"
    also = ", or __syncthreads()," if found["same_warp"] else ""
    if missing["kind"] == "within":
        return [
            f"Line {missing['line']} reads what another thread writes in it: a {barrier}{also} belongs "
            "between",
            "reading into a variable and writing.",
        ]
    if missing["after"] == missing["before"]:
        return [f"A {barrier}{also} belongs after line {missing['after']}, before the loop reaches it again."]
    again = " is reached again" if missing["again"] else ""
    return [
        f"A {barrier}{also} belongs after line {missing['after']}, before line {missing['before']}{again}."
    ]


# -- drawing ------------------------------------------------------------------------------------------------


def middle(who: int) -> float:
    return LEFT + who * (LANE + BETWEEN) + LANE / 2


def bar(pen: Pen, y: float, text: str) -> float:
    """Draws something both threads pass together. Returns where to continue."""
    pen.box(LEFT, y, 2 * LANE + BETWEEN, BAR, IDLE)
    pen.text(LEFT + LANE + BETWEEN / 2, y + BAR / 2, text, "label", INK, "center")
    return y + BAR + 6


def gap(pen: Pen, y: float) -> float:
    """Draws the line where neither thread waits for the other."""
    y += GAP
    text = "nothing orders these two"
    half = LETTER * len(text) / 2 + 8
    centre = LEFT + LANE + BETWEEN / 2
    for x in ((LEFT, centre - half), (centre + half, LEFT + 2 * LANE + BETWEEN)):
        pen.axes.plot(x, [y - 3, y - 3], color=ALARM, linewidth=2, linestyle="--", zorder=3)
    pen.text(centre, y - 3, text, "label", ALARM, "center")
    return y + GAP


def box(pen: Pen, y: float, event: dict[str, Any], found: dict[str, Any]) -> None:
    x = middle(event["who"]) - LANE / 2
    pen.box(x, y, LANE, ROW - 8, INKS[event["access"]], thick=event["race"])
    pen.text(x + 8, y + 13, f"line {event['line']} {VERBS[event['access']]} {element(found)}", "label")
    code = excerpt(event["text"], f"{found['array']}[")
    pen.axes.text(
        x + 8, y + 31, code, fontsize=8, family="monospace", color=INK, va="center", parse_math=False
    )


def excerpt(code: str, word: str) -> str:
    """At most LONGEST letters of a line, from its start or around a word."""
    if len(code) <= LONGEST:
        return code
    if code.find(word) + len(word) < LONGEST - 10:
        return code[: LONGEST - 3] + "..."
    start = min(code.find(word) - 10, len(code) - LONGEST + 3)
    end = start + LONGEST - 6
    return "..." + (code[start:] if end + 3 >= len(code) else code[start:end] + "...")


def legend(pen: Pen, y: float) -> None:
    pen.box(LEFT, y - 8, 16, 16, "#ffffff", thick=True)
    pen.text(LEFT + 22, y, "thick: the two that race", "label", FAINT)
