"""What is read and stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..compare import either
from .kind import Kind


def _wrong_access(*lines: int, line: int, **facts: Any) -> str:
    text = {
        "fragment": "In line {line}, {register} holds {found}; it should hold {right}",
        "product": "Line {line}: {register}: {found} by {right}, which no result is made of",
        "store": "Line {line} stores in {found} what belongs in {right}",
        "twice": "For {output}, lines {filled} and {line} both read {found}, and no line reads {right}",
        "missing": "For {output}, line {line} never reads {right}{through}",
        "read": "For {output}, line {line} reads {found}{through}, and never {right}",
        "read in vain": "For {output}, line {line} reads {found}{through}, which it does not depend on",
    }[facts["kind"] if facts["right"] else "read in vain"]
    is_tile = facts["kind"] != "twice" and facts["filled"] not in (0, line)
    through = f" from what line {facts['filled']} stores" * is_tile
    text = in_case(facts["case"], text.format(**facts, line=line, through=through))
    places = list(dict.fromkeys(str(n) for n in facts["set_in"] if n != line))
    where = f" (line{'s' * (len(places) > 1)} {either(places, 'and')})" if places else ""
    if facts["step"] != facts["right_step"]:
        moves = f"a step of {facts['variable']} moves by {facts['step']} elements in {facts['array']}{where}"
        return f"{text}: {moves}; it should move by {facts['right_step']}."
    if facts["warps"]:
        own = f"its {facts['axis']} comes from {facts['variable']}{where} there"
        cause = f"line {facts['filled']} is wrong: {own if where else 'it stores elsewhere than it should'}"
        same = "All warps read the same places there"
        return f"{text}. {same}: either line {line} lacks what tells warps apart, or {cause}."
    return f"{text}: its {facts['axis']} comes from {facts['variable']}{where}." if where else f"{text}."


def in_case(name: str, text: str) -> str:
    """name: of another case than the one that is shown, else ""."""
    return f"In case {name}, {text[0].lower()}{text[1:]}" if name else text


def _overwritten(store: int, own: int, read: int, given: Mapping[str, int], case: str) -> str:
    values = f", with {either([f'{n} = {v}' for n, v in given.items()], 'and')}," * bool(given)
    over = f"what line {own} keeps" if own == read else f"what line {own} has stored for line {read}"
    text = f"Line {store} stores in shared memory{values} over {over} there: the place is beyond its own part of the array."
    return in_case(case, text)


ACCESSES = {"wrong_access": Kind(_wrong_access), "overwritten": Kind(_overwritten)}
