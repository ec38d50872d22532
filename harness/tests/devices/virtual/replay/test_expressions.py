"""Expressions of C, as a thread finds them."""

import pytest

from backwarp.devices.virtual.replay.expressions import Expression

NAMES = {
    "i": -7,
    "n": 3,
    "f": 0.5,
    "ok": True,
    "p": "tile + 4",
    "own": [1, [2, 3]],
    "s": {"x": 9},
    "threadIdx": {"x": 5},
}


def value(text: str):
    return Expression(text).value(NAMES, lambda name, index: (name, *index))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i / 2", -3),
        ("i % 2", -1),
        ("7 / 2", 3),
        ("f / 2", 0.25),
        ("1.5f + 2u", 3.5),
        ("i << 1 | 1", -13),
        ("i < 0 && n == 3", True),
        ("n > 3 || !ok", False),
        ("!(i == n) && n != 4", True),
        ("0 <= n < 3", False),
        ("-i + ~n", 3),
        ("threadIdx.x * n", 15),
        ("own[1][0] + s.x", 11),
        ("tile[n]", ("tile", 3)),
        ("tile[n][n - 1]", ("tile", 3, 2)),
        ("p[n]", ("tile", 7)),
    ],
)
def test_values(text, expected):
    assert value(text) == expected and type(value(text)) is type(expected)


@pytest.mark.parametrize(
    "text", ["", "i =", "__import__('os')", "[1]", "(lambda: 1)()", "'text'", "i if n else f"]
)
def test_what_is_no_expression(text):
    with pytest.raises(ValueError, match="is not an expression"):
        value(text)


def test_names_that_are_not_there_now():
    with pytest.raises(KeyError):
        value("missing + 1")
