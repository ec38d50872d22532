"""Grades puzzle 40: compares what operators return, and LeNet trained on them, with float64.

The student's operators run in their own process and request launches, which are made here with the solutions'
kernels: a value counts only if a kernel has stored it. The checks return a Failure, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from backwarp.reference import conv, dense, lenet, pool
from backwarp.reference.lenet import PARAMETERS

from ..course.declare import Case, Mistake
from ..course.inputs import derive_seed
from ..devices.child import Damaged
from ..grading import sentences
from ..grading.programs.data import NetHandle
from ..grading.verdict import Failure
from ..lenet import data
from ..lenet.checks import chosen_kernels, weigh
from ..lenet.training_checks import MOMENTUM, WEIGHT_DECAY, wrong_losses
from ..tensors import Launches
from .answers import VALID

RATE = 0.01
Functions = Mapping[str, Callable]


class Layer:
    """An operator's specification. inputs: names; outputs: names and the kernel of each; backward: a kernel
    for each gradient; forward(*arrays) -> the outputs; gradients(grad, *arrays) -> the inputs' gradients."""

    def __init__(self, schema: str, outputs: dict, backward: dict, forward: Callable, gradients: Callable):
        self.schema, self.outputs, self.backward = schema, outputs, backward
        self.forward, self.gradients = forward, gradients
        self.inputs = [word.split()[1] for word in schema.partition("(")[2].partition(")")[0].split(", ")]


def _conv2d_gradients(grad, x, weight, bias):
    return (
        conv.backward_input(grad, weight, x.shape),
        conv.backward_weights(grad, x, weight.shape),
        conv.backward_bias(grad),
    )


LAYERS = {
    "relu": Layer(
        "relu(Tensor x) -> Tensor",
        {"y": "relu_forward"},
        {"x": "relu_backward"},
        lambda x: (dense.relu(x),),
        lambda grad, x: (dense.relu_backward(grad, x),),
    ),
    "linear": Layer(
        "linear(Tensor x, Tensor weight, Tensor bias) -> Tensor",
        {"y": "fc_forward"},
        {"x": "fc_backward_input", "weight": "fc_backward_weights", "bias": "fc_backward_bias"},
        lambda x, weight, bias: (dense.forward(x, weight, bias),),
        lambda grad, x, weight, bias: (
            dense.backward_input(grad, weight),
            dense.backward_weights(grad, x),
            dense.backward_bias(grad),
        ),
    ),
    "conv2d": Layer(
        "conv2d(Tensor x, Tensor weight, Tensor bias) -> Tensor",
        {"y": "conv2d_forward"},
        {"x": "conv2d_backward_input", "weight": "conv2d_backward_weights", "bias": "conv2d_backward_bias"},
        lambda x, weight, bias: (conv.forward(x, weight, bias),),
        _conv2d_gradients,
    ),
    "max_pool2d": Layer(
        "max_pool2d(Tensor x) -> (Tensor, Tensor)",
        {"y": "max_pool2d_forward", "places": "max_pool2d_forward"},
        {"x": "max_pool2d_backward"},
        lambda x: pool.max_pool(x),
        lambda grad, x: (pool.max_pool_backward(grad, pool.max_pool(x)[1], x.shape),),
    ),
}
#: the kernels that a step of LeNet launches in its layers
KERNELS = sorted(
    {k for layer in LAYERS.values() for k in (*layer.outputs.values(), *layer.backward.values())}
)


# ---- launches --------------------------------------------------------------------------------------------


