"""Messages of the protocol, also from what does not speak it."""

from __future__ import annotations

import io

import pytest

from backwarp.dap.wire import LONGEST, Garbled, Inbox, framed, receive

from .client import Editor

REQUEST = {"seq": 1, "type": "request", "command": "threads"}


def body(data: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(data), data)


def test_messages_follow_one_another():
    written = [REQUEST, {"text": "größer\r\n\r\n"}]
    stream = io.BytesIO(b"".join(map(framed, written)) + framed(REQUEST)[:-1])
    assert [receive(stream), receive(stream), receive(stream)] == [*written, None]


@pytest.mark.parametrize("header", [b"content-length:60\r\nOther: x", b"X:\nContent-Length: 60"])
def test_a_header_may_have_more(header):
    data = framed(REQUEST).partition(b"\r\n\r\n")[2].ljust(60)
    assert receive(io.BytesIO(header + b"\r\n\r\n" + data)) == REQUEST


@pytest.mark.parametrize(
    ("data", "lost"),
    [
        (b"hello\n" * 50, True),
        (b"A" * 100_000, True),
        (b"Content-Length: many\r\n\r\n{}", True),
        (b"Content-Length: -2\r\n\r\n{}", True),
        (b"Content-Length: %d\r\n\r\n{}" % (LONGEST + 1), True),
        (body(b"{abc}"), False),
        (body(b"\xff\xff"), False),
        (body(b"[" * 100_000), False),
        (body(b"[]"), False),
    ],
)
def test_what_is_no_message_is_said(data, lost):
    stream = io.BytesIO(data + framed(REQUEST))
    with pytest.raises(Garbled) as found:
        receive(stream)
    assert found.value.lost == lost and (lost or receive(stream) == REQUEST)


def test_the_end_interrupts_what_runs():
    inbox = Inbox(io.BytesIO())
    assert list(inbox) == []
    with pytest.raises(KeyboardInterrupt), inbox.running():
        raise AssertionError("it began")


@pytest.mark.parametrize("way", ["closes", "disconnect"])
def test_an_editor_may_leave_while_a_kernel_runs(way, runtime, tmp_path):
    path = tmp_path / "endless.cu"
    path.write_text("__global__ void f(volatile int* x) { while (x[0] == 0); }")
    with Editor() as editor:
        arguments = {"file": str(path), "args": ["f", "--arg", "x=zeros:1:int32", "--seconds", "60"]}
        editor.send({"seq": 1, "type": "request", "command": "launch", "arguments": arguments})
        if way == "disconnect":
            editor.send({"seq": 2, "type": "request", "command": "disconnect"})
            answers = [editor.receive(), editor.receive()]
            assert [(a["command"], a["success"]) for a in answers] == [
                ("launch", False),
                ("disconnect", True),
            ]
        assert editor.ends() == 0


def test_a_client_that_cannot_be_followed_ends_it():
    with Editor() as editor:
        editor.process.stdin.write(b"GET / HTTP/1.1\r\n" * 40)
        editor.process.stdin.flush()
        assert not editor.receive()["success"] and editor.ends() == 2
        assert editor.process.stderr.read() == b""
