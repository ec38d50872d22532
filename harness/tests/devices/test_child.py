"""Requests, answers and errors between a parent and its child."""

import re
import threading

import pytest

from backwarp.devices.child import Child, Damaged
from backwarp.errors import DeviceError


@pytest.fixture
def child():
    made = Child("tests.devices.a_child")
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


def test_a_child_outlives_the_thread_that_started_it():
    made = []
    thread = threading.Thread(target=lambda: made.append(Child("tests.devices.a_child")))
    thread.start()
    thread.join()
    (child,) = made
    assert [child.ask("divide", (6, n), 60) for n in (1, 2, 3)] == [6, 3, 2]
    child.end()


def test_what_was_not_offered_cannot_be_asked(child):
    with pytest.raises(Damaged):
        child.ask("ask", ("square", 7), 60, {"cube": lambda x: x**3})


def test_a_defect_ends_the_child_and_is_its_last_word():
    child = Child("tests.devices.a_child")
    with pytest.raises((EOFError, OSError)):
        child.ask("divide", (1, 0), 60)
    how, _, said = child.end().partition(": ")
    # on a busy machine it is ended before it has ended itself
    assert how in ("status 1", "SIGKILL") and re.fullmatch(
        r"ZeroDivisionError: division by zero \(devices/child.py, line \d+\)", said
    )


def test_a_limit_is_one_of_processor_time_where_others_take_the_machine(child, monkeypatch):
    """By the clock its time is up at each of these; it gets more while it works and has not used its ten
    seconds."""
    spent = iter([100, 103, 103.1, 106, 111])
    child.ask("divide", (1, 4), 60)
    monkeypatch.setattr(Child, "spent", lambda self: next(spent))
    monkeypatch.setattr("backwarp.devices.child.Channel.receive", lambda self, limit: None)
    child.receive(10)
    child._spent = [child.spent()] * 2  # the first look
    assert [child._is_held_up() for _ in range(4)] == [True, False, True, False]
    assert child._longer == 20


def test_a_child_that_only_waits_is_given_no_more_time(child):
    child.ask("divide", (1, 4), 60)
    with pytest.raises(TimeoutError):
        child.ask("wait", (), 0.01)


def test_the_time_of_all_includes_that_of_children_that_run_and_that_have_ended():
    other, before = Child("tests.devices.a_child"), Child.spent_by_all()
    other.ask("work", (0.2,), 60)
    while_it_runs = Child.spent_by_all()
    other.end()
    assert while_it_runs - before > 0.15 and Child.spent_by_all() - before > 0.15
