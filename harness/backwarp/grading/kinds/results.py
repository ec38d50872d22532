"""Results that are the right ones, changed."""

from __future__ import annotations

from collections.abc import Sequence

from .kind import Kind


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
