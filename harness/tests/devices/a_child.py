"""A child process for test_child.py."""

import operator
import threading

from harness.devices.child import attach, serve
from harness.errors import DeviceError


def fail(text: str) -> None:
    raise DeviceError(text)


channel = attach()
serve(
    channel,
    {
        "divide": operator.truediv,
        "fail": fail,
        "wait": threading.Event().wait,
        "ask": lambda verb, value: channel.ask(verb, (value,)),
    },
)
