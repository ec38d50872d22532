"""What a student's program may request from LeNet, from its own process: plain data in, plain data out.

Arrays are referred to by name. Only a batch can be copied to the device, so every other array holds only what
launches have stored there. Errors of all requests: Damaged if the program's process could never send it;
LaunchMistake, KernelFault, DeviceError.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..devices.child import Damaged
from ..errors import LaunchMistake
from .model import LeNet

_LONGEST = 200  # characters of a name


def launch(net: LeNet, kernel: str, names: list[str], numbers: Mapping[str, float]) -> None:
    _expect(isinstance(names, list) and isinstance(numbers, dict))
    _expect(all(map(_is_name, (kernel, *names, *numbers))))
    _expect(all(isinstance(value, float) for value in numbers.values()))
    net.launch(kernel, *(net[name] for name in names), **numbers)


def load(net: LeNet, images: np.ndarray, labels: np.ndarray) -> dict[str, tuple]:
    """Loads a batch; returns the new result of `described`."""
    for found, dtype in ((images, np.float32), (labels, np.int32)):
        _expect(isinstance(found, np.ndarray) and found.dtype == dtype)
    if not net.loads:
        raise LaunchMistake("the batch is loaded already; net.load belongs into train and accuracy")
    net.flush()
    net.load(images, labels)
    return net.described()


def get(net: LeNet, name: str) -> np.ndarray:
    _expect(_is_name(name))
    net.flush()
    return net[name].get()


def array(net: LeNet, name: str) -> tuple:
    """An array's shape and dtype."""
    _expect(_is_name(name))
    return net.described()[net[name].name]


def forward(net: LeNet) -> None:
    net.forward()


def backward(net: LeNet) -> None:
    net.backward()


REQUESTS = {work.__name__: work for work in (launch, load, get, array, forward, backward)}


def _is_name(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST


def _expect(holds: bool) -> None:
    if not holds:
        raise Damaged
