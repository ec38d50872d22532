"""A child process for test_child.py."""

import operator
import threading
import time

from backwarp.devices.child import attach, serve
from backwarp.errors import DeviceError


def fail(text: str) -> None:
    raise DeviceError(text)


def work(seconds: float) -> None:
    """Uses so much processor time."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


channel = attach()
serve(
    channel,
    {
        "divide": operator.truediv,
        "fail": fail,
        "work": work,
        "wait": threading.Event().wait,
        "ask": lambda verb, value: channel.ask(verb, (value,)),
    },
)
