"""What was written, and what was not."""

from __future__ import annotations

from collections.abc import Sequence

from ..compare import either
from .kind import Kind


def _still_empty(line: int, kernel: str, task: str) -> str:
    return f"{kernel} is still empty: {f'{task}, ' * bool(task)}line {line}."


def _schedule(how: str) -> str:
    return {
        "gpu": "Two launches with the same inputs give different results: threads race for the same memory.",
        "order": "The result depends on the order in which warps and blocks run: "
        "threads share memory without a barrier or an atomic between them.",
        "build": "The debug build and the optimised build of this kernel give different results: it relies on "
        "something that C++ leaves undefined, such as an uninitialised variable, a division by zero or "
        "integer overflow.",
    }[how]


def _come_between(line: int = 0) -> str:
    place = f" in line {line}" * bool(line)
    return (
        f"The result depends on what other threads do between a thread's read of data that they change{place} and its next "
        "step: an update done as a read and then a store loses whatever others store in between. Update in one step, "
        "with atomicAdd() or the like, or put a barrier between the two."
    )


def _only_store(line: int, array: str, tests: Sequence[str], index: str) -> str:
    return f"Only line {line} stores into {array}, and only where {either(tests, 'and')}{f', with {index}' * bool(index)}."


def _written_only(*lines: int, elements: str) -> str:
    who = f"line{'s' * (len(lines) > 1)} {either([*map(str, lines)], 'and')} {'have' if lines[1:] else 'has'}"
    return f"By then, {who} written only {elements}."


STORES = {
    "still_empty": Kind(_still_empty),
    "no_store": Kind("Nothing stores into {array}."),
    "no_thread_stores": Kind(
        "No thread reached a store to it: does an `if`, a `return` or an empty loop keep them all away?",
        asks=True,
    ),
    "left_in_a_loop": Kind(
        "The return in line {0} leaves the kernel from inside a loop, before the store in line {1}; to skip one iteration of "
        "the loop, write continue."
    ),
    "one_each": Kind(
        "The launch has {threads} threads, and {array} has {elements} elements: one each is too few. A thread stores several."
    ),
    "written_twice": Kind(
        "{who} both write {element} (line {0}): do they compute their places as they should?", asks=True
    ),
    "only_store": Kind(_only_store),
    "nothing_written": Kind("By then, nothing of {array} has been written."),
    "written_only": Kind(_written_only),
    "schedule": Kind(_schedule),
    "come_between": Kind(_come_between),
    "other_values": Kind(
        "Every case with ordinary values is right. This one has {note}: does the kernel leave out what is small, limit what is "
        "large, or compare with a number of its own?",
        asks=True,
    ),
}
