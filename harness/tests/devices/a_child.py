"""A child process for test_child.py."""

import operator

from harness.devices.child import attach, serve
from harness.errors import DeviceError


def fail(text: str) -> None:
    raise DeviceError(text)


line = attach()
serve(line, {"divide": operator.truediv, "fail": fail, "ask": lambda verb, value: line.ask(verb, (value,))})
