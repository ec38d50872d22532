"""What streams, events and waits make certain, and how long it takes."""

from __future__ import annotations

import pytest

from backwarp.streams.order import COMPUTE, IN, NULL, OUT, Access, Order

SHARED = (Access("x", 0, 8, True),)


def ordered(steps) -> bool:
    """Whether two operations, issued by the steps, are ordered. steps(order, first, last)."""
    order, made = Order(), []

    def work(stream):
        made.append(order.issue(COMPUTE, 1, stream, accesses=SHARED))
        return list(order.races(made[-1]))

    steps(order, work)
    return bool(made[1].before & 1)


def one_stream(order, work):
    a = order.stream(False)
    work(a), work(a)


def two_streams(order, work):
    a, b = order.stream(False), order.stream(False)
    work(a), work(b)


def event(order, work):
    a, b, e = order.stream(False), order.stream(False), order.event()
    work(a)
    order.record(e, a)
    order.wait_event(b, e)
    work(b)


def event_before_the_work(order, work):
    a, b, e = order.stream(False), order.stream(False), order.event()
    order.record(e, a)
    work(a)
    order.wait_event(b, e)
    work(b)


def event_never_recorded(order, work):
    a, b, e = order.stream(False), order.stream(False), order.event()
    work(a)
    order.wait_event(b, e)
    work(b)


def waited_for_before_recorded(order, work):
    a, b, e = order.stream(False), order.stream(False), order.event()
    work(a)
    order.wait_event(b, e)
    order.record(e, a)
    work(b)


def through_a_third(order, work):
    a, b, c = (order.stream(False) for _ in range(3))
    e, f = order.event(), order.event()
    work(a)
    order.record(e, a)
    order.wait_event(c, e)
    order.record(f, c)
    order.wait_event(b, f)
    work(b)


def host_waits(order, work):
    a, b = order.stream(False), order.stream(False)
    work(a)
    order.wait(order.of_stream(a))
    work(b)


def null_then_blocking(order, work):
    a = order.stream()
    work(NULL), work(a)


def blocking_then_null(order, work):
    a = order.stream()
    work(a), work(NULL)


def null_then_non_blocking(order, work):
    a = order.stream(False)
    work(NULL), work(a)


def null_between(order, work):
    a, b = order.stream(), order.stream()
    work(a)
    order.record(order.event(), NULL)  # the mark comes after the one, and before the other
    work(b)


def event_of_the_null_stream(order, work):
    a, b, e = order.stream(), order.stream(False), order.event()
    work(a)
    order.record(e, NULL)
    order.wait_event(b, e)
    work(b)


CERTAIN = [
    one_stream,
    event,
    through_a_third,
    host_waits,
    null_then_blocking,
    blocking_then_null,
    event_of_the_null_stream,
    null_between,
]
OPEN = [
    two_streams,
    event_before_the_work,
    event_never_recorded,
    waited_for_before_recorded,
    null_then_non_blocking,
]


@pytest.mark.parametrize("steps", [*CERTAIN, *OPEN])
def test_what_is_certain(steps):
    assert ordered(steps) == (steps in CERTAIN)


def test_work_of_the_null_stream_separates_what_is_before_from_what_is_after():
    order = Order()
    a, b = order.stream(), order.stream()
    first = order.issue(COMPUTE, 1, a)
    order.issue(COMPUTE, 1, NULL)
    assert order.issue(COMPUTE, 1, b).before >> first.number & 1


@pytest.mark.parametrize(
    ("first", "second", "race"),
    [
        (Access("x", 0, 8, True), Access("x", 4, 12, False), True),
        (Access("x", 0, 8, False), Access("x", 4, 12, True), True),
        (Access("x", 0, 8, False), Access("x", 0, 8, False), False),
        (Access("x", 0, 8, True), Access("x", 8, 16, True), False),
        (Access("x", 0, 8, True), Access("y", 0, 8, True), False),
    ],
)
def test_what_is_not_ordered_races_where_bytes_are_shared_and_one_stores(first, second, race):
    order = Order()
    a, b = order.stream(False), order.stream(False)
    list(order.races(order.issue(COMPUTE, 1, a, accesses=(first,))))
    assert bool(list(order.races(order.issue(COMPUTE, 1, b, accesses=(second,))))) == race


def test_engines_work_at_the_same_time_and_each_does_one_thing():
    order = Order()
    a, b = order.stream(False), order.stream(False)
    for stream in (a, b, a):
        order.issue(IN, 10, stream)
        order.issue(COMPUTE, 20, stream)
        order.issue(OUT, 5, stream)
    times = [(o.start, o.finish) for o in order.operations if order.end()]
    assert times[:6] == [(0, 10), (10, 30), (30, 35), (10, 20), (30, 50), (50, 55)]
    assert times[6:] == [(35, 45), (50, 70), (70, 75)] and order.end() == 75


def test_while_the_host_waits_nothing_is_asked_for():
    order = Order()
    a, b = order.stream(False), order.stream(False)
    first = order.issue(IN, 10, a, line=1)
    order.wait([first.number], line=2)
    second = order.issue(COMPUTE, 10, b, line=3)
    assert order.end() == 20 and (second.start, second.finish) == (10, 20)
    (earlier, later, edge), *_ = order.critical()
    assert (earlier, later) == (first, second) and (edge.how, edge.line) == ("host", 2)


def test_what_waits_leaves_its_engine_to_others():
    order = Order()
    a, b, e = order.stream(False), order.stream(False), order.event()
    order.issue(COMPUTE, 50, a)
    order.record(e, a)
    order.wait_event(b, e)
    late, early = order.issue(IN, 10, b), order.issue(IN, 10, order.stream(False))
    assert order.end() == 60 and late.start == 50 and early.start == 0
