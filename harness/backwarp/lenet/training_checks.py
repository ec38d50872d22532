"""Grades puzzle 38: compares rates, updates, losses and parameters of a training with the float64 LeNet.

Works like `checks` for puzzle 37.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from backwarp.reference import lenet, optim
from backwarp.reference.lenet import PARAMETERS

from ..course.declare import Case, Mistake
from ..course.inputs import derive_seed
from ..grading import sentences
from ..grading.verdict import Failure
from . import data
from .checks import Functions, solution_net, weigh
from .model import LeNet
from .train import Settings, batches

PEAK, MOMENTUM, WEIGHT_DECAY = 0.02, 0.9, 0.001  # the lesson's numbers
#: of the norm of an array after a few steps: where a ReLU or a maximum switches, float32 and float64 take different ways
APART = 0.05


def check_training(
    functions: Functions, case: Case, device, seed: int, mistakes: Sequence[Mistake] = ()
) -> Failure | None:
    """Runs the check that the case's name selects: the rate, one update, a few steps, the accuracy, or
    everything."""
    checks = {
        "learning_rate": check_rate,
        "update": check_update,
        "six_steps": check_steps,
        "own_steps": check_steps,
        "accuracy": check_accuracy,
        "overfit": check_overfit,
        "train": check_curve,
    }
    check = next(check for name, check in checks.items() if case.name.startswith(name))
    return check(functions, case, device, seed, mistakes)


def schedule(step: int, steps: int) -> float:
    """The learning rate that puzzle 38 asks for."""
    warm_up = max(1, steps // 10)
    if step < warm_up:
        return PEAK * (step + 1) / warm_up
    return PEAK * (1 + np.cos(np.pi * (step - warm_up) / (steps - warm_up))) / 2


def rates_of(steps: int) -> list[float]:
    """The learning rate of every step."""
    return [schedule(step, steps) for step in range(steps)]


class Updates:
    """The numbers of every update of a parameter, by its name."""

    def __init__(self, net: LeNet):
        self.numbers: dict[str, list] = {name: [] for name in PARAMETERS}
        net.watch = self

    def __call__(self, kernel: str, arrays: tuple, numbers: Mapping[str, float]) -> None:
        if kernel == "sgd_step":
            self.numbers.setdefault(arrays[0].name, []).append(numbers)

    def clearest(self, rates: Sequence[float], found: Failure | None) -> Failure | None:
        """What was found, if it names a mistake; else numbers that are wrong, as they are the cause."""
        named = found and (found.mistake or found.kind != "wrong")
        return found if named else self.wrong(rates) or found

    def wrong(self, rates: Sequence[float]) -> Failure | None:
        """The first update that has other numbers than the rate of its step, MOMENTUM and WEIGHT_DECAY."""
        for name, found in self.numbers.items():
            for step, (got, rate) in enumerate(zip(found, rates)):
                right = dict(learning_rate=rate, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)
                wrong = (
                    n for n, value in right.items() if not math.isclose(got.get(n, 0), value, rel_tol=1e-6)
                )
                if n := next(wrong, ""):
                    line = f"The update of net.{name} in step {step} has {n} = {got.get(n, 0):.6g}, expected {right[n]:.6g}."
                    return Failure("wrong", [line])
            if len(found) != len(rates):
                return Failure("wrong", [f"net.{name} is updated {len(found)} times in {len(rates)} steps."])
        return None


def check_rate(functions, case, device, seed, mistakes) -> Failure | None:
    """learning_rate(step, steps) for every step, against the formula."""
    steps = case.dims["steps"]
    expected = np.array(rates_of(steps))
    rates = []
    for step in range(steps):
        rate = functions["learning_rate"](step, steps)
        if not is_number(rate):
            return Failure(
                "wrong", [f"learning_rate({step}, {steps}) returns {shown(rate)}, which is not a number."]
            )
        rates.append(float(rate))
    return compared_rates(np.array(rates), expected, steps, mistakes)


def compared_rates(rates, expected, steps, mistakes) -> Failure | None:
    """The first step whose rate is wrong, and the mistake that has the same rates."""
    wrong = np.flatnonzero(~(np.abs(rates - expected) <= 1e-9))
    if not wrong.size:
        return None
    first = wrong[0]
    line = (
        f"learning_rate({first}, {steps}) returns {rates[first]:.6g}, expected {expected[first]:.6g}"
        f"   ({wrong.size} of {steps} steps differ)"
    )
    steps_ = np.arange(steps, dtype=float)
    for m in mistakes:
        if m.computes and m.kernel == "learning_rate":
            values = m.computes({"step": steps_, "right": expected}, {"steps": steps})
            if np.allclose(values, rates, rtol=1e-9, atol=1e-12):
                return Failure("wrong", [line, m.says], m.name, m.hint)
    return Failure("wrong", [line])


def check_update(functions, case, device, seed, mistakes) -> Failure | None:
    """update(net, rate) on random parameters, velocities and gradients."""
    random = np.random.default_rng(derive_seed(seed, "38", case.name))
    net = solution_net(device, functions, {n: random.standard_normal(s) for n, s in PARAMETERS.items()})
    before = {}
    for name, shape in PARAMETERS.items():
        for kind in ("velocity", "grad"):
            net[f"{kind}_{name}"].set(random.standard_normal(shape).astype(np.float32))
        before[name] = [net[n].get().astype(np.float64) for n in (name, f"velocity_{name}", f"grad_{name}")]
    rate, updates = random.uniform(0.03, 3), Updates(net)
    functions["update"](net, rate)
    for name, arrays in before.items():
        right = optim.sgd(*arrays, rate, MOMENTUM, WEIGHT_DECAY)
        for part, expected in zip((name, f"velocity_{name}"), right):
            wrong = weigh(part, net[part].get(), expected)
            if wrong:
                return updates.clearest([rate], explained_update(net, name, arrays, rate, wrong, mistakes))
    return updates.wrong([rate])


def explained_update(net, name, arrays, rate, wrong, mistakes) -> Failure:
    """What is wrong with the first wrong array after an update of the parameter `name`."""
    if np.array_equal(net[name].get(), arrays[0].astype(np.float32)):
        return Failure("unwritten", [f"update(net, rate) leaves net.{name} unchanged."])
    known = dict(zip(("weights", "velocity", "gradient"), arrays))
    for m in mistakes:
        if (
            m.computes
            and m.kernel == "update"
            and weigh(name, net[name].get(), m.computes(known, {"rate": rate})) is None
        ):
            return Failure("wrong", [*sentences.mismatch([wrong])[:1], m.says], m.name, m.hint, [wrong])
    lines = [*sentences.mismatch([wrong]), "It is the first wrong array after update(net, rate)."]
    return Failure("wrong", lines, mismatches=[wrong])


def check_steps(functions, case, device, seed, mistakes) -> Failure | None:
    """train(net, batches) against the float64 trainer: the loss of every step, then the parameters."""
    digits, count, size = data.load("digits"), case.dims["steps"], case.dims["batch"]
    start = lenet.initial(seed)
    # the last batch is smaller
    chosen = [slice(i * size, i * size + size - (i == count - 1)) for i in range(count)]
    pairs = [(digits.train_images[c], digits.train_labels[c]) for c in chosen]
    net = solution_net(device, functions, start)
    updates = Updates(net)
    losses = functions["train"](net, pairs)
    p, expected = numpy_losses(start, pairs)
    finding = wrong_losses(losses, expected, {"start": start, "pairs": pairs}, mistakes)
    if finding := updates.clearest(rates_of(count), finding):
        return finding
    for name, right in p.items():
        got = net[name].get()
        near = np.linalg.norm(got - right) <= APART * np.linalg.norm(right)
        wrong = None if near else weigh(name, got, right)
        if wrong:
            says = f"The losses are right, but not net.{name} after step {count}."
            return Failure("wrong", [*sentences.mismatch([wrong]), says], mismatches=[wrong])
    return None


def numpy_losses(start, pairs, rates: Sequence[float] | None = None) -> tuple[dict, list[float]]:
    """(parameters and velocities after training on the pairs in NumPy, the losses); rates: the schedule's if None."""
    p = {name: values.astype(np.float64) for name, values in start.items()}
    rates = rates_of(len(pairs)) if rates is None else rates
    velocity: dict = {}
    losses = list(lenet.train(p, pairs, rates, MOMENTUM, WEIGHT_DECAY, velocity))
    return p | {f"velocity_{name}": values for name, values in velocity.items()}, losses


