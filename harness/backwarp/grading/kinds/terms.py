"""What is added up, found by running."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..compare import either
from .kind import Kind, how_often


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


def _other_index_of(factors: Sequence[str], out: str, array: str, right: str, now: str) -> str:
    but = f"but is always {now}" if now.isdecimal() else f"not {now}"
    return f"{_adds(factors, out)}: the index of {array} should be {right}, {but}."


def _other_steps(array: str, steps: Sequence[Mapping[str, Any]]) -> str:
    def says(letter: str, of: str = "", like: str = "", size: str = "", **by: Any) -> str:
        if not letter:
            return f"the elements of {array} are {by['off']} too far {'on' if by['on'] else 'back'}"
        along, as_in = f"{letter}{f' of {of}' * bool(of)}", f", as in {like} ({size})" * bool(like)
        right = f"{by['right']}{' ({named})'.format(**by) * bool(by['named'])}"
        return f"a step along {along} moves by {by['now']} in {array}{as_in}; it should move by {right}"

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


def _sums_stop_early(out: str, along: Sequence[str], often: float | None) -> str:
    how = "there" if often is None else f"added {how_often(often)}"
    return (
        f"the sums of {out} stop early, in the order of {either(along, 'and')}: the terms that come first are {how}, those "
        "after them are not."
    )


def _extra_terms(out: str, things: str, broken: Sequence[str]) -> str:
    return f"it also adds to {out} {things} for which {either(broken)}."


def _beyond(out: str, things: str, axes: Sequence[tuple[str, str, str, int]], array: str) -> str:
    where = " or ".join(f"{letter} = {text} = {span}" for letter, text, span, _ in axes)
    real = " and ".join(f"{letter} = 0 to {size - 1}" for letter, *_, size in axes)
    return f"{out} also gets {things} with {where}, where {array} has {real}: that place in memory holds another element."


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
    often = [(who, "s" * (n > 1), how_often(times) if times else "not at all") for who, n, times in groups]
    texts = "; ".join(f"thread{s} {who}: {times}" for who, s, times in often)
    return f"what each thread{' of warp 0' * first} reads is added to {out} this many times: {texts}."


def _not_finite(
    line: int, value: float, at: str, code: str, operands: Sequence[str], operation: Mapping[str, Any] | None
) -> str:
    word = "nan" if value != value else f"{value:g}"
    made = f" {_operation(**operation)}" if operation else ""
    return f"{word} arises first in line {line}{f' for {at}' * bool(at)}: {code}{', where ' * bool(operands)}{', '.join(operands)}.{made}"


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
    "other_indices_of": Kind(_other_indices_of),
    "other_index_of": Kind(_other_index_of),
    "other_steps": Kind(_other_steps),
    "other_place": Kind("the place in {array} is {now}; it should be {right}."),
    "sums_have_only": Kind(_sums_have_only),
    "sums_lack": Kind(_sums_lack),
    "sums_stop_early": Kind(_sums_stop_early),
    "extra_terms": Kind(_extra_terms),
    "beyond_an_axis": Kind(_beyond),
    "looked_up_at": Kind(_looked_up_at),
    "looked_up": Kind(_looked_up),
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
    "share": Kind(_share),
    "shares": Kind(_shares),
}
