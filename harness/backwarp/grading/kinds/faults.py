"""Faults, and the values behind them."""

from __future__ import annotations

from collections.abc import Sequence

from .kind import Kind, plural

_LANES = "Either all lanes of the warp make the call, those without a value with one that changes nothing, or the mask names only those that do."


def _called_only_where(line: int, of_test: int, who: str, test: str) -> str:
    does = f"calls {who}" if who else "makes this call"
    where = f"{test} (line {of_test})" if of_test != line else test
    return f"Line {line} {does} only where {where}. {_LANES}"


def _lanes_return(line: int, call: int, who: str, test: str) -> str:
    does = f"calls {who}" if who else "makes this call"
    return f"Line {line} lets lanes return where {test}, before line {call} {does}. {_LANES}"


def _surplus_thread(number: int, array: str, count: int, returns: bool) -> str:
    says = "a thread without an element must return first."
    if returns:
        says = "the test that makes threads without an element return lets this one through, by its comparison or by a size in it."
    return f"This is thread number {number} of the launch, and {array} has {plural(count, 'element')}: {says}"


def _outside_axis(
    code: str,
    numbers: str,
    at: int,
    array: str,
    letter: str,
    size: int,
    called: str = "",
    set_in: Sequence[tuple[str, int]] = (),
) -> str:
    known = f" ({called} = {size})" if called and not called.isdecimal() else ""
    there = f"{letter} = 0 to {size - 1}" if size > 1 else f"only {letter} = 0"
    where = "".join(f" {name} is set in line {line}." for name, line in set_in)
    return f"{code} is {numbers}{at}, but {array} has {there}{known}.{where}"


def _negative(differences: Sequence[tuple[str, int, int]]) -> str:
    return f"{'; '.join(f'{text} is {a} - {b} = {a - b}' for text, a, b in differences)}."


def _both(who: Sequence[str], values: Sequence[tuple[str, str, str]]) -> str:
    says = "; ".join(f"{text} is {a} and {b}" for text, a, b in values)
    return f"In {who[0]} and {who[1]}: {says}."


def _changes(line: int, adds: str, takes: str, element: str, test: str) -> str:
    does = f" Does {test} leave thread {adds} out?" * bool(test)
    return (
        f"In the same iteration of the loop in line {line}, thread {adds} adds to {element}, and thread {takes} adds {element} "
        f"to its own: a thread whose element is taken must not add in that iteration.{does}"
    )


def _same_slot(*lines: int, array: str, slots: Sequence[str]) -> str:
    texts = [f"line {line} uses {array}[{slot}]" for line, slot in zip(lines, slots, strict=True)]
    return f"In one iteration of the loop, {' and '.join(texts)}, and both are one slot: fill another than the one that is read."


FAULTS = {
    "surplus_thread": Kind(_surplus_thread),
    "returned_early": Kind(
        "Line {0} lets threads return before the first barrier. If only some threads of a block return, nobody loads their "
        "elements: keep every thread to the end, and test only before the store."
    ),
    "output_updated": Kind(
        "{array} comes without values: store the result with =, or add up in a variable that begins at 0."
    ),
    "output_in_an_atomic": Kind(
        "{array} comes without values, and an atomic changes what is there: let one thread store the result with =."
    ),
    "output_read": Kind(
        "{array} comes without values: a kernel can read only what it has stored there before."
    ),
    "called_only_where": Kind(_called_only_where),
    "lanes_return": Kind(_lanes_return),
    "takes_what_changes": Kind(_changes, asks=True),
    "adds_what_changes": Kind(_changes),
    "same_slot": Kind(_same_slot),
    "values": Kind(lambda values: f"There {', '.join(values)}.", explains=False),
    "called_from": Kind("{function} was called from line {0}."),
    "too_large": Kind(
        lambda line, code, number: (
            f"Line {line}: {code} is {number:,}, which does not fit into an int: write (long long){code}."
        )
    ),
    "negative": Kind(_negative),
    "outside_axis": Kind(_outside_axis),
    "guard_passes": Kind("Line {0} lets it through: {test} is {numbers} here."),
    "index_of_a_larger": Kind("In line {0}, {name} is an index of {array}, which has {elements} elements."),
    "differ_only_in": Kind(
        "The two threads differ only in {index}, and the index in line {0} adds nothing that is computed from it."
    ),
    "both_indices": Kind(_both),
}
