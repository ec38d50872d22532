"""LeNet on a device: parameters, values and gradients as device arrays by name, and launches on them.

The names are those of `reference/lenet.py`. All arrays stay on the device; per step, only a batch of images
is copied there, and the loss is copied back. `net.conv1` and `net["conv1"]` are the same array.

The order of the launches is not here: it is the subject of puzzle 37, `step.py`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from backwarp.reference.lenet import PARAMETERS

from ..errors import LaunchMistake
from ..grading.programs.data import NetHandle
from .kernels import Bound, Kernels, TwoPasses
from .steps import Step, functions

#: what is computed for each image: shape and dtype, without the batch
VALUES: dict[str, tuple[tuple[int, ...], str]] = {
    "images": ((1, 28, 28), "float32"),
    "labels": ((), "int32"),
    "conv1": ((6, 24, 24), "float32"),
    "relu1": ((6, 24, 24), "float32"),
    "pool1": ((6, 12, 12), "float32"),
    "places1": ((6, 12, 12), "int32"),
    "conv2": ((16, 8, 8), "float32"),
    "relu2": ((16, 8, 8), "float32"),
    "pool2": ((16, 4, 4), "float32"),
    "places2": ((16, 4, 4), "int32"),
    "fc1": ((120,), "float32"),
    "relu3": ((120,), "float32"),
    "fc2": ((84,), "float32"),
    "relu4": ((84,), "float32"),
    "logits": ((10,), "float32"),
    "losses": ((), "float32"),
}
NO_GRADIENT = {"images", "labels", "places1", "places2", "losses"}
GRADIENTS = {f"grad_{name}": kind for name, kind in VALUES.items() if name not in NO_GRADIENT}
INPUTS = ("images", "labels")
AXES = {4: "bcpq", 3: "bpq", 2: "bo", 1: "b"}
PARAMETER_AXES = {4: "kcrs", 2: "oi", 1: "o"}

MOST_STEPS = 8  # graphs kept

Functions = Mapping[str, Callable]


class LeNet:
    """LeNet on a device. start: its initial parameters, see `reference.lenet.initial(seed)`.

    program: the functions forward(net) and backward(net) of puzzle 37, and any others that are called by
    name. timing: kernel -> [launches, seconds] so far. again: how often the launches of the current batch
    size are certain to run again.
    """

    parameters = tuple(PARAMETERS)

    def __init__(self, device, kernels: Kernels, program: Functions, start: Mapping[str, np.ndarray]):
        self.device, self.kernels, self.program = device, kernels, program
        self.timing: dict[str, list[float]] = {role: [0, 0.0] for role in kernels.choices}
        self.watch: Callable | None = (
            None  # called before each launch with the kernel's name, arrays and numbers
        )
        self.again = 0
        self.loads = True  # whether a program may load a batch
        self._bound: dict[tuple, Bound | TwoPasses] = {}
        self._waiting: list | None = None  # queued launches and their kernels' names, see `together`
        self._steps: dict[tuple, Step | None] = {}
        self._arrays = {"loss": device.empty((1,), np.float32, name="loss", axes="n")}
        self._batches: dict[int, dict] = {}
        for name, shape in PARAMETERS.items():
            axes = PARAMETER_AXES[len(shape)]
            self._arrays[name] = device.array(start[name], name=name, axes=axes)
            self._arrays[f"grad_{name}"] = device.empty(shape, np.float32, name=f"grad_{name}", axes=axes)
            zeros = np.zeros(shape, np.float32)
            self._arrays[f"velocity_{name}"] = device.array(zeros, name=f"velocity_{name}", axes=axes)

    # ---- arrays ------------------------------------------------------------------------------------------

    def load(self, images: np.ndarray, labels: np.ndarray) -> None:
        """Copies a batch to the device; from now on all values and gradients have its size.

        images (N, 1, 28, 28) float32, labels (N,) integers.
        """
        images, labels = np.asarray(images, np.float32), np.asarray(labels, np.int32)
        if images.shape[1:] != (1, 28, 28) or labels.shape != images.shape[:1] or not len(images):
            raise LaunchMistake(
                f"a batch has images (N, 1, 28, 28) and labels (N,), not {images.shape}, {labels.shape}"
            )
        if len(images) not in self._batches:
            self._batches[len(images)] = self._allocate(len(images))
        self._arrays |= self._batches[len(images)]
        self._arrays["images"].set(images)
        self._arrays["labels"].set(labels)

    def _allocate(self, batch: int) -> dict:
        """The arrays of values and gradients for a batch of this size."""
        made = {}
        for name, (shape, dtype) in {**VALUES, **GRADIENTS}.items():
            axes = AXES[1 + len(shape)]
            if name in INPUTS:
                zeros = np.zeros((batch, *shape), dtype)
                made[name] = self.device.array(zeros, name=name, axes=axes, readonly=True)
            else:
                made[name] = self.device.empty((batch, *shape), np.dtype(dtype), name=name, axes=axes)
        return made

    def __getitem__(self, name: str):
        try:
            return self._arrays[name]
        except KeyError:
            raise LaunchMistake(self._no_array(name)) from None

    def __getattr__(self, name: str):
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def _no_array(self, name: str) -> str:
        if name in VALUES or name in GRADIENTS:
            return f"net.{name} is there after net.load(images, labels)"
        known = [*VALUES, "loss", *GRADIENTS, *(n for n in self._arrays)]
        near = difflib.get_close_matches(str(name), known, n=1)
        return f"LeNet has no array {name!r}" + (f"; did you mean net.{near[0]}?" if near else "")

    # ---- launches ----------------------------------------------------------------------------------------

    def launch(self, kernel: str, *arrays, **numbers: float) -> None:
        """Launches a kernel of part 1 on device arrays, in the order of its signature, and waits.

        Sizes, grid and block follow from the arrays' shapes; numbers such as learning_rate are passed by
        name. Errors: LaunchMistake if arrays and kernel do not match, KernelFault.
        """
        key = (kernel, *map(id, arrays))
        bound = self._bound.get(key)
        if bound is None:
            bound = self._bound[key] = self.kernels.bind(kernel, arrays)
        if self.watch:
            self.watch(kernel, arrays, numbers)
        if self._waiting is None:
            self._took(kernel, bound, bound(numbers))
        else:
            bound.check(numbers)
            self._waiting.append((kernel, bound, numbers))

    def _took(self, kernel: str, bound: Bound | TwoPasses, seconds: float) -> None:
        bound.took(seconds, self.again)
        timing = self.timing[kernel]
        timing[0] += 1
        timing[1] += seconds

    @contextmanager
    def together(self) -> Iterator[None]:
        """Defers launches to the end of the block, where they run as one graph if the same launches have run
        together before.

        Call `flush` before reading an array in the meantime. Errors: KernelFault.
        """
        self._waiting = []
        try:
            yield
            self.flush()
        finally:
            self._waiting = None

    def flush(self) -> None:
        """Run the deferred launches."""
        if not self._waiting:
            return
        launches, self._waiting = self._waiting, []
        waiting = [(bound, numbers) for _, bound, numbers in launches]
        key = tuple(id(bound) for bound, _ in waiting)
        if key not in self._steps:
            if len(self._steps) == MOST_STEPS:
                self._steps.clear()
            self._steps[key] = None
            for kernel, bound, numbers in launches:
                self._took(kernel, bound, bound(numbers))
            return
        step = self._steps[key]
        if step is None or step.functions != functions(waiting):
            step = self._steps[key] = Step(self.device, waiting)
        for (kernel, bound, _), seconds in zip(launches, step.run(waiting)):
            self._took(kernel, bound, seconds)

    def compile_for_sizes(self) -> None:
        """Compiles a kernel for the sizes of every launch so far that took a millisecond, as a long training
        run does."""
        for bound in self._bound.values():
            if bound.total > 0.001:
                bound.compile_for_sizes()

    def moved(self) -> dict[str, int]:
        """Bytes of global memory by kernel, over all launches so far, if the device counts them."""
        found = dict.fromkeys(self.timing, 0)
        for (role, *_), bound in self._bound.items():
            found[role] += bound.moved
        return found

    def forward(self) -> None:
        """From the images to the logits, the losses and their mean."""
        self.program["forward"](self)

    def backward(self) -> None:
        """From the logits to the gradients of all parameters; after `forward`."""
        self.program["backward"](self)

    # ---- for a program in another process ------------------------------------------------------------------

    def handle(self) -> NetHandle:
        return NetHandle(self.parameters, self.described())

    def described(self) -> dict[str, tuple]:
        """Shape and dtype of every array."""
        return {name: (array.shape, array.dtype.name) for name, array in self._arrays.items()}

    # ---- state -------------------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """Parameters and velocities, as NumPy arrays."""
        return {name: self[name].get() for p in PARAMETERS for name in (p, f"velocity_{p}")}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Restores what `state` returned."""
        for p in PARAMETERS:
            for name in (p, f"velocity_{p}"):
                self[name].set(state[name])
