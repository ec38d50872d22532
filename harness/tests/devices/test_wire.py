"""Messages: whole, in order, and nobody is kept waiting."""

import socket
import threading

import pytest

from harness.devices.plain import Damaged
from harness.devices.wire import Wire


@pytest.fixture
def ends():
    a, b = socket.socketpair()
    with a, b:
        yield Wire(a), Wire(b)


def test_messages_arrive_whole_and_in_order(ends):
    ours, theirs = ends
    sent = [b"", b"one", b"two" * 9, bytes(3 << 20)]
    sender = threading.Thread(target=lambda: [ours.send(data, 60) for data in sent])
    sender.start()
    assert [theirs.receive(60) for _ in sent] == sent
    sender.join()


def test_half_a_message_is_none(ends):
    ours, theirs = ends
    theirs._end.send(bytes(7) + b"\x05half")
    with pytest.raises(TimeoutError):
        ours.receive(0.01)
    theirs.close()
    with pytest.raises(EOFError):
        ours.receive(60)


def test_what_is_announced_is_not_believed(ends):
    ours, theirs = ends
    theirs._end.send(b"\xff" * 8)
    with pytest.raises(Damaged):
        ours.receive(60)


def test_who_never_reads_keeps_nobody_waiting(ends):
    with pytest.raises(TimeoutError):
        ends[0].send(bytes(1 << 24), 0.01)
