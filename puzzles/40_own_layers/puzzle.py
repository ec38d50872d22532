"""Puzzle 40: the kernels of part 1 as PyTorch operators, and a LeNet that trains on them."""

from __future__ import annotations

from backwarp.course import Case, Mistake, Program, Puzzle, mistakes_in
from backwarp.course.sizes import drawn
from backwarp.layers.checks import REQUESTS, check_layers, launched_on

LINEAR_FAKE = """@linear.register_fake
def _(x, weight, bias):
    return x.new_empty(len(x), len(weight))
"""
LINEAR_BACKWARD_FAKE = """@linear_backward.register_fake
def _(grad_y, x, weight):
    return x.new_empty(x.shape), weight.new_empty(weight.shape), weight.new_empty(len(weight))
"""
LINEAR_KEEPS = """def linear_keeps(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:2])
"""
LINEAR_GRADIENT = "    return linear_backward(grad_y, *ctx.saved_tensors)\n"
LINEAR_LAUNCHES = """    launch("fc_backward_bias", grad_y, grad_bias)
    return grad_x, grad_weight, grad_bias
"""
LINEAR_OPERATOR = """@custom_op("backwarp::linear_backward", mutates_args=())
"""
CONV_GRADIENT = "    return conv2d_backward(grad_y, *ctx.saved_tensors)\n"
CONV_KEEPS = """def conv2d_keeps(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:2])
"""
LAST = "        return linear(x, self.fc3.weight, self.fc3.bias)\n"
STEP = """        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""

MISTAKES = (
    *mistakes_in(
        "linear",
        Mistake("linear without a fake", (LINEAR_FAKE, ""), expect="unwritten"),
        Mistake(
            "fake of another shape",
            ("return x.new_empty(len(x), len(weight))", "return x.new_empty(len(x), weight.shape[1])"),
        ),
        Mistake(
            "linear without register_autograd",
            ("linear.register_autograd(linear_gradient, setup_context=linear_keeps)", ""),
            expect="unwritten",
        ),
        Mistake("backward without a fake", (LINEAR_BACKWARD_FAKE, ""), expect="unwritten"),
        Mistake("backward is no operator", ((LINEAR_OPERATOR, ""), (LINEAR_BACKWARD_FAKE, ""))),
        Mistake(
            "gradients in another order",
            (LINEAR_LAUNCHES, "grad_x, grad_weight, grad_bias", "grad_weight, grad_x, grad_bias"),
        ),
        Mistake(
            "no gradient of the bias",
            (LINEAR_GRADIENT, "ctx.saved_tensors)", "ctx.saved_tensors)[:2] + (None,)"),
            expect="unwritten",
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
            ('launch("fc_backward_input", grad_y, weight, grad_x)', "grad_x = grad_y @ weight"),
            expect="launch",
        ),
        Mistake(
            "bias gradient left out", ('launch("fc_backward_bias", grad_y, grad_bias)', "grad_bias.zero_()")
        ),
        Mistake(
            "keeps weight before x",
            (LINEAR_KEEPS, "*inputs[:2]", "inputs[1], inputs[0]"),
            expect=("launch", "wrong"),
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
            "fake of backward in the order of x",
            (
                "def _(grad_y, x, weight):\n    return x.new_empty(x.shape), weight.new_empty(weight.shape), weight.new_empty(len(weight))\n\n\ndef conv2d_keeps",
                "def _(grad_y, x, weight):\n    return torch.empty_like(x), torch.empty_like(weight), weight.new_empty(len(weight))\n\n\ndef conv2d_keeps",
            ),
        ),
        Mistake("output one row and column short", ("F + 1, W - F + 1", "F, W - F"), expect="launch"),
        Mistake(
            "fake as large as the input",
            ("return x.new_empty(conv2d_shape(x, weight))", "return x.new_empty(x.shape)"),
        ),
        Mistake("image is not kept", (CONV_KEEPS, "*inputs[:2]", "inputs[0] * 0, inputs[1]")),
        Mistake(
            "no gradients but that of x",
            (CONV_GRADIENT, "ctx.saved_tensors)", "ctx.saved_tensors)[0], None, None"),
            expect="unwritten",
        ),
        Mistake(
            "gradient is passed on detached", ("conv2d_backward(grad_y,", "conv2d_backward(grad_y.sign(),")
        ),
        Mistake("kernel of another layer", ("conv2d_backward_bias", "fc_backward_bias"), expect="launch"),
    ),
    *mistakes_in(
        "max_pool2d",
        Mistake(
            "odd rows rounded up",
            ("x.shape[2] // 2, x.shape[3] // 2", "-(-x.shape[2] // 2), -(-x.shape[3] // 2)"),
            expect="launch",
        ),
        Mistake("places in floating point", ("(shape, dtype=torch.int32)", "(shape)"), expect="launch"),
        Mistake("places not returned", ("tuple[Tensor, Tensor]", "Tensor"), expect="signature"),
        Mistake("values for places", ("output[1]", "output[0]"), expect="launch"),
        Mistake("shape of the output", ("= inputs", "= output"), expect=("launch", "wrong")),
    ),
    *mistakes_in(
        "LeNet",
        Mistake(
            "no ReLU after a convolution",
            ("relu(conv2d(x, layer.weight, layer.bias))", "conv2d(x, layer.weight, layer.bias)"),
        ),
        Mistake(
            "ReLU on the logits", (LAST, "        return relu(linear(x, self.fc3.weight, self.fc3.bias))\n")
        ),
        Mistake(
            "PyTorch's ReLU",
            (("relu(conv2d", "torch.relu(conv2d"), ("x = relu", "x = torch.relu")),
            expect="launch",
        ),
        Mistake("a layer left out", ("fc1, self.fc2)", "fc1,)"), expect=("launch", "exception")),
    ),
    *mistakes_in(
        "train",
        Mistake("gradients add up", (STEP, "        optimizer.zero_grad()\n", "")),
        Mistake(
            "gradients erased",
            (STEP, "        loss.backward()\n        optimizer.zero_grad()\n        optimizer.step()\n"),
        ),
        Mistake("no backward", (STEP, "        loss.backward()\n", "")),
        Mistake("loss summed, not averaged", ("(images), labels", '(images), labels, reduction="sum"')),
        Mistake("losses not kept", ("        losses.append(loss.item())\n", "")),
    ),
)

PUZZLE = Puzzle(
    title="Your own layers in PyTorch",
    part=6,
    teaches="What PyTorch has to know about a kernel: its signature, its shapes, its gradient.",
    practice="Libraries of kernels, in CUDA or Triton, are registered with PyTorch in the same three ways.",
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
        Case("linear_by_hand", dict(batch=2, inputs=2, outputs=2), "done by hand in the lesson"),
        Case("relu_sizes", draw=drawn(batch=(2, 5), inputs=(3, 9))),
        Case("linear_sizes", draw=drawn(batch=(2, 5), inputs=(3, 9), outputs=(10, 14))),
        Case(
            "conv2d_sizes",
            draw=drawn(batch=(2, 3), inputs=(2, 3), outputs=(4, 5), H=(6, 8), W=(9, 11), F=(2, 4)),
        ),
        Case("max_pool2d_sizes", draw=drawn(batch=(2, 3), inputs=(2, 4), H=(5, 8), W=(9, 12))),
        Case("opcheck", dict(batch=2, inputs=2, outputs=3, H=5, W=6, F=3)),
        Case("gradcheck", dict(batch=2, inputs=2, outputs=3, H=5, W=6, F=3)),
        Case("lenet", dict(batch=3)),
        Case("compiled", dict(batch=2)),
        Case("six_steps", dict(batch=4, steps=6)),
        Case("digits", dict(batch=32, epochs=1)),
    ),
    mistakes=MISTAKES,
    hints=(
        "linear lacks three things, and relu shows each of them. A fake computes nothing: it returns an "
        "empty tensor of the shape and type that the operator returns. The backward operator is like the "
        "forward one: new tensors, launches that fill them, a fake of its own. register_autograd joins the "
        "two: one function keeps what backward will need, the other calls the backward operator.",
        "An operator with several results says so in its signature, tuple[Tensor, Tensor, Tensor], and "
        "autograd takes one gradient for each input of the forward operator, in the order of its parameters. "
        "The kernels of puzzles 06, 09 and 10 store one gradient each: three launches on the gradient that "
        "comes in, which may be stored in any order of its axes, so copy it with contiguous() first.",
        "The images become smaller: with a filter of F x F and no padding, H - F + 1 rows are left; pooling "
        "leaves half of them, rounded down. The fake needs the same shapes, so write a function that both "
        "call. Pooling back needs no values at all, only the places and the shape of its input: keep the "
        "places with save_for_backward, the shape as an attribute of ctx. Places are int32, and have no "
        "gradient.",
    ),
)
