"""Terms: the sums and products in the text, the places of elements, and how they are computed."""

from backwarp.course.parameters import In
from backwarp.cuda.text import read
from backwarp.grading.repair.terms import (
    in_text,
    parsed,
    places,
    program_of,
    sizes,
    value_of,
)

NAMES = {"row": 0, "K": 1, "k": 2}


def value(text: str, *known) -> int | None:
    ((_, e),) = parsed([text])
    return value_of(program_of(e, NAMES, {}), known)


def test_a_program_computes_what_its_text_does():
    ((_, e),) = parsed(["row + 1"])
    assert program_of(e, NAMES, {}) == ()  # 1 is no entry of this pool
    assert value("(row + k) * K - k", 2, 5, 3) == 22
    assert value("(row - K) / k", 1, 8, 2) == -3 and value("(row - K) % k", 1, 8, 2) == -1
    assert value("row / K", 1, 0, 2) is None and value("row * K", 1, "K", 2) is None


def test_elements_end_in_their_array():
    ((_, e),) = parsed(["labels[row]"])
    assert program_of(e, NAMES, {"labels": 1}) == (0, -17) and program_of(e, NAMES, {}) == ()


def test_what_the_text_has_is_turned_to_columns_and_to_remainders():
    body = read("void f() { int p = down / stride_h; }").functions[0].body
    found = in_text(body, {"p", "down", "right", "stride_h", "stride_w"})
    assert {"down / stride_h", "right / stride_w", "down % stride_h", "right % stride_w"} <= set(found)
    body = read("void f() { int warp = threadIdx.x / 32; }").functions[0].body
    assert "blockDim.x / 32" in in_text(body, {"warp"})


def test_places_of_an_array_by_its_axes():
    array = In("x", b="batch", c="C", h="H")
    assert "(b * C + c) * H + h" in places(array, ["b", "c", "h"], [])
    assert "row * N + col" in places(In("A", m="M", n="N"), [], ["row", "col"])
    assert {"batch * C * H", "C * H"} <= set(sizes([array]))
