"""Puzzle 40: the kernels of part 1 as PyTorch operators, and a LeNet that trains on them."""

from __future__ import annotations

from backwarp.course import Case, Mistake, Program, Puzzle, mistakes_in
from backwarp.layers.checks import REQUESTS, check_layers, launched_on

LINEAR_FAKE = """@linear.register_fake
def _(x, weight, bias):
    return x.new_empty(len(x), len(weight))
"""
LINEAR_GRADIENT = "    return linear_backward(grad_y, *ctx.saved_tensors)\n"
CONV_GRADIENT = "    return conv2d_backward(grad_y, *ctx.saved_tensors)\n"
CONV_KEEPS = """def conv2d_keeps(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:2])
"""
CONTIGUOUS = "    grad_y = grad_y.contiguous()\n    grad_x, grad_weight = x.new_empty(x.shape), weight.new_empty(weight.shape)\n"
STEP = """        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""

MISTAKES = (
    *mistakes_in(
        "linear",
        Mistake("linear without a fake", (LINEAR_FAKE, ""), expect="unwritten"),
        Mistake(
            "fake of another shape", (LINEAR_FAKE, LINEAR_FAKE.replace("len(weight)", "weight.shape[1]"))
        ),
        Mistake(
            "linear without register_autograd",
            ("linear.register_autograd(linear_gradient, setup_context=linear_keeps)", ""),
            expect="unwritten",
        ),
        Mistake(
            "two gradients for three inputs",
            (LINEAR_GRADIENT, LINEAR_GRADIENT.replace("ctx.saved_tensors)", "ctx.saved_tensors)[:2]")),
            expect="exception",
        ),
        Mistake(
            "gradient is not made contiguous",
            (
                "linear_backward(grad_y: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:\n    grad_y = grad_y.contiguous()\n",
                "linear_backward(grad_y: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:\n",
            ),
            expect="launch",
        ),
        Mistake(
            "backward by PyTorch",
            ('    launch("fc_backward_input", grad_y, weight, grad_x)\n', "    grad_x = grad_y @ weight\n"),
            expect="launch",
        ),
        Mistake(
            "operator changes its input",
            (
                '    launch("fc_forward", x.contiguous(), weight, bias, y)\n',
                '    launch("fc_forward", x.contiguous(), weight, bias, y)\n    x.zero_()\n',
            ),
        ),
    ),
    *mistakes_in(
        "conv2d",
        Mistake(
            "image is not kept", (CONV_KEEPS, CONV_KEEPS.replace("*inputs[:2]", "inputs[0] * 0, inputs[1]"))
        ),
        Mistake(
            "gradient is passed on detached",
            (CONV_GRADIENT, CONV_GRADIENT.replace("grad_y,", "grad_y.sign(),")),
        ),
    ),
    *mistakes_in(
        "max_pool2d",
        Mistake(
            "odd rows rounded up",
            ("x.shape[2] // 2, x.shape[3] // 2", "-(-x.shape[2] // 2), -(-x.shape[3] // 2)"),
            expect="launch",
        ),
        Mistake(
            "places not returned",
            ("def max_pool2d(x: Tensor) -> tuple[Tensor, Tensor]:", "def max_pool2d(x: Tensor) -> Tensor:"),
            expect="signature",
        ),
    ),
    *mistakes_in(
        "LeNet",
        Mistake(
            "PyTorch's ReLU",
            (
                ("max_pool2d(relu(conv2d", "max_pool2d(torch.relu(conv2d"),
                ("x = relu(linear", "x = torch.relu(linear"),
            ),
            expect="launch",
        ),
        Mistake(
            "a layer left out",
            ("for layer in (self.fc1, self.fc2):", "for layer in (self.fc1,):"),
            expect=("launch", "exception"),
        ),
    ),
    *mistakes_in(
        "train",
        Mistake("gradients add up", (STEP, STEP.replace("        optimizer.zero_grad()\n", ""))),
        Mistake("no step", (STEP, STEP.replace("        optimizer.step()\n", ""))),
        Mistake("losses not kept", ("        losses.append(loss.item())\n", "")),
    ),
)

PUZZLE = Puzzle(
    title="Your own layers in PyTorch",
    part=6,
    teaches="What PyTorch has to know about a kernel: its signature, its shapes, its gradient.",
    practice="Libraries of kernels, written in CUDA or in Triton, are registered with PyTorch in the same "
    "three ways.",
    lines=80,
    kernels=(),
    program=Program(
        "layers.py",
        (
            "relu(x)",
            "linear(x, weight, bias)",
            "conv2d(x, weight, bias)",
            "max_pool2d(x)",
            "LeNet()",
            "train(model, batches, rate)",
        ),
        check_layers,
        REQUESTS,
        seconds=60,
        prepare=launched_on,
        driver="backwarp.layers.driver",
        needs=("torch", "pip install -e '.[torch]'"),
    ),
    cases=(
        Case("linear_by_hand", dict(batch=2, inputs=2, outputs=2), note="done by hand in the lesson"),
        Case("relu_sizes", draw=lambda pick: dict(batch=pick(2, 5), inputs=pick(3, 9))),
        Case(
            "linear_sizes", draw=lambda pick: dict(batch=pick(2, 5), inputs=pick(3, 9), outputs=pick(10, 14))
        ),
        Case(
            "conv2d_sizes",
            draw=lambda pick: dict(
                batch=pick(2, 3),
                inputs=pick(2, 3),
                outputs=pick(4, 5),
                H=pick(6, 8),
                W=pick(9, 11),
                F=pick(2, 4),
            ),
        ),
        Case(
            "max_pool2d_sizes",
            draw=lambda pick: dict(batch=pick(2, 3), inputs=pick(2, 4), H=pick(5, 8), W=pick(9, 12)),
        ),
        Case("opcheck", dict(batch=2, inputs=2, outputs=3, H=5, W=6, F=3)),
        Case("gradcheck", dict(batch=2, inputs=2, outputs=3, H=5, W=6, F=3)),
        Case("lenet", dict(batch=3)),
        Case("compiled", dict(batch=2)),
        Case("six_steps", dict(batch=4, steps=6)),
        Case("digits", dict(batch=32, epochs=1)),
    ),
    mistakes=MISTAKES,
    hints=(
        "linear lacks three things, and relu shows each of them. A fake computes nothing: it returns an empty tensor "
        "of the shape and type that the operator returns. The backward operator is like the forward one: new tensors, "
        "launches that fill them, a fake of its own. register_autograd joins the two: one function keeps what backward "
        "will need, the other calls the backward operator.",
        "An operator with several results says so in its signature, tuple[Tensor, Tensor, Tensor], and autograd takes "
        "one gradient for each input of the forward operator, in the order of its parameters. The kernels of "
        "puzzles 06, 09 and 10 store one gradient each: three launches on the gradient that comes in, which may be "
        "stored in any order of its axes, so copy it with contiguous() first.",
        "The images become smaller: with a filter of F x F and no padding, H - F + 1 rows are left; pooling leaves "
        "half of them, rounded down. The fake needs the same shapes, so write a function that both call. Pooling "
        "back needs no values at all, only the places and the shape of its input: keep the places with "
        "save_for_backward, the shape as an attribute of ctx. Places are int32, and have no gradient.",
    ),
)
