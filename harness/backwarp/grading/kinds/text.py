"""What is read in the text."""

from __future__ import annotations

from collections.abc import Sequence

from .kind import Kind, always, unless_it_ends


def stored_instead(kind: str) -> bool:
    """A condition with another outcome, and a variable with another value, change results and the ends of loops."""
    return kind in ("timeout", "uninitialised-read", "wrong", "unwritten")


def _ends_at_once(line: int, word: str) -> str:
    done = "in any case" if word == "if" else "once"
    governs = f"this ; is all that the {word} governs, and what follows is done {done}"
    return f"Line {line} has a ; right after {word} (...): {governs}. Remove it."


def _other_order(line: int, declared: Sequence[str], number: int, is_: str, taken: str) -> str:
    return f"The launch passes {', '.join(declared)}, in this order; line {line} takes parameter {number}, {is_}, for {taken}."


def _unused_axis(kernel: str, index: str, shape: str, of: str) -> str:
    what = f"a block has {shape} threads" if of == "block" else f"there are {shape} blocks"
    who, all_ = ("threads", "all threads of a block") if of == "block" else ("blocks", "all blocks")
    alike = f"{who} that differ only there" if " x " in shape else all_
    return f"In this launch, {what}, and {kernel} never uses {index}: {alike} do the same."


def _only_change(first: int, last: int = 0, *, code: str, kernel: str) -> str:
    which, says = (f"lines {first} to {last} have", "they say") if last else (f"line {first} has", "it says")
    where = f"In {kernel}, only {which}" if kernel else f"Only {which}"
    return f"{where} to change{f'; {says}: {code}' if code else '.'}"


def _only_missing(first: int, last: int = 0, kernel: str = "") -> str:
    where = f"Between lines {first} and {last}" if last else f"In line {first}"
    return f"{where}, something is missing; nothing else{f' in {kernel}' if kernel else ''} has to change."


TEXT = {
    "ends_at_once": Kind(_ends_at_once),
    "compares_with_itself": Kind("Line {0} compares {name} with itself: {code}."),
    "stores_in_a_condition": Kind(
        "In line {0}, the condition {code} does not compare, it stores in {name}: to compare, write ==.",
        leads=stored_instead,
    ),
    "keeps_only_the_last": Kind(
        "Line {0} sets {name} again in every iteration of the loop, so that only the last product is left; add with +=."
    ),
    "begins_again": Kind(
        "Line {0} sets {name} to 0 in every iteration of the loop in line {1}, so that only what the last one adds is left: set it "
        "before the loop."
    ),
    "other_order": Kind(_other_order, leads=always),
    "unused_axis": Kind(_unused_axis, leads=unless_it_ends),
    "overlapping_blocks": Kind(
        "Line {0}: in {code}, each block begins one after the block before it, and has {threads} threads along {axis}: must "
        "blockIdx.{axis} not be multiplied by that?",
        asks=True,
    ),
    "blocks_of_another_size": Kind(
        "Line {0} takes blocks to be {step} threads apart along {axis}: {code}. In a failing case, a block has {threads}: use "
        "blockDim.{axis}."
    ),
    "steps_into_other_blocks": Kind(
        "Line {0}: {name} begins in the block's own part and moves on by blockDim.{axis}, through the parts of other blocks: is the "
        "step not gridDim.{axis} * blockDim.{axis}?",
        asks=True,
    ),
    "counts_all_blocks": Kind(
        "Line {0} looks in {name} at {index}, which counts through all blocks (blockIdx is in it); {name} belongs to one block, "
        "and counts from 0 in each."
    ),
    "only_change": Kind(_only_change),
    "only_missing": Kind(_only_missing),
    "changed_line": Kind("The stub has {stub}, line {0} has {mine}: was it meant to change?", asks=True),
}
