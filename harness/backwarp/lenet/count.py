"""What a training step moves: one step with few images, counted on the virtual GPU, kernel by kernel."""

from __future__ import annotations

from collections.abc import Mapping

from backwarp.reference import lenet

from ..devices import open_device
from .choices import Choice
from .data import Data
from .kernels import Kernels
from .model import LeNet

IMAGES = 8  # the bytes grow with the batch, but so does the time to count them


def counted_step(choices: Mapping[str, Choice], functions: Mapping, data: Data) -> dict[str, int]:
    """Bytes of global memory by kernel in one step of IMAGES images: forward, backward, update.

    functions: a program's. Errors: BackwarpError if the virtual GPU cannot run a kernel.
    """
    with open_device("cpu", checks="count") as device:
        device.quick = True
        net = LeNet(device, Kernels(device, choices), functions, lenet.initial(0))
        net.load(data.train_images[:IMAGES], data.train_labels[:IMAGES])
        net.forward()
        net.backward()
        net.program["update"](net, net.program["learning_rate"](0, 2))
        return net.moved()


def comparison(
    choices: Mapping[str, Choice], usual: Mapping[str, Choice], functions: Mapping, data: Data
) -> dict:
    """The bytes of a step with these kernels and with the usual ones, for the summary of a training run."""
    return {
        "images": IMAGES,
        "bytes": counted_step(choices, functions, data),
        "usual_bytes": counted_step(usual, functions, data),
        "replaced": [role for role, choice in choices.items() if choice.kernel != usual[role].kernel],
    }