def wrong_losses(losses: object, expected: Sequence[float], known: dict, mistakes) -> Failure | None:
    """The list that train returned, loss by loss."""
    if finding := no_losses(losses, len(expected)):
        return finding
    found = np.array([float(loss) for loss in losses])

    def same(right) -> bool:
        return np.allclose(found, right, rtol=1e-4, atol=0)

    if same(expected):
        return None
    step = int(np.argmin(np.isclose(found, expected, rtol=1e-4, atol=0)))
    line = f"The loss of step {step} is {found[step]:.6g}, expected {expected[step]:.6g}."
    for m in mistakes:
        if m.computes and m.kernel == "train" and same(m.computes(known, {})):
            return Failure("wrong", [line, m.says], m.name, m.hint)
    return Failure("wrong", [line, "Look at the order of load, forward, backward, update and the loss."])


def no_losses(losses: object, count: int) -> Failure | None:
    """The finding if train did not return a number for every batch."""
    try:
        found = [float(loss) for loss in losses]
    except (TypeError, ValueError, OverflowError):
        return Failure("wrong", [f"train returns {shown(losses)}; it has to return a list of numbers."])
    if len(found) != count:
        return Failure("wrong", [f"train returns {len(found)} losses for {count} batches."])
    return None


def no_share(share: object) -> Failure | None:
    """The finding if accuracy did not return a number."""
    if is_number(share):
        return None
    return Failure("wrong", [f"accuracy returns {shown(share)}, which is not a number."])