class Launched(Launches):
    """Launches kernels and records what they store in a case: kernel -> arrays, latest first."""

    def __init__(self, device):
        super().__init__(device, chosen_kernels(), self.note)
        self.stored: dict[str, list] = {}
        self.counts: dict[str, int] = {}

    def note(self, kernel: str, stored: Mapping[int, np.ndarray]) -> None:
        self.counts[kernel] = self.counts.get(kernel, 0) + 1
        self.stored[kernel] = [*stored.values(), *self.stored.get(kernel, [])][:16]

    def forget(self) -> None:
        self.stored, self.counts = {}, {}

    def has_stored(self, kernel: str, values: np.ndarray) -> bool:
        return any(
            a.shape == values.shape and np.array_equal(a, values, equal_nan=a.dtype.kind == "f")
            for a in self.stored.get(kernel, [])
        )

    def handle(self) -> NetHandle:
        return NetHandle((), {})


def launch(launched: Launched, kernel: str, arrays: list, numbers: dict) -> dict[int, np.ndarray]:
    """A request of the student's process. Errors: Damaged; LaunchMistake, KernelFault, DeviceError."""
    plain = isinstance(kernel, str) and isinstance(arrays, list) and isinstance(numbers, dict)
    if not plain or len(arrays) > 16 or len(kernel) > 200:
        raise Damaged
    if not all(isinstance(a, np.ndarray) and a.dtype.kind in "fiub" for a in arrays):
        raise Damaged
    if not all(isinstance(n, str) and isinstance(value, float) for n, value in numbers.items()):
        raise Damaged
    return launched(kernel, arrays, numbers)


REQUESTS = {"launch": launch}


@lru_cache(maxsize=1)
def launched_on(device) -> Launched:
    return Launched(device)


# ---- checks ----------------------------------------------------------------------------------------------


def check_layers(
    functions: Functions, case: Case, device, seed: int, mistakes: Sequence[Mistake] = ()
) -> Failure | None:
    """Runs the check that the case's name selects."""
    launched = launched_on(device)
    launched.forget()
    name = case.name.split("_by_hand")[0].removesuffix("_sizes")
    check = Check(functions["call"], launched, case, seed)
    if name in LAYERS:
        return check.layer(name)
    return getattr(check, name)()


