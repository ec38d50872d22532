"""Mistakes: what they expect, the texts that they make, and many of these in one file."""

from __future__ import annotations

import pytest

from backwarp.course.declare import Case, Int, Kernel, Launch, Out, Puzzle
from backwarp.course.mistakes import Mistake, mistakes_in, together, without_kernels
from backwarp.errors import CourseError

TWO = "".join(f'extern "C" __global__ void {name}(int n) {{\n  a;\n}}\n' for name in ("first", "second"))


def test_a_mistake_replaces_text_that_occurs_once():
    assert Mistake("m", ("a", "b")).apply("xay") == "xby"
    assert Mistake("m", (("a", "b"), ("y", "z"))).apply("xay") == "xbz"
    for source in ("xyz", "aa"):
        with pytest.raises(CourseError, match="times"):
            Mistake("m", ("a", "b")).apply(source)


def test_a_mistake_replaces_text_in_the_kernel_that_it_breaks():
    wrong = Mistake("m", ("  a;", "  b;"), kernel="second")
    assert wrong.apply(TWO) == TWO.replace("a;", "b;").replace("b;", "a;", 1)
    (elsewhere,) = mistakes_in("third", wrong)
    with pytest.raises(CourseError, match="occurs 2 times"):
        elsewhere.apply(TWO)


def test_a_mistake_with_a_sentence_expects_to_be_named():
    edit = ("a", "b")
    assert Mistake("m", edit).expected == ("wrong",)
    assert Mistake("m", edit, expect="race").expected == ("race",)
    assert Mistake("m", edit, says="It is b.").expected == ("m",)
    assert Mistake("m", edit, says="It is b.", expect=("race", "wrong")).expected == ("m", "race", "wrong")


def test_a_puzzle_knows_the_mistakes_of_each_kernel():
    one, two = (
        Kernel(name, (Out("y", n="N"), Int("N")), lambda d, t: Launch(1, 1), lambda a, d: None)
        for name in ("one", "two")
    )
    first, second = Mistake("first", ("a", "b")), Mistake("second", ("a", "c"))
    rest = dict(title="t", part=1, teaches="x", cases=(Case("c", {"N": 3}),), hints=("h",))
    assert Puzzle(kernels=(one,), mistakes=(first, second), **rest).mistakes_of(one) == (first, second)
    both = mistakes_in("one", first) + mistakes_in("two", second)
    assert [m.name for m in Puzzle(kernels=(one, two), mistakes=both, **rest).mistakes_of(two)] == ["second"]


def test_a_text_without_kernels_keeps_the_numbers_of_its_lines():
    text = without_kernels(TWO + "// end\n", ["first", "none"])
    assert text.splitlines()[3:] == (TWO + "// end\n").splitlines()[3:] and text[:3] == "\n\n\n"


def test_texts_together_have_namespaces_of_their_own():
    head = '#include "mma.cuh"\n__constant__ float w[4];\n'
    texts = [head + TWO, head + "// more\n" + TWO, TWO]
    text, before = together(texts)
    assert text.count("#include") == text.count("__constant__") == 1 and 'extern "C"' not in text
    assert [text.count(f"namespace m{i} {{") for i in range(4)] == [1, 1, 1, 0]
    lines = text.splitlines()
    for own, offset in zip(texts, before, strict=True):
        number = own.splitlines().index('extern "C" __global__ void second(int n) {')
        assert lines[offset + number] == "__global__ void second(int n) {"
