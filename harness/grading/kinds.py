"""The kinds of findings: one row for each, with its sentence and what it means for the others.

A sentence is a template, or a function, of the finding's lines (0, 1 ...) and facts. It states a fact, a place and a remedy. The
rows stand in the order in which findings that were read in the text are told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .compare import either

#: these end the thread, which then writes nothing more
ENDS = {"out-of-bounds", "misaligned", "invalid-address", "read-only"}

Leads = Callable[[str], bool]


def never(kind: str) -> bool:
    return False


def always(kind: str) -> bool:
    return True


def unless_it_ends(kind: str) -> bool:
    """Where a thread leaves an array, that says more."""
    return kind not in ENDS


def of_values(kind: str) -> bool:
    return kind in ("wrong", "unwritten")


@dataclass(frozen=True)
class Kind:
    """asks: the sentence is a question. read: found in the text of the kernel, not in what it did. sure: if not, it is told only
    where nothing else explains the kernel. leads: whether all else follows from it, given the kind of the fault or verdict.
    hides: kinds of what follows from it. explains: whether it says why, not only what."""

    sentence: str | Callable[..., str]
    asks: bool = False
    read: bool = False
    sure: bool = True
    leads: Leads = never
    hides: tuple[str, ...] = ()
    explains: bool = True


def how_often(times: float) -> str:
    return {1: "once", 2: "twice"}.get(times) or f"{times:.4g} times"


def plural(count: int, one: str) -> str:
    return f"{count} {one}{'s' * (count != 1)}"


# -- what was written, and what was not ------------------------------------------------------------------------


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
    "nothing_changed": Kind(
        "Its value did not change: is nothing stored there, does an `if` or a `return` keep every thread away, or do they"
        " store the old value back?",
        asks=True,
    ),
    "no_thread_stores": Kind(
        "No thread reached a store to it: does an `if`, a `return` or an empty loop keep them all away?",
        asks=True,
    ),
    "left_in_a_loop": Kind(
        "The return in line {0} leaves the kernel from inside a loop, before the store in line {1}; to skip one iteration of "
        "the loop, write continue."
    ),
    "zeros_left_out": Kind(
        lambda array, nan: (
            f"Every element of {array} that was never written should be 0{' or nan' * nan}: that has to be stored, too."
        )
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

# -- faults ----------------------------------------------------------------------------------------------------

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
    code: str, numbers: str, at: int, array: str, letter: str, size: int, called: str = ""
) -> str:
    known = f" ({called} = {size})" if called and not called.isdecimal() else ""
    there = f"{letter} = 0 to {size - 1}" if size > 1 else f"only {letter} = 0"
    return f"{code} is {numbers}{at}, but {array} has {there}{known}."


def _negative(differences: Sequence[tuple[str, int, int]]) -> str:
    return f"{'; '.join(f'{text} is {a} - {b} = {a - b}' for text, a, b in differences)}."


def _both(who: Sequence[str], values: Sequence[tuple[str, str, str]], more: str = "") -> str:
    says = "; ".join(f"{text} is {a} and {b}" for text, a, b in values)
    return f"In {who[0]} and {who[1]}: {says}{more}."


def _changes(line: int, adds: str, takes: str, element: str, test: str) -> str:
    does = f" Does {test} leave thread {adds} out?" * bool(test)
    return (
        f"In the same iteration of the loop in line {line}, thread {adds} adds to {element}, and thread {takes} adds {element} "
        f"to its own: a thread whose element is taken must not add in that iteration.{does}"
    )


def _parts_overlap(names: Sequence[str], begin: Sequence[str], array: str) -> str:
    where = " and ".join(f"{name} at {at}" for name, at in zip(names, begin, strict=True))
    return (
        f"{names[0]} and {names[1]} both lie in {array}, and they overlap: {where}. If both are needed at once, leave "
        "more room between them; if not, put a barrier between their uses."
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
    "stores_meet": Kind(
        "Line {0} stores {first}, and line {1} {second}: of two threads, these are one element. A barrier would only decide "
        "which value stays: each element must belong to one thread."
    ),
    "parts_overlap": Kind(_parts_overlap),
    "same_slot": Kind(_same_slot),
    "elsewhere": Kind("Case {case} runs to its end, but is wrong."),
    "values": Kind(lambda values: f"There {', '.join(values)}.", explains=False),
    "called_from": Kind("{function} was called from line {0}."),
    "negative": Kind(_negative),
    "outside_axis": Kind(_outside_axis),
    "quotient": Kind("Line {0}: {name} = {code} is {numbers} = {value}."),
    "guard_passes": Kind("Line {0} lets it through: {test} is {numbers} here."),
    "index_of_a_larger": Kind("In line {0}, {name} is an index of {array}, which has {elements} elements."),
    "differ_only_in": Kind(
        "The two threads differ only in {index}, and the index in line {0} adds nothing that is computed from it."
    ),
    "both_indices": Kind(_both),
    "both_begin": Kind(lambda who, values: _both(who, values, ", and is moved from there")),
}

# -- results that are the right ones, changed ------------------------------------------------------------------


def _offset(array: str, by: float, case: str, called: str) -> str:
    size, which = f"{abs(by):.5g}", "large" if by > 0 else "small"
    if called:
        return f"Every element of {array} is {called} too {which}: {size} in case {case}."
    return f"Every element of {array} is {size} too {which}, in {f'case {case}' if case else 'all failing cases'}."


def _factor(array: str, ratio: float, everywhere: bool = False) -> str:
    return f"Every element of {array} is {ratio:.4g} times the expected one{', in all failing cases' * everywhere}."


def _half(array: str, worst: float) -> str:
    if not worst:
        return f"Every value of {array} is a half-precision number: add up in float, not in half."
    return (
        f"The errors of {array} (up to {worst:.0e} of the sum of the terms' sizes) are of the size of rounding to 10 bits after "
        "the point, as half and TF32 have them: 5e-04 of a number."
    )


def _as_if_constant(out: str, array: str, value: int) -> str:
    how = "is not multiplied in" if value else "plays no part in it"
    return f"{out} is what comes out if every element of {array} is {value}: {array} {how}."


def _end_alone(out: str, which: str, letters: str, array: str, summed: bool) -> str:
    along = f": nothing is added up along {'them' if letters[1:] else 'it'}" * summed
    return f"{out} is what comes from the {which} {' and '.join(letters)} of {array} alone{along}."


def _end_left_out(which: str, letter: str, array: str, out: str) -> str:
    does = "end one too early" if which == "last" else "begin one too late"
    return f"The {which} {letter} of {array} is left out of {out}: does a loop {does}?"


def _all_terms_but_one(place: str, count: int, which: str, term: str, product: str) -> str:
    does = "end one too early" if which == "last" else "begin one too late"
    return f"{place} has all of its {count} terms but the {which}, {term} = {product}; so has every element: does a loop {does}?"


def _one_term_alone(place: str, value: str, count: int, which: str, term: str, product: str) -> str:
    remedy = "the loops end after one iteration."
    if which == "last":
        remedy = "each term replaces the one before it; add it with +=."
    return f"{place} = {value} is the {which} of its {count} terms alone, {term} = {product}: {remedy}"


def _added_again(array: str, counts: Sequence[int]) -> str:
    often = f"{counts[0]} times" if len(counts) == 1 else "several times"
    where = ": in every iteration of a loop, or by everybody who has a part of the sum" * (counts[-1] > 3)
    return f"{array} is added {often} instead of once{where}."


def _place_of_equal(
    name: str, right: str, now: str, array: str, value: float, later: bool | None, nan: bool
) -> str:
    first = f"{name} should be the place of {right}; it is that of {now}, where {array} is {value:g} as well"
    if later is None:
        return f"{first}."
    return f"{first}: of several {'NaN' if nan else 'equal elements'}, the {'last' if later else 'first'} counts."


def _integer_offset(array: str, by: int, only_wrong: bool) -> str:
    which = "wrong " * only_wrong
    return f"Every {which}element of {array} is {abs(by)} too {'large' if by > 0 else 'small'}, in all failing cases."


RESULTS = {
    "mistake": Kind(lambda name, says, hint: says),
    "zero": Kind(
        "Every element of {array} is 0: nothing is added to what is stored, it is multiplied by 0, or it is cut to a whole "
        "number."
    ),
    "sign": Kind("Every element of {array} has the right magnitude and the wrong sign."),
    "factor": Kind(_factor),
    "divided": Kind("Every element of {array} is the expected one divided by {size}={value}."),
    "multiplied": Kind("Every element of {array} is the expected one multiplied by {size}={value}."),
    "order": Kind("These are the expected values of {array}, {how}."),
    "half": Kind(_half),
    "whole": Kind(
        "Every element of {array} is a whole number: fractions are dropped, by a variable that is an int or by a division of two "
        "integers."
    ),
    "stores_a_comparison": Kind("Line {0} stores 0 or 1 in {array}: whether {test} holds."),
    "clamped": Kind("Every element of {array} that should be {word} than {limit:g} is {limit:g}."),
    "offset": Kind(_offset),
    "others_right": Kind(lambda names: f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} right."),
    "no_part": Kind(
        lambda names, out: (
            f"{', '.join(names[:-1])} and {names[-1]} play no part in {out}: nothing of them gets there."
        )
    ),
    "as_if": Kind("{out} is what comes out if {what}."),
    "as_if_constant": Kind(_as_if_constant),
    "as_if_first": Kind(
        "{out} is what comes out if every {letter} of {array} is the first one: {letter} has no effect on its index."
    ),
    "as_if_laid_out": Kind(
        "{out} is what comes out if {array} is read as if it were laid out [{laid}]; it is [{plain}]."
    ),
    "reversed": Kind(
        lambda out, arrays, letters: (
            f"{out} is what comes out if {' or '.join(arrays)} is reversed along {letters}."
        )
    ),
    "end_alone": Kind(_end_alone),
    "end_left_out": Kind(_end_left_out, asks=True),
    "all_terms_but_one": Kind(_all_terms_but_one, asks=True),
    "one_term_alone": Kind(_one_term_alone),
    "added_again": Kind(_added_again),
    "otherwise_joined": Kind(
        "Every element of {out} is {how} of two numbers: what {array} adds to it, and the rest. It should be their sum."
    ),
    "place_outside_window": Kind(
        "{name} should be the place of {right}; it is that of {now}, which lies outside of its window: does the search begin "
        "there?",
        asks=True,
    ),
    "place_of_equal": Kind(_place_of_equal),
    "place_formula": Kind(
        "In case {case}, {out} is {now}; it should be {right}, the place of the element in its plane of {array}."
    ),
    "integer_offset": Kind(_integer_offset),
}

# -- what is added up, found by running ------------------------------------------------------------------------


def _slope(index: str, letter: str, now: int, right: int) -> str:
    if not now:
        return f"{index} does not change with {letter}; it should."
    return f"a step along {letter} changes {index} by {now}; it should by {right}."


def _adds(factors: Sequence[str], out: str) -> str:
    does, to = ("adds", "to") if len(factors) == 2 else ("puts", "into")
    return f"it {does} {' * '.join(factors)} {to} {out}"


def _should_be(letter: str, right: str, now: str) -> str:
    if right != letter:
        return f"{letter} should be {right}, not {now}"
    return f"{letter} is always {now}" if now.isdecimal() else f"{now} stands where {right} should"


def _other_indices_of(
    factors: Sequence[str], out: str, array: str, changes: Sequence[tuple[str, str, str]]
) -> str:
    return f"{_adds(factors, out)}: in {array}, {', and '.join(_should_be(*each) for each in changes)}."


def _indices_exchanged(
    factors: Sequence[str], out: str, array: str, right: str, now: str, is_output: bool
) -> str:
    where = f"{array}, or in what is added to it" if is_output else array
    return f"{_adds(factors, out)}: in {where}, {right} and {now} should change places."


def _index_exchanged_somewhere(
    factors: Sequence[str], out: str, array: str, right: str, now: str, places: Sequence[str]
) -> str:
    return f"{_adds(factors, out)}: {now} and {right} have changed places, in {either(places, 'or in')}."


def _other_index_of(factors: Sequence[str], out: str, array: str, right: str, now: str) -> str:
    but = f"but is always {now}" if now.isdecimal() else f"not {now}"
    return f"{_adds(factors, out)}: the index of {array} should be {right}, {but}."


def _other_steps(array: str, steps: Sequence[Mapping[str, Any]]) -> str:
    def says(
        letter: str,
        off: str = "",
        on: bool = False,
        now: str = "",
        right: str = "",
        named: str = "",
        of: str = "",
        like: str = "",
        size: str = "",
    ) -> str:
        if not letter:
            return f"the elements of {array} are {off} too far {'on' if on else 'back'}"
        along, as_in = f"{letter}{f' of {of}' * bool(of)}", f", as in {like} ({size})" * bool(like)
        known = f" ({named})" * bool(named)
        return f"a step along {along} moves by {now} in {array}{as_in}; it should move by {right}{known}"

    return f"{'; '.join(says(**step) for step in steps)}."


def _times(often: float) -> str:
    return f"added {how_often(often)}" if often else "not added once each"


def _sums_have_only(out: str, things: str, of: str, which: str, often: float | None) -> str:
    extra = "" if often is None else f", {_times(often)}"
    if not of:
        return f"the sums of {out} have only the {things}{which}{extra}."
    have = f"only the {things}{which}" if which else f"all their {things}"
    return f"the sums of {out}{of} have {have}{extra}; the others have none."


def _sums_lack(out: str, things: str, of: str, which: str, often: float | None) -> str:
    lacks = f"the {things}{which}" if which else f"all their {things}"
    others = "" if often is None else f"; the others are {_times(often)}"
    return f"the sums of {out}{of} lack {lacks}{others}."


def _sums_lack_an_end(out: str, things: str, ends: Sequence[str]) -> str:
    return f"each sum of {out} lacks the {things} with {either(ends)}: is a loop one iteration too short?"


def _products_again(out: str, of: str, which: str, times: int) -> str:
    how = f"added {how_often(times)}" if times > 0 else "subtracted"
    return f"in the sums of {out}{of} {f'the products{which}' if which else 'all products'} are {how}."


def _sums_stop_early(out: str, along: Sequence[str], often: float | None) -> str:
    how = "there" if often is None else f"added {how_often(often)}"
    return (
        f"the sums of {out} stop early, in the order of {either(along, 'and')}: the terms that come first are {how}, those "
        "after them are not."
    )


def _sums_lack_numbers(out: str, things: str, which: str, through: Sequence[str]) -> str:
    return (
        f"the sums of {out} lack the {things} with {which}, counted from 0 through {either(through, 'and')}."
    )


def _extra_terms(out: str, things: str, broken: Sequence[str]) -> str:
    return f"it also adds to {out} {things} for which {either(broken)}."


def _beyond(out: str, things: str, axes: Sequence[tuple[str, str, str, int]], array: str, says: str) -> str:
    where = " or ".join(f"{letter} = {text} = {span}" for letter, text, span, _ in axes)
    real = " and ".join(f"{letter} = 0 to {size - 1}" for letter, *_, size in axes)
    return f"{out} also gets {things} with {where}, where {array} has {real}: {says}."


def _brought_inside(how: str, **facts: Any) -> str:
    says = "the nearest element inside is taken instead"
    if how == "wrapped":
        says = "the index goes on at the other end of the axis"
    return _beyond(says=f"{says}, and nothing should be added there", **facts)


def _looked_up_at(
    by: Sequence[str], now: int, right: int | None, is_output: bool, array: str, letter: str
) -> str:
    where = " and ".join(by)
    if is_output:
        to = "nowhere" if right is None else f"to {letter}={right}"
        return f"what has {where} goes into {array} at {letter}={now}; it should go {to}."
    # none if a remainder is left
    instead = "; it should use none" if right is None else f" instead of {letter}={right}"
    return f"for {where}, it uses {array} at {letter}={now}{instead}."


def _looked_up(
    by: str, rows: Sequence[tuple[int, int, int]], is_output: bool, array: str, letter: str
) -> str:
    places, values, others = (", ".join(map(str, column)) for column in zip(*rows, strict=True))
    does = f"for {by} = {places}, it uses {array}'s"
    if is_output:
        does = f"what has {by} = {places} goes into {array}'s"
    return f"{does} {letter} = {values}; it should be {others}."


def _other_copy(place: str, now: str, right: str) -> str:
    return f"{place} is {now}; it should be {right}." if now else f"{place} should be {right}."


def _other_terms(place: str, lacks: str, has: str, several: bool) -> str:
    parts = [f"lacks {lacks}"] * bool(lacks)
    parts += [f"has {has}, which {'do' if several else 'does'} not belong to it"] * bool(has)
    return f"the sum for {place} {', and '.join(parts)}."


def _other_divisor(place: str, source: str, now: int, right: int) -> str:
    should = f"be by {right}" if right != 1 else "not be"
    return f"for {place}, {source} is divided by {now}; it should {should}."


def _other_times(place: str, source: str, now: float, right: float) -> str:
    return f"for {place}, {source} is added {how_often(now)}; it should be {how_often(right)}."


def _one_term_each(out: str, array: str, most: int) -> str:
    thing = f"element of {array}" if array else "product"
    return f"each element of {out} gets at most one {thing}; it should be the sum of up to {most}."


def _share(unit: str, who: str, one: bool, times: float, out: str) -> str:
    does = f"is added {how_often(times)} to" if times else "is lost: it never reaches"
    return f"what {who} read{'s' * one} {does} {out}."


def _shares(out: str, first: bool, groups: Sequence[tuple[str, int, float]]) -> str:
    texts = [
        f"thread{'s' * (n > 1)} {who}: {how_often(times) if times else 'not at all'}"
        for who, n, times in groups
    ]
    return (
        f"what each thread{' of warp 0' * first} reads is added to {out} this many times: {'; '.join(texts)}."
    )


def _not_finite(
    line: int, value: float, at: str, code: str, operands: Sequence[str], operation: Mapping[str, Any] | None
) -> str:
    word = "nan" if value != value else f"{value:g}"
    made = f" {_operation(**operation)}" if operation else ""
    return f"{word} arises first in line {line}{f' for {at}' * bool(at)}: {code}, where {', '.join(operands)}.{made}"


def _operation(step: str, name: str, operands: Sequence[float]) -> str:
    """`logf(1 - sum) is the logarithm of -0.5, a negative number.`"""
    a, *more = operands
    if len(name) == 1:
        return f"{step} is {a:.5g} {name} {f'({more[0]:.5g})' if more[0] < 0 else f'{more[0]:.5g}'}."
    if more:
        return f"{step} is {name} {a:.5g} and {more[0]:.5g}."
    negative = "" if a >= 0 else ", a negative number" if name != "the exponential of" else ""
    large = ", which is too large for a float" if name == "the exponential of" else ""
    return f"{step} is {name} {a:.5g}{negative}{large}."


TERMS = {
    "not_finite": Kind(_not_finite),
    "nothing_gets": Kind("nothing of {array} gets into {out}."),
    "slope": Kind(_slope),
    "indices_exchanged": Kind(_indices_exchanged),
    "other_indices_of": Kind(_other_indices_of),
    "index_exchanged_somewhere": Kind(_index_exchanged_somewhere),
    "other_index_of": Kind(_other_index_of),
    "other_steps": Kind(_other_steps),
    "other_place": Kind("the place in {array} is {now}; it should be {right}."),
    "other_split": Kind(
        "the number of an element of {out} is taken apart by the sizes [{now}]; it has [{right}]."
    ),
    "sums_lack_an_end": Kind(_sums_lack_an_end, asks=True),
    "sums_have_only": Kind(_sums_have_only),
    "sums_lack": Kind(_sums_lack),
    "products_again": Kind(_products_again),
    "sums_stop_early": Kind(_sums_stop_early),
    "sums_lack_numbers": Kind(_sums_lack_numbers),
    "extra_terms": Kind(_extra_terms),
    "brought_inside": Kind(_brought_inside),
    "beyond_an_axis": Kind(
        lambda **facts: _beyond(says="that place in memory holds another element", **facts)
    ),
    "looked_up_at": Kind(_looked_up_at),
    "looked_up": Kind(_looked_up),
    "other_copy": Kind(_other_copy),
    "other_factor": Kind("for {place}, {factor} is multiplied by {now}; it should be by {right}."),
    "other_terms": Kind(_other_terms),
    "other_sum": Kind("{place} is the sum of {now}; it should be that of {right}."),
    "one_term_each": Kind(_one_term_each),
    "other_divisor": Kind(_other_divisor),
    "other_share": Kind("{out} gets {ratio:.4g}{called} times as much of {array} as it should."),
    "other_scalar": Kind("for {place}, {source} is multiplied by {now}; it should be by {right}."),
    "other_times": Kind(_other_times),
    "does_not_depend": Kind("{out}{of} does not change with the elements of {array}{which}; it should."),
    "depends_on": Kind("{place} changes with {now}; it should change with {right}."),
    "right_in_one_order": Kind(
        "{out} is right where each element of {array} along {letter} is {good} than the one before, and wrong where it is {bad}: "
        "does all that has been computed so far stay right when a {bad} element comes?",
        asks=True,
    ),
    "share": Kind(_share),
    "shares": Kind(_shares),
}

# -- what is read in the text ----------------------------------------------------------------------------------


def _ends_at_once(line: int, word: str) -> str:
    done = "in any case" if word == "if" else "once"
    return (
        f"Line {line} has a ; right after {word} (...): this ; is all that the {word} governs, and what follows is done {done}. "
        "Remove it."
    )


def _drops_the_fraction(line: int, code: str, number: str, divisor: str, written: str, whole: bool) -> str:
    where = "" if whole else f": it is 0 wherever {divisor} is greater than {number}"
    return f"Line {line}: {code} divides two integers, which drops the fraction{where}. Write {number}.0f / {written}."


def _other_order(line: int, declared: Sequence[str], number: int, is_: str, taken: str) -> str:
    return f"The launch passes {', '.join(declared)}, in this order; line {line} takes parameter {number}, {is_}, for {taken}."


def _never_used(kernel: str, names: Sequence[str], given: bool, alike: str, more: str = "") -> str:
    who = f"Nothing that you wrote in {kernel} uses" if given else f"{kernel} never uses"
    return f"{who} {either(names)}{f': {alike} do the same' * bool(alike)}{more}."


def _unused_axis(kernel: str, index: str, shape: str, of: str) -> str:
    what = f"a block has {shape} threads" if of == "block" else f"there are {shape} blocks"
    who = "threads" if of == "block" else "blocks"
    return (
        f"In this launch, {what}, and {kernel} never uses {index}: {who} that differ only there do the same."
    )


def _idle_axes(line: int, names: Sequence[str], used: Sequence[str]) -> str:
    are = "are" if names[1:] else "is"
    return f"This launch has threads and blocks along {either(used, 'and')} alone: {either(names, 'and')} {are} always 0 (line {line})."


def _other_row_length(put: int, taken: int, declared: int = 0, *, name: str, length: str, other: str) -> str:
    where = f" (line {declared})" * bool(declared)
    return f"Line {put} puts elements into {name} in rows of {length}{where}, and line {taken} takes them from rows of {other}."


def _mixed_on_one_side(line: int, other: int, puts: bool, name: str, place: str) -> str:
    does = "puts elements into" if puts else "takes elements from"
    return (
        f"Line {line} {does} {name} at {place}, and line {other} has ^ in the index: both must name the same place for the "
        "same element."
    )


def _no_remainder(line: int, name: str, left: str) -> str:
    what = f"{left} by {name}" if left else f"by {name}"
    return (
        f"Line {line} divides {what}, and nothing asks whether the division leaves a remainder ({left}{' ' * bool(left)}% {name}): "
        "where it does, there is no such position."
    )


def _only_missing(first: int, last: int = 0) -> str:
    where = f"Between lines {first} and {last}" if last else f"In line {first}"
    return f"{where}, something is missing; nothing else has to change."


TEXT = {
    "assigns_in_condition": Kind(
        "Line {0} sets {left} to {right} with a single =; a comparison is written {left} == {right}, or with <, <=, > or >=."
    ),
    "ends_at_once": Kind(_ends_at_once),
    "compares_twice": Kind(
        "Line {0}: {code} compares the result of {left}, 0 or 1, with {right}; write {left} && {middle} {sign} {right}."
    ),
    "compares_with_itself": Kind("Line {0} compares {name} with itself: {code}."),
    "leaves_too_early": Kind(
        "Line {0} leaves where {test}, even if {name} is less than {bound}: then nobody stores {element}."
    ),
    "hides_the_sum": Kind(
        "Line {0} declares a second {name}, which ends with its block; that of line {1} never changes. Leave out the type: "
        "{name} = ..."
    ),
    "keeps_only_the_last": Kind(
        "Line {0} sets {name} again in every iteration of the loop, so that only the last product is left; add with +=."
    ),
    "stores_what_it_began_with": Kind(
        "Line {0} stores {value}, which nothing has changed since it began as {first}."
    ),
    "tile_of_its_own": Kind(
        "Line {0} declares {name} without __shared__: every thread has one of its own, and sees nothing of what the others put "
        "into theirs."
    ),
    "keeps_the_index": Kind(
        "Line {0} compares {other} with {name}, and then keeps {value} in it, not {other}."
    ),
    "keeps_another_place": Kind(
        "Line {0} sets {name} to {value}, but line {1} reads {array} at {index}: {name} begins as such a place."
    ),
    "drops_the_fraction": Kind(_drops_the_fraction),
    "counts_in_integers": Kind(
        "Line {0} declares {name} as {type}: every fraction that is added to it is dropped. Declare it as float."
    ),
    "keeps_as_an_integer": Kind(
        "Line {0} keeps {value} in {name}, which is declared as {type}: the fraction is dropped. Declare it as float."
    ),
    "other_order": Kind(_other_order, leads=always),
    "unused_axis": Kind(_unused_axis, leads=unless_it_ends),
    "idle_axes": Kind(_idle_axes, hides=("never_used", "all_the_same")),
    "overlapping_blocks": Kind(
        "Line {0}: in {code}, each block begins one after the block before it, and has {threads} threads along {axis}: must "
        "blockIdx.{axis} not be multiplied by that?",
        asks=True,
    ),
    "blocks_of_another_size": Kind(
        "Line {0} takes blocks to be {step} threads apart along {axis}: {code}. In a failing case, a block has {threads}: use "
        "blockDim.{axis}."
    ),
    "counts_all_blocks": Kind(
        "Line {0} looks in {name} at {index}, which counts through all blocks (blockIdx is in it); {name} belongs to one block, "
        "and counts from 0 in each."
    ),
    "other_row_length": Kind(_other_row_length),
    "mixed_on_one_side": Kind(_mixed_on_one_side),
    "all_the_same": Kind(_never_used, leads=unless_it_ends),
    "input_never_used": Kind(
        lambda **facts: _never_used(more=", which the result depends on", **facts), leads=of_values
    ),
    "never_used": Kind(_never_used),
    "no_remainder": Kind(_no_remainder),
    "no_division": Kind(
        "Nothing that you wrote in {kernel} divides by {name}: from here, what lies a step of {name} apart is found by a "
        "division that leaves no remainder.",
        sure=False,
    ),
    "no_negative": Kind(
        "Line {0}: nothing asks whether {name} is negative. In C, -2 / 2 is -1, -1 / 2 is 0 and -2 % 2 is 0, so there seems to "
        "be a position."
    ),
    "only_change": Kind(
        lambda line, code: f"Only line {line} has to change{f'; it says: {code}' if code else '.'}"
    ),
    "only_missing": Kind(_only_missing),
    "changed_line": Kind("The stub has {stub}, line {0} has {mine}: was it meant to change?", asks=True),
}


# -- what is read and stored -----------------------------------------------------------------------------------


def _wrong_access(*lines: int, line: int, **facts: Any) -> str:
    text = {
        "fragment": "In line {line}, {register} holds {found}; it should hold {right}",
        "product": "Line {line}: {register}: {found} by {right}, which no result is made of",
        "store": "Line {line} stores in {found} what belongs in {right}",
        "missing": "For {output}, line {line} never reads {right}{through}",
        "read": "For {output}, line {line} reads {found}{through}, and never {right}",
        "read in vain": "For {output}, line {line} reads {found}{through}, which it does not depend on",
    }[facts["kind"] if facts["right"] else "read in vain"]
    through = f" from what line {facts['filled']} stores" if facts["filled"] not in (0, line) else ""
    text = text.format(**facts, line=line, through=through)
    places = [str(n) for n in facts["set_in"] if n != line]
    where = f" (line{'s' * (len(places) > 1)} {either(places, 'and')})" if places else ""
    if facts["step"] != facts["right_step"]:
        moves = f"a step of {facts['variable']} moves by {facts['step']} elements in {facts['array']}{where}"
        return f"{text}: {moves}; it should move by {facts['right_step']}."
    return f"{text}: look at {facts['variable']}{where}." if where else f"{text}."


ACCESSES = {"wrong_access": Kind(_wrong_access)}

KINDS: Mapping[str, Kind] = {
    **STORES,
    **FAULTS,
    **RESULTS,
    **TERMS,
    **ACCESSES,
    **{name: replace(kind, read=True) for name, kind in TEXT.items()},
}
