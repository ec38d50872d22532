"""Runs a student's operators in the process of the student's file, the only one with PyTorch.

It takes and returns plain data: NumPy arrays, numbers and text. `checks` judges the results in the process
that launches the kernels. `net` requests launches from that process.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial

os.environ["TORCHINDUCTOR_CACHE_DIR"] = (
    os.sep
)  # PyTorch requires an existing folder, but writes nothing to it

import torch  # noqa: E402
import torch._dynamo  # noqa: E402, loaded before the process gives up access to files
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.autograd.gradcheck import GradcheckError  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_map_only  # noqa: E402

from .. import tensors  # noqa: E402

torch.set_num_threads(1)
tempfile.tempdir = os.sep  # likewise
TRACED = "aot_eager"  # the torch.compile backend that traces forward and backward without a C compiler


def functions(file: Mapping[str, object]) -> dict[str, Callable]:
    """The functions that can be called, given what a file defines."""
    torch._dynamo.reset()  # state from the previous file
    FakeTensorMode.cache_clear()
    return {work.__name__: partial(work, file) for work in (schema, apply, opcheck, gradcheck, step, fit)}


def schema(file, net, name: str) -> str:
    """An operator's schema; "" if it is not an operator."""
    overload = getattr(file[name], "_opoverload", None)
    return str(overload._schema).partition("::")[2] if overload else ""


def apply(file, net, name: str, arrays: Sequence, grad=None, apart: bool = False) -> dict:
    """Applies an operator. outputs: its results. gradients: of sum(outputs[0] * grad), one per input; None
    without grad or without a gradient. fakes: see Compared. apart: the first input and grad are
    non-contiguous."""
    tensors.elsewhere = launcher(net)
    given = [tensor(a, apart and i == 0, grad is not None) for i, a in enumerate(arrays)]
    with Compared() as compared:
        outputs = together(file[name](*given))
        found = {"outputs": [array(y) for y in outputs], "gradients": None, "fakes": compared.found}
        if grad is not None and outputs[0].requires_grad:
            try:
                gradients = torch.autograd.grad(outputs[0], given, tensor(grad, apart), allow_unused=True)
                found["gradients"] = [None if g is None else array(g) for g in gradients]
            except RuntimeError as error:
                if "no autograd formula" not in str(error):
                    raise
    return found


class Compared(TorchDispatchMode):
    """Runs the fake of every operator of the file alongside it, including backward's. found: (operator, the
    fake's description of the outputs or None without a fake, the actual outputs' description)."""

    def __init__(self):
        super().__init__()
        self.found: list[tuple] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        outputs = function(*args, **(kwargs or {}))
        if function.namespace not in ("aten", "prim"):  # PyTorch's own
            name = str(function._schema.name).partition("::")[2]
            self.found.append((name, faked(function, args), described(together(outputs))))
        return outputs


def faked(function, args: Sequence) -> list | None:
    try:
        with FakeTensorMode() as mode:
            return described(together(function(*tree_map_only(torch.Tensor, mode.from_tensor, args))))
    except (RuntimeError, NotImplementedError) as error:
        if "no fake impl" in str(error):
            return None
        raise


def opcheck(file, net, name: str, arrays: Sequence) -> dict[str, str]:
    """The result of each test of torch.library.opcheck; the first input is not contiguous."""
    tensors.elsewhere = launcher(net)
    given = tuple(tensor(a, apart=i == 0, gradient=True) for i, a in enumerate(arrays))
    results = torch.library.opcheck(file[name], given, raise_exception=False)
    return {test: str(result)[:500] for test, result in results.items()}


def gradcheck(file, net, name: str, arrays: Sequence) -> str:
    """The error that torch.autograd.gradcheck reports in float64; "" if none."""
    tensors.elsewhere = launcher(net)
    given = [tensor(a, gradient=True) for a in arrays]
    try:
        torch.autograd.gradcheck(lambda *inputs: together(file[name](*inputs))[0], given, fast_mode=True)
    except GradcheckError as error:
        return str(error)[:500]
    return ""


def step(file, net, parameters: Mapping, images, labels, compiled: bool) -> dict:
    """The logits, the loss and all gradients of a LeNet. compiled: through torch.compile, in one graph."""
    tensors.elsewhere = launcher(net)
    model = lenet(file, parameters)
    run = torch.compile(model, backend=TRACED, fullgraph=True) if compiled else model
    logits = run(tensor(images))
    loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels).long())
    loss.backward()
    gradients = {ours(name): p.grad for name, p in model.named_parameters()}
    return {
        "logits": array(logits),
        "loss": float(loss.detach()),
        "gradients": {name: None if g is None else array(g) for name, g in gradients.items()},
    }


def fit(file, net, parameters: Mapping, batches: Sequence, rate: float) -> dict:
    """The losses that train returns, and the parameters after it."""
    tensors.elsewhere = launcher(net)
    model = lenet(file, parameters)
    pairs = [(tensor(images), torch.from_numpy(labels).long()) for images, labels in batches]
    losses = file["train"](model, pairs, rate)
    losses = [float(x) if isinstance(x, torch.Tensor) and x.numel() == 1 else x for x in losses or ()]
    return {"losses": losses, "parameters": {ours(n): array(p) for n, p in model.named_parameters()}}


# ---- tensors ---------------------------------------------------------------------------------------------


def launcher(net) -> Callable:
    return lambda kernel, arrays, numbers: net._ask("launch", kernel, arrays, numbers)


def tensor(values, apart: bool = False, gradient: bool = False) -> torch.Tensor:
    """A tensor. apart: with its axes stored in reverse order."""
    made = torch.from_numpy(values)
    if apart and made.ndim > 1:
        axes = tuple(reversed(range(made.ndim)))
        made = made.permute(axes).contiguous().permute(axes)
    return made.requires_grad_(gradient and made.is_floating_point())


def array(made: torch.Tensor):
    return made.detach().contiguous().numpy()


def together(outputs) -> tuple[torch.Tensor, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def described(outputs: Sequence[torch.Tensor]) -> list:
    return [[list(y.shape), str(y.dtype).removeprefix("torch."), list(y.stride())] for y in outputs]


def lenet(file, parameters: Mapping) -> torch.nn.Module:
    model = file["LeNet"]()
    known = {name: tuple(p.shape) for name, p in model.named_parameters()}
    if wrong := sorted({ours(name) for name in known} ^ parameters.keys()):
        raise ValueError(f"LeNet has other parameters than the stub's; look at {', '.join(wrong)[:200]}")
    with torch.no_grad():
        for name, p in model.named_parameters():
            if known[name] != parameters[ours(name)].shape:
                raise ValueError(
                    f"{name} has the shape {known[name]}, not {parameters[ours(name)].shape} as in the stub"
                )
            p.copy_(torch.from_numpy(parameters[ours(name)]))
    return model


def ours(name: str) -> str:
    """`conv1_weights` for `conv1.weight`."""
    return name.replace(".weight", "_weights").replace(".bias", "_bias")
