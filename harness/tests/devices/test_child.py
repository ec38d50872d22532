"""Requests, answers and errors between a parent and its child."""

import pytest

from harness.devices.child import Child
from harness.devices.plain import Damaged
from harness.errors import DeviceError


@pytest.fixture
def child():
    made = Child("harness.tests.devices.a_child")
    yield made
    made.end()


def test_requests_answers_and_questions_in_return(child):
    assert child.ask("divide", (1, 4), 60) == 0.25
    with pytest.raises(DeviceError, match="no such thing") as error:
        child.ask("fail", ("no such thing",), 60)
    assert not error.value.fatal and child.ask("divide", (6, 3), 60) == 2
    child.post("divide", 1, 2)
    child.post("fail", "the first")
    child.post("fail", "the second")
    with pytest.raises(DeviceError, match="the first"):
        child.ask("divide", (1, 2), 60)
    assert child.ask("divide", (1, 2), 60) == 0.5
    asked = []
    assert child.ask("ask", ("square", 7), 60, {"square": lambda x: asked.append(x) or x * x}) == 49
    assert asked == [7]


def test_what_was_not_offered_cannot_be_asked(child):
    with pytest.raises(Damaged):
        child.ask("ask", ("square", 7), 60, {"cube": lambda x: x**3})


def test_a_defect_ends_the_child_and_is_its_last_word():
    child = Child("harness.tests.devices.a_child")
    with pytest.raises((EOFError, OSError)):
        child.ask("divide", (1, 0), 60)
    assert child.end() == "status 1: ZeroDivisionError: division by zero"
