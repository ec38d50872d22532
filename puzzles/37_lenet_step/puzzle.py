"""Puzzle 37: one step of LeNet, forward and backward, from launches of the kernels of part 1."""

from __future__ import annotations

import numpy as np
from backwarp.reference import conv, dense, pool

from backwarp.course import Case, Mistake, Program, Puzzle, mistakes_in
from backwarp.course.sizes import drawn, gradient_check
from backwarp.lenet.checks import check_step, quick_kernels
from backwarp.lenet.requests import REQUESTS


def relu_skipped(a, d):
    """Layers whose input is taken from before the ReLU."""
    return {
        "pool2": pool.max_pool(a["conv2"])[0],
        "fc2": dense.forward(a["fc1"], a["fc2_weights"], a["fc2_bias"]),
        "logits": dense.forward(a["fc2"], a["fc3_weights"], a["fc3_bias"]),
    }


def input_before_relu(a, d):
    """Weight gradients whose layer input is taken from before the ReLU."""
    return {
        "grad_fc3_weights": dense.backward_weights(a["grad_logits"], a["fc2"]),
        "grad_fc2_weights": dense.backward_weights(a["grad_fc2"], a["fc1"]),
    }


def mask_from_gradient(a, d):
    """ReLU's gradient where the gradient is positive, not where its input was."""
    layers = {"fc2": "relu4", "fc1": "relu3", "conv2": "relu2", "conv1": "relu1"}
    return {f"grad_{x}": np.maximum(a[f"grad_{y}"], 0) for x, y in layers.items()}


def relu_not_passed(a, d):
    """Gradients computed from the gradient behind a ReLU, not from that before it."""
    return {
        "grad_fc2_weights": dense.backward_weights(a["grad_relu4"], a["relu3"]),
        "grad_fc1_weights": dense.backward_weights(a["grad_relu3"], a["pool2"].reshape(len(a["pool2"]), -1)),
        "grad_conv2_weights": conv.backward_weights(a["grad_relu2"], a["pool1"], a["conv2_weights"].shape),
        "grad_conv2_bias": conv.backward_bias(a["grad_relu2"]),
        "grad_pool1": conv.backward_input(a["grad_relu2"], a["conv2_weights"], a["pool1"].shape),
        "grad_conv1_weights": conv.backward_weights(a["grad_relu1"], a["images"], a["conv1_weights"].shape),
        "grad_conv1_bias": conv.backward_bias(a["grad_relu1"]),
    }


RELU4_BACK = 'net.launch("relu_backward", net.grad_relu4, net.fc2, net.grad_fc2)\n    '

MISTAKES = (
    *mistakes_in(
        "forward",
        Mistake("conv2 reads relu1", ('", net.pool1', '", net.relu1'), expect="launch"),
        Mistake(
            "pool2 before relu2",
            ("net.relu2,", "net.conv2,"),
            says="It is computed from the values before the ReLU: the input is the ReLU's output.",
            computes=relu_skipped,
        ),
        Mistake("pool2 does not keep its places", ("net.pool2, net.places2", "net.pool2"), expect="launch"),
        Mistake("fc2 reads fc1", ('", net.relu3', '", net.fc1'), expect="pool2 before relu2"),
        Mistake("backward has another name", ("def backward", "def backwards"), expect="missing-function"),
        Mistake(
            "backward takes the images, too", ("backward(net)", "backward(net, images)"), expect="signature"
        ),
    ),
    *mistakes_in(
        "backward",
        Mistake(
            "relu4 left out backward, and its gradient used",
            ((RELU4_BACK, ""), ("grad_fc2", "grad_relu4")),
            expect="unwritten",
        ),
        Mistake(
            "fc2 takes the gradient behind relu4",
            ("grad_fc2,", "grad_relu4,"),
            says="It is computed from the gradient of the ReLU's output, not taken back through the ReLU.",
            hint=3,
            computes=relu_not_passed,
        ),
        Mistake(
            "weights of conv1 from behind relu1",
            ("grad_conv1, net.images", "grad_relu1, net.images"),
            expect="fc2 takes the gradient behind relu4",
        ),
        Mistake(
            "relu4 masked by its gradient",
            ("fc2, net.grad_fc2", "grad_relu4, net.grad_fc2"),
            says="It passes where the gradient is positive; it must pass where the ReLU's input was.",
            hint=2,
            computes=mask_from_gradient,
        ),
        Mistake(
            "weights of fc2 with fc1",
            ("grad_fc2, net.relu3", "grad_fc2, net.fc1"),
            says="The layer's input is taken from before the ReLU: use what the layer read going forward.",
            hint=2,
            computes=input_before_relu,
        ),
        Mistake("layer name wrong", ('net, "fc1', 'net, "fc2'), expect="launch"),
        Mistake(
            "a word that Python does not know",
            (
                '    # BEGIN SOLUTION\n    net.launch("relu_backward", net.grad_relu4',
                '    # BEGIN SOLUTION\n    oops\n    net.launch("relu_backward", net.grad_relu4',
            ),
            expect="exception",
        ),
        Mistake("parenthesis missing", ("grad_relu1)", "grad_relu1"), expect="syntax"),
    ),
)

PUZZLE = Puzzle(
    title="One step of LeNet",
    part=5,
    teaches="How the kernels of part 1 become a network: forward in order, backward in reverse.",
    practice="torch.autograd.gradcheck compares gradients with finite differences, as the grader does here.",
    lines=22,
    kernels=(),
    program=Program(
        "step.py",
        ("forward(net)", "backward(net)"),
        lambda f, case, device, seed: check_step(f, case, device, seed, MISTAKES),
        REQUESTS,
        seconds=10,
        prepare=quick_kernels,
    ),
    cases=(
        Case("all_parameters_zero", dict(batch=2, parameters=0), "done by hand in the lesson"),
        Case("one_image", dict(batch=1)),
        Case("three_images", dict(batch=3)),
        Case("own_sizes", draw=lambda pick: dict(batch=pick(4, 9)), note="a size that belongs to your file"),
        gradient_check("numerical_gradient_check", dict(batch=2), "the float64 loss, differenced"),
        Case("real_digits", draw=drawn(batch=(10, 24), digits=1)),
    ),
    mistakes=MISTAKES,
    hints=(
        "Forward is the table of the lesson, read from top to bottom: every row is one launch, and its input "
        "is the row above. Where there is a ReLU, the next layer reads the ReLU's output, not what went into "
        "it. Pooling stores two arrays.",
        "Backward is the same table from bottom to top. Each row has one gradient coming in, that of its "
        "output, and one going out, that of its input. A launch that goes back through a layer also needs "
        "what the layer knew in the forward pass: a ReLU its input, pooling its places, a layer with weights "
        "its input (for the gradient of the weights) and its weights (for the gradient of the input).",
        "The names say it: going back through relu4 starts at net.grad_relu4 and ends at net.grad_fc2, since "
        "fc2 is what relu4 was computed from. Then fc2 goes on from there, and ends at the gradient of what "
        "fc2 was computed from, and so on. The convolutions are like the fully connected layers, three "
        "launches each, but conv1 needs only two, since nobody asks for the gradient of the images.",
    ),
)