class Check:
    """One case. call(function, launched, ...): a function of the driver."""

    def __init__(self, call: Callable, launched: Launched, case: Case, seed: int):
        self.drive, self.launched, self.case, self.seed = call, launched, case, seed
        self.random = np.random.default_rng(derive_seed(seed, "40", case.name))

    def call(self, function: str, *arguments):
        return self.drive(function, self.launched, *arguments, valid=VALID[function])

    # -- one operator

    def layer(self, name: str) -> Failure | None:
        """Checks its schema, values and gradients, also on non-contiguous arrays."""
        if finding := self.operator(name):
            return finding
        arrays = self.inputs(name)
        for apart in (False, True):
            for check in (self.values, self.gradients):
                if finding := check(name, arrays, apart):
                    return finding
        return None

    def inputs(self, name: str, dtype: str = "float32") -> list[np.ndarray]:
        """Random inputs, or 1, 2, 3 ... in the case done by hand. max_pool2d: no two elements are equal."""
        d = self.case.dims
        n, c, k, f = d["batch"], d["inputs"], d.get("outputs", 1), d.get("F", 1)
        shapes = {
            "relu": [(n, c)],
            "linear": [(n, c), (k, c), (k,)],
            "conv2d": [(n, c, d.get("H", 1), d.get("W", 1)), (k, c, f, f), (k,)],
            "max_pool2d": [(n, c, d.get("H", 1), d.get("W", 1))],
        }[name]
        if "_by_hand" in self.case.name:
            return [np.arange(1, 1 + np.prod(s)).reshape(s).astype(dtype) for s in shapes]
        return [self.random.standard_normal(s).astype(dtype) for s in shapes]

    def operator(self, name: str) -> Failure | None:
        found, wanted = self.call("schema", name), LAYERS[name].schema
        if not found:
            return Failure("signature", [f"{name} is no operator: custom_op is missing above its def."])
        if found != wanted:
            return Failure("signature", [f"The schema of {name} is {found};", f"it has to be {wanted}."])
        return None

    def values(self, name: str, arrays: Sequence, apart: bool) -> Failure | None:
        layer = LAYERS[name]
        self.launched.forget()
        applied = self.call("apply", name, arrays, None, apart)
        found = applied["outputs"]
        expected = layer.forward(*(a.astype(np.float64) for a in arrays))
        if len(found) != len(expected):
            return Failure(
                "wrong", [f"{name} returns {len(found)} tensors; it has to return {len(expected)}."]
            )
        for (output, kernel), got, right in zip(layer.outputs.items(), found, expected):
            if finding := self.compared(name, output, got, right, kernel):
                return finding
        return self.fakes(applied["fakes"])

    def fakes(self, found: Sequence) -> Failure | None:
        """Whether the operators' fakes, including backward's, describe what the operators return."""
        for operator, told, real in found:
            if told is None:
                return Failure("unwritten", [f"{operator} has no fake: {operator}.register_fake is missing."])
            for i, (says, is_) in enumerate(zip(told, real, strict=False), 1):
                if says != is_:
                    line = f"The fake of {operator} says {shape(says)} for output {i};"
                    return Failure("wrong", [line, f"the operator returns {shape(is_)}."])
            if len(told) != len(real):
                line = f"The fake of {operator} returns {len(told)} tensors, the operator {len(real)}."
                return Failure("wrong", [line])
        return None

    def gradients(self, name: str, arrays: Sequence, apart: bool) -> Failure | None:
        layer = LAYERS[name]
        output = layer.forward(*arrays)[0].shape
        grad = self.random.standard_normal(output).astype(np.float32)
        if "_by_hand" in self.case.name:
            grad = np.arange(1, 1 + grad.size, dtype=np.float32).reshape(output)
        self.launched.forget()
        applied = self.call("apply", name, arrays, grad, apart)
        found = applied["gradients"]
        if found is None:
            return Failure("unwritten", [f"Nothing flows back through {name}: register_autograd is missing."])
        expected = layer.gradients(grad.astype(np.float64), *(a.astype(np.float64) for a in arrays))
        for input_, got, right in zip(layer.inputs, found, expected, strict=True):
            if got is None:
                return Failure("unwritten", [f"The backward of {name} returns no gradient of {input_}."])
            kernel = layer.backward[input_]
            if finding := self.compared(name, f"grad_{input_}", got, right, kernel):
                return finding
        return self.fakes(applied["fakes"])

    def compared(self, operator: str, name: str, got, expected, kernel: str) -> Failure | None:
        """Checks that a result is right, and was stored by the kernel."""
        if not isinstance(got, np.ndarray) or got.shape != expected.shape:
            found = got.shape if isinstance(got, np.ndarray) else type(got).__name__
            return Failure(
                "wrong", [f"{operator}: the shape of {name} is {found}; it has to be {expected.shape}."]
            )
        if wrong := weigh(name, got, np.asarray(expected), name in ("grad_weight", "grad_bias")):
            lines = sentences.mismatch([wrong])
            return Failure("wrong", [f"{operator}: {lines[0]}", *lines[1:]], mismatches=[wrong])
        if not self.launched.has_stored(kernel, got):
            says = f"{operator}: {name} is right, but no launch of {kernel} has stored it."
            return Failure("launch", [says, "The operator has to return what its kernel stores."])
        return None

    # -- all operators

    def each(self, check: Callable) -> Failure | None:
        for name in LAYERS:
            if finding := self.operator(name) or check(name):
                return finding
        return None

    def opcheck(self) -> Failure | None:
        return self.each(self.checked)

    def checked(self, name: str) -> Failure | None:
        for test, result in self.call("opcheck", name, self.inputs(name)).items():
            if result != "SUCCESS":
                told = " ".join(str(result).split())[:300]
                return Failure("wrong", [f"torch.library.opcheck({name}, ...): {test} fails.", told])
        return None

    def gradcheck(self) -> Failure | None:
        return self.each(self.differenced)

    def differenced(self, name: str) -> Failure | None:
        told = self.call("gradcheck", name, self.inputs(name, "float64"))
        return (
            Failure("wrong", [f"torch.autograd.gradcheck({name}, ...):", " ".join(told.split())[:300]])
            if told
            else None
        )

    # -- LeNet

    def lenet(self) -> Failure | None:
        return self.step(compiled=False)

    def compiled(self) -> Failure | None:
        return self.step(compiled=True)

    def step(self, compiled: bool) -> Failure | None:
        """Checks the logits and all gradients of one batch."""
        batch = self.case.dims["batch"]
        start = lenet.initial(self.seed)
        images = self.random.standard_normal((batch, 1, 28, 28)).astype(np.float32)
        labels = self.random.integers(0, 10, batch).astype(np.int32)
        found = self.call("step", start, images, labels, compiled)
        expected = lenet.step_values(start, images, labels)
        wanted = {"logits": expected["logits"], **{n: expected[f"grad_{n}"] for n in PARAMETERS}}
        for name, right in wanted.items():
            got = found["logits"] if name == "logits" else found["gradients"].get(name)
            if got is None:
                return Failure("unwritten", [f"The gradient of {name} is None: it is not used in forward."])
            called = name if name == "logits" else f"the gradient of {name}"
            if got.shape != right.shape:
                return Failure(
                    "wrong", [f"LeNet, {called}: the shape is {got.shape}; it has to be {right.shape}."]
                )
            if wrong := weigh(name, got, right):
                lines = sentences.mismatch([wrong])
                return Failure("wrong", [f"LeNet, {called}: {lines[0]}", *lines[1:]], mismatches=[wrong])
        return self.unlaunched(1)

    def unlaunched(self, steps: int) -> Failure | None:
        missing = [k for k in KERNELS if self.launched.counts.get(k, 0) < steps]
        if not missing:
            return None
        return Failure(
            "launch",
            [f"Right, but {missing[0]} was launched {self.launched.counts.get(missing[0], 0)} times."],
        )

    def six_steps(self) -> Failure | None:
        """Compares six steps with the float64 trainer."""
        digits, count, size = data.load("digits"), self.case.dims["steps"], self.case.dims["batch"]
        start = lenet.initial(self.seed)
        pairs = [
            (digits.train_images[i : i + size], digits.train_labels[i : i + size])
            for i in range(0, count * size, size)
        ]
        found = self.call("fit", start, pairs, RATE)
        p = {name: values.astype(np.float64) for name, values in start.items()}
        expected = list(lenet.train(p, pairs, [RATE] * count, MOMENTUM, WEIGHT_DECAY))
        if finding := wrong_losses(found["losses"], expected, {}, ()):
            return finding
        for name in PARAMETERS:
            if wrong := weigh(name, found["parameters"][name], p[name]):
                says = f"The losses are right, but not {name} after step {count}."
                return Failure("wrong", [*sentences.mismatch([wrong]), says], mismatches=[wrong])
        return self.unlaunched(count)

    def digits(self) -> Failure | None:
        """Trains for an epoch on the digits; then tests on unseen images."""
        digits, size = data.load("digits"), self.case.dims["batch"]
        starts = [*range(0, len(digits.train_labels), size)] * self.case.dims["epochs"]
        pairs = [(digits.train_images[i : i + size], digits.train_labels[i : i + size]) for i in starts]
        learned = self.call("fit", lenet.initial(), pairs, RATE)["parameters"]
        found = lenet.forward(learned, digits.test_images)["logits"].argmax(1)
        share = (found == digits.test_labels).mean()
        if share >= 0.8:
            return self.unlaunched(len(pairs))
        return Failure(
            "wrong", [f"Test accuracy {share:.1%} after {self.case.dims['epochs']} epoch; 80 % was expected."]
        )


def shape(described: Sequence) -> str:
    sizes, dtype, strides = described
    return f"{dtype} {tuple(sizes)} with strides {tuple(strides)}"
