"""Grades puzzle 37: compares every value and gradient of a step with the float64 LeNet.

The checks run the student's functions on the solutions' kernels, so that anything wrong is in the Python
file. They return a Failure, or None if all is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from backwarp.reference import lenet
from backwarp.reference.lenet import PARAMETERS

from .. import CHECKOUT
from ..course.checkout import GRADED, Course, open_course
from ..course.declare import Case, In, Mistake
from ..course.inputs import derive_seed
from ..course.progress import Progress
from ..errors import LaunchMistake
from ..grading import sentences
from ..grading.compare import Expected, Mismatch, compare
from ..grading.verdict import Failure
from . import data
from .choices import ROLES, Choice, choose
from .kernels import Kernels
from .model import AXES, INPUTS, PARAMETER_AXES, VALUES, LeNet
from .program import STEP, choose_program

RTOL = 1e-4  # of the largest element of an array; float32 LeNets are within 2e-6 (tests/lenet/test_model.py)

NEAR = 5e-7  # of the largest element of an array: what float32 may not distinguish from 0
DRAWN = 50  # starts at most, until one is settled

FORWARD = [name for name in (*VALUES, "loss") if name not in INPUTS]
#: the gradients, in the order in which they can be computed
BACKWARD = list(lenet.step_values(lenet.initial(), np.zeros((1, 1, 28, 28)), [0]))[len(FORWARD) + 1 :]

Functions = Mapping[str, Callable]


def check_step(
    functions: Functions, case: Case, device, seed: int, mistakes: Sequence[Mistake] = ()
) -> Failure | None:
    """forward(net) and backward(net), array by array in the order in which they are computed."""
    start, images, labels = step_inputs(case, seed)
    net = solution_net(device, functions, start)
    net.load(images, labels)
    expected = lenet.step_values(start, images, labels)
    known = {**expected, **start, "labels": labels}
    watch, net.loads = Watch(net), False
    for function, names in (("forward", FORWARD), ("backward", BACKWARD)):
        functions[function](net)
        for name in names:
            if name not in watch.written:
                return Failure("unwritten", [f"No launch in {function} stores net.{name}.", told(name)])
            wrong = weigh(name, net[name].get(), expected[name])
            if wrong:
                return explained_step(net, watch, name, wrong, known, mistakes)
    if case.check == "gradient":
        return check_differences(net, start, images, labels, seed)
    return None


def step_inputs(case: Case, seed: int):
    """(parameters, images, labels) of a case. dims: batch; parameters 0: all zero; digits 1: real ones."""
    random = np.random.default_rng(derive_seed(seed, "37", case.name))
    batch = case.dims["batch"]
    labels = random.permutation(np.arange(max(batch, 10)) % 10)[:batch]
    if case.dims.get("digits"):
        digits = data.load("digits")
        chosen = random.permutation(len(digits.train_labels))[:batch]
        images, labels = digits.train_images[chosen], digits.train_labels[chosen]
    else:
        images = random.standard_normal((batch, 1, 28, 28)).astype(np.float32)
    for _ in range(DRAWN):
        start = {}
        for name, values in lenet.initial(int(random.integers(1 << 30))).items():
            noise = 0.1 * random.standard_normal(values.shape) if name.endswith("bias") else 0
            start[name] = ((values + noise) * case.dims.get("parameters", 1)).astype(np.float32)
        if is_settled(lenet.forward(start, images)):
            break
    return start, images, labels


def is_settled(values: Mapping[str, np.ndarray]) -> bool:
    """Whether float32 has the same signs before every ReLU, and the same maxima: where not, a right step may differ."""
    margins = {name: np.abs(values[name]) for name in ("conv1", "conv2", "fc1", "fc2")}
    for name in ("relu1", "relu2"):
        b, c, h, w = values[name].shape
        windows = values[name].reshape(b, c, h // 2, 2, w // 2, 2).swapaxes(3, 4).reshape(-1, 4)
        margins[name] = np.diff(np.sort(windows)[:, 2:])
    return not any(((0 < m) & (m < NEAR * np.abs(values[n]).max())).any() for n, m in margins.items())


class Watch:
    """Checks every launch before it happens: reads of arrays that were never written, stores to inputs."""

    def __init__(self, net: LeNet):
        self.net, self.written = net, {}  # array -> the kernel that stored it last
        self.given = {*INPUTS, *PARAMETERS}
        net.watch = self

    def __call__(self, kernel: str, arrays: tuple, numbers: Mapping[str, float]) -> None:
        declared = self.net.kernels.choices[kernel].home.arrays
        for p, array in zip(declared, arrays):
            name = array.name
            if not p.is_output and name not in self.written and name not in self.given:
                raise LaunchMistake(f"{kernel} reads net.{name} as {p.name}, but no launch has stored it yet")
            if p.is_output and name in self.given:
                raise LaunchMistake(f"{kernel} would store its {p.name} in net.{name}, which is an input")
        for p, array in zip(declared, arrays):
            if p.is_output:
                self.written[array.name] = kernel


def told(name: str) -> str:
    """A sentence about what an array is."""
    if not name.startswith("grad_"):
        return f"The table in the lesson says what net.{name} is."
    return f"It is the gradient of the loss with respect to {name.removeprefix('grad_')}."


def weigh(name: str, got: np.ndarray, expected: np.ndarray, parameter: bool | None = None) -> Mismatch | None:
    """How an array differs from the reference, or None. parameter: whether it has a parameter's axes; None:
    decided by name."""
    own = name.removeprefix("grad_").removeprefix("velocity_")
    parameter = own in PARAMETERS if parameter is None else parameter
    axes = (PARAMETER_AXES if parameter else AXES)[expected.ndim]
    array = In(name, **{letter: letter for letter in axes})
    size = np.abs(expected)
    tolerance = 0.0 if got.dtype.kind == "i" else RTOL * size.max(initial=0.0) + 1e-7
    target = Expected(array, expected.astype(np.float64), np.full(expected.shape, tolerance), size)
    return compare(target, got, np.full_like(got, np.nan if got.dtype.kind == "f" else 0x7F7F7F7F))


def explained_step(net, watch, name, wrong, known, mistakes) -> Failure:
    """The first wrong array: how it differs, who stored it, and the mistake that computes the same."""
    lines = [*sentences.mismatch([wrong]), f"It is the first wrong array; {watch.written[name]} stored it."]
    for m in (m for m in mistakes if m.computes):
        with np.errstate(all="ignore"):
            values = m.computes(known, {})
        if name in values and weigh(name, net[name].get(), values[name]) is None:
            return Failure("wrong", [*lines[:1], m.says], m.name, m.hint, [wrong])
    return Failure("wrong", lines, mismatches=[wrong])


def check_differences(net: LeNet, start, images, labels, seed: int, epsilon: float = 1e-5) -> Failure | None:
    """Compares three elements of every parameter's gradient with central differences of the float64 loss.

    Where the slopes on the two sides differ, a ReLU or a maximum switches, and there is no gradient to
    compare.
    """
    random = np.random.default_rng(derive_seed(seed, "differences"))
    for name, shape in PARAMETERS.items():
        gradient = net[f"grad_{name}"].get()
        for _ in range(3):
            index = tuple(random.integers(0, shape))
            losses = []
            for sign in (-1, 0, 1):
                moved = {**start, name: start[name].astype(np.float64)}
                moved[name][index] += sign * epsilon
                losses.append(lenet.loss.mean_cross_entropy(lenet.forward(moved, images)["logits"], labels))
            left, right = np.diff(losses) / epsilon
            slope, room = (left + right) / 2, 1e-3 * max(abs(left), abs(right), 1e-2 * np.abs(gradient).max())
            if abs(gradient[index] - slope) > room > abs(left - right):
                where = ",".join(f"{a}={i}" for a, i in zip(PARAMETER_AXES[len(shape)], index))
                return Failure(
                    "wrong",
                    [f"grad_{name}[{where}] = {gradient[index]:.6g}; finite differences give {slope:.6g}."],
                )
    return None


# ---- LeNet on the solutions ------------------------------------------------------------------------------
# A student's course has no solutions: there it runs on the student's own files, which must have passed.


def solution_net(device, functions: Functions, start: Mapping[str, np.ndarray]) -> LeNet:
    """A LeNet on the solutions' kernels, with the solution's functions wherever the student's file has
    none."""
    program = {**other_functions("forward" in functions), **functions}
    start = {name: np.asarray(values, np.float32) for name, values in start.items()}
    return LeNet(device, solution_kernels(device), program, start)


def other_functions(steps: bool) -> Functions:
    """The functions a file does not define. steps: it has puzzle 37's functions."""
    course = this_course()
    if course.has_solutions:
        return choose_program(course, {}, mine=False).functions
    return {} if steps else choose_program(course, Progress(course.root).all(), numbers=(STEP,)).functions


@lru_cache(maxsize=1)
def solution_kernels(device) -> Kernels:
    return Kernels(device, chosen_kernels())


def quick_kernels(device) -> Kernels:
    """The same for a few steps: compiling them takes longer than running them."""
    device.quick = True
    return solution_kernels(device)


def chosen_kernels(roles: Iterable[str] = tuple(ROLES)) -> dict[str, Choice]:
    """The solutions' kernels; the student's own in a course without solutions."""
    course = this_course()
    if course.has_solutions:
        return choose(course, {}, mine=False, roles=roles)
    return choose(course, Progress(course.root).all(), roles=roles)


def this_course() -> Course:
    """The checkout; with an installed package, the course whose puzzle is being graded."""
    root = CHECKOUT or GRADED.get()
    return Course(root) if root else open_course()
