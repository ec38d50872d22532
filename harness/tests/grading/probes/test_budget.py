import pytest

from backwarp.devices.child import Child
from backwarp.grading.probes import budget


def spends(count: int, most: int = 1000) -> int:
    """How often so much can be spent."""
    left, done = budget.Budget(most), 0
    with pytest.raises(budget.Spent):
        while True:
            left.spend(count)
            done += 1
    return done


def test_what_is_tried_is_counted():
    assert spends(1) == 1000 and spends(7) == 142


def test_a_slow_machine_tries_as_much(monkeypatch):
    now = iter(range(10**6))
    monkeypatch.setattr(Child, "spent_by_all", lambda: next(now) * budget.SECONDS / 100)
    assert spends(1) == 1000


def test_what_never_ends_is_ended(monkeypatch):
    now = iter(range(10**6))
    monkeypatch.setattr(Child, "spent_by_all", lambda: next(now) * budget.SECONDS)
    assert spends(0) == 2 * budget.OFTEN - 1


def test_what_is_spent_stays_spent():
    left = budget.Budget(1)
    for _ in range(2):
        with pytest.raises(budget.Spent):
            left.spend(2)
