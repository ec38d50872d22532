"""A child process for test_child.py."""

import operator

from harness.devices.child import attach, serve
from harness.errors import DeviceError


def fail(text: str) -> None:
    raise DeviceError(text)


channel = attach()
serve(
    channel,
    {"divide": operator.truediv, "fail": fail, "ask": lambda verb, value: channel.ask(verb, (value,))},
)
