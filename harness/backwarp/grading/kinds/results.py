"""Results that are the right ones, changed."""

from __future__ import annotations

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


RESULTS = {
    "mistake": Kind(lambda name, says, hint: says),
    "factor": Kind(_factor),
    "divided": Kind("Every element of {array} is the expected one divided by {size}={value}."),
    "multiplied": Kind("Every element of {array} is the expected one multiplied by {size}={value}."),
    "half": Kind(_half),
    "whole": Kind(
        "Every element of {array} is a whole number: fractions are dropped, by a variable that is an int, by a division of two "
        "integers, or where a comparison is stored."
    ),
    "clamped": Kind("Every element of {array} that should be {word} than {limit:g} is {limit:g}."),
    "offset": Kind(_offset),
}