def is_number(value: object) -> bool:
    try:
        return isinstance(value, (int, float, np.number)) and float(value) is not None
    except (TypeError, OverflowError):
        return False


def shown(value: object) -> str:
    """A value from the student's program, for a message."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return "a very large number"
    return text if len(text) < 60 else f"a {type(value).__name__}"


def check_accuracy(functions, case, device, seed, mistakes) -> Failure | None:
    """accuracy(net, batches) of a net that knows a little; the last batch is smaller."""
    digits, size = data.load("digits"), case.dims["batch"]
    start = quick_parameters()
    net = solution_net(device, functions, start)
    images, labels = (a[: case.dims["images"]] for a in (digits.test_images, digits.test_labels))
    pairs = [(images[i : i + size], labels[i : i + size]) for i in range(0, len(labels), size)]
    got = functions["accuracy"](net, pairs)
    right = lenet.forward(start, images)["logits"].argmax(1) == labels
    if finding := no_share(got):
        return finding
    if abs(got - right.mean()) < 1e-6:
        return None
    line = (
        f"accuracy returns {got:.6g}, expected {right.mean():.6g}: {right.sum()} of {right.size} are right."
    )
    parts = [right[i : i + size] for i in range(0, len(labels), size)]
    known = {"right": right, "batches": parts}
    for m in mistakes:
        if m.computes and m.kernel == "accuracy" and abs(m.computes(known, {}) - got) < 1e-6:
            return Failure("wrong", [line, m.says], m.name, m.hint)
    return Failure("wrong", [line])


@lru_cache(maxsize=1)
def quick_parameters() -> dict[str, np.ndarray]:
    """The parameters of a LeNet that has seen a few digits: some of its answers are right."""
    digits = data.load("digits")
    p = {name: values.astype(np.float64) for name, values in lenet.initial(0).items()}
    pair = digits.train_images[:40], digits.train_labels[:40]
    list(lenet.train(p, [pair] * 12, [0.01] * 12))
    return p


def check_overfit(functions, case, device, seed, mistakes) -> Failure | None:
    """Learns ten digits, one of each class, by heart; every file starts from the same parameters, since
    training depends on luck."""
    digits, steps = data.load("digits"), case.dims["steps"]
    chosen = [int(np.flatnonzero(digits.train_labels == label)[0]) for label in range(10)]
    pair = digits.train_images[chosen], digits.train_labels[chosen]
    net = solution_net(device, functions, lenet.initial())
    updates = Updates(net)
    losses = functions["train"](net, [pair] * steps)
    if finding := no_losses(losses, steps) or updates.wrong(rates_of(steps)):
        return finding
    share = functions["accuracy"](net, [pair])
    if finding := no_share(share):
        return finding
    learned = lenet.forward(parameters(net), pair[0])["logits"]
    loss = max(float(losses[-1]), lenet.loss.mean_cross_entropy(learned, pair[1]))
    share = min(share, (learned.argmax(1) == pair[1]).mean())
    if share == 1 and loss < 0.05:
        return None
    return Failure(
        "wrong",
        [
            f"After {steps} steps on the same 10 images the loss is {loss:.3g}, "
            f"and {10 * share:.0f} of 10 are right.",
            "LeNet can learn 10 images by heart; a loss below 0.05 was expected.",
        ],
    )


def parameters(net: LeNet) -> dict[str, np.ndarray]:
    """The trained parameters, so that grading does not rely only on what the program reports."""
    return {name: net[name].get().astype(np.float64) for name in PARAMETERS}


def check_curve(functions, case, device, seed, mistakes) -> Failure | None:
    """A few epochs on the digits: the loss falls, and images that LeNet has not seen are recognised.

    Every file has the same start and order, since the result of two epochs depends on luck too.
    """
    digits, epochs = data.load("digits"), case.dims["epochs"]
    settings = Settings(epochs=epochs, batch=case.dims["batch"])
    pairs = [pair for epoch in range(epochs) for pair in batches(digits, settings, epoch)]
    size, labels = settings.batch, digits.test_labels
    test = [(digits.test_images[i : i + size], labels[i : i + size]) for i in range(0, len(labels), size)]
    net = solution_net(device, functions, lenet.initial())
    updates, steps = Updates(net), len(pairs)
    losses = functions["train"](net, pairs)
    if finding := no_losses(losses, steps) or updates.wrong(rates_of(steps)):
        return finding
    share = functions["accuracy"](net, test)
    if finding := no_share(share):
        return finding
    learned = parameters(net)
    each = np.array([float(loss) for loss in losses]).reshape(epochs, -1).mean(1)
    share = min(share, (lenet.forward(learned, digits.test_images)["logits"].argmax(1) == labels).mean())
    last = max(each[-1], mean_loss(learned, digits))
    if share >= 0.85 and last < each[0] / 2:
        return None
    curve = ", ".join(f"{loss:.3g}" for loss in (*each[:-1], last))
    return Failure(
        "wrong",
        [
            f"Test accuracy {share:.1%} after {epochs} epochs; 85 % was expected. "
            f"Mean loss of each epoch: {curve}."
        ],
    )


def mean_loss(p: dict[str, np.ndarray], digits: data.Data) -> float:
    """The mean loss over a quarter of the training images."""
    return lenet.loss.mean_cross_entropy(
        lenet.forward(p, digits.train_images[::4])["logits"], digits.train_labels[::4]
    )
