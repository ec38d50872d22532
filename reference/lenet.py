"""LeNet: forward, backward and training, from the layers of this package.

    images (N, 1, 28, 28)                    the values of every layer, by name:
    conv1   6 filters of 5 x 5               (N, 6, 24, 24)
    relu1
    pool1   windows of 2 x 2                 (N, 6, 12, 12), and places1, the place of each maximum
    conv2   16 filters of 6 x 5 x 5          (N, 16, 8, 8)
    relu2
    pool2   windows of 2 x 2                 (N, 16, 4, 4), and places2; read as (N, 256) from here on
    fc1     256 -> 120                       (N, 120)
    relu3
    fc2     120 -> 84                        (N, 84)
    relu4
    logits  84 -> 10, the layer fc3          (N, 10)
    losses  softmax and cross entropy        (N,), and loss, their mean

The gradient of the loss with respect to a value or a parameter x is called grad_x. Parameters, values and
gradients are dicts by name. Where the activation of LeCun's network was a scaled tanh, here it is ReLU; and
his second convolution left out some pairs of channels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import ArrayLike

from . import conv, dense, loss, optim, pool
from .conv_plan import Array

Arrays = dict[str, Array]

PARAMETERS = {
    "conv1_weights": (6, 1, 5, 5),
    "conv1_bias": (6,),
    "conv2_weights": (16, 6, 5, 5),
    "conv2_bias": (16,),
    "fc1_weights": (120, 256),
    "fc1_bias": (120,),
    "fc2_weights": (84, 120),
    "fc2_bias": (84,),
    "fc3_weights": (10, 84),
    "fc3_bias": (10,),
}


def initial(seed: int = 0) -> dict[str, np.ndarray]:
    """The parameters before training, float32: biases 0, weights normal, the same for the same seed.

    He et al. (2015): a ReLU halves the variance, so the layers before one have the variance 2 / inputs of a
    sum. Glorot and Bengio (2010) for the last layer, which has no ReLU: 2 / (inputs + outputs).
    """
    random = np.random.default_rng(seed)
    made = {}
    for name, shape in PARAMETERS.items():
        inputs = math.prod(shape[1:])
        variance = 2 / (inputs + shape[0]) if name == "fc3_weights" else 2 / inputs
        values = random.standard_normal(shape) * math.sqrt(variance)
        made[name] = (np.zeros(shape) if name.endswith("bias") else values).astype(np.float32)
    return made


def forward(p: Mapping[str, ArrayLike], images: ArrayLike) -> Arrays:
    """The values of all layers, from parameters p and images (N, 1, 28, 28): up to the logits."""
    v: Arrays = {"images": np.asarray(images, dtype=np.float64)}
    v["conv1"] = conv.forward(v["images"], p["conv1_weights"], p["conv1_bias"])
    v["relu1"] = dense.relu(v["conv1"])
    v["pool1"], v["places1"] = pool.max_pool(v["relu1"])
    v["conv2"] = conv.forward(v["pool1"], p["conv2_weights"], p["conv2_bias"])
    v["relu2"] = dense.relu(v["conv2"])
    v["pool2"], v["places2"] = pool.max_pool(v["relu2"])
    v["fc1"] = dense.forward(flat(v["pool2"]), p["fc1_weights"], p["fc1_bias"])
    v["relu3"] = dense.relu(v["fc1"])
    v["fc2"] = dense.forward(v["relu3"], p["fc2_weights"], p["fc2_bias"])
    v["relu4"] = dense.relu(v["fc2"])
    v["logits"] = dense.forward(v["relu4"], p["fc3_weights"], p["fc3_bias"])
    return v


def backward(p: Mapping[str, ArrayLike], v: Mapping[str, Array], labels: ArrayLike) -> Arrays:
    """All gradients of the mean loss, from parameters p and the values v of `forward`, last layer first."""
    g: Arrays = {"grad_logits": loss.cross_entropy_backward(v["logits"], labels)}
    fully_connected(g, p, "fc3", "grad_logits", v["relu4"], "grad_relu4")
    g["grad_fc2"] = dense.relu_backward(g["grad_relu4"], v["fc2"])
    fully_connected(g, p, "fc2", "grad_fc2", v["relu3"], "grad_relu3")
    g["grad_fc1"] = dense.relu_backward(g["grad_relu3"], v["fc1"])
    fully_connected(g, p, "fc1", "grad_fc1", flat(v["pool2"]), "grad_pool2")
    g["grad_pool2"] = g["grad_pool2"].reshape(v["pool2"].shape)
    g["grad_relu2"] = pool.max_pool_backward(g["grad_pool2"], v["places2"], v["relu2"].shape)
    g["grad_conv2"] = dense.relu_backward(g["grad_relu2"], v["conv2"])
    convolution(g, "conv2", v["pool1"])
    g["grad_pool1"] = conv.backward_input(g["grad_conv2"], p["conv2_weights"], v["pool1"].shape)
    g["grad_relu1"] = pool.max_pool_backward(g["grad_pool1"], v["places1"], v["relu1"].shape)
    g["grad_conv1"] = dense.relu_backward(g["grad_relu1"], v["conv1"])
    convolution(g, "conv1", v["images"])
    return g


def fully_connected(g: Arrays, p: Mapping, layer: str, grad_output: str, input: Array, grad_input: str):
    """Adds the three gradients of a fully connected layer to g."""
    g[f"grad_{layer}_weights"] = dense.backward_weights(g[grad_output], input)
    g[f"grad_{layer}_bias"] = dense.backward_bias(g[grad_output])
    g[grad_input] = dense.backward_input(g[grad_output], p[f"{layer}_weights"])


def convolution(g: Arrays, layer: str, input: Array):
    """Adds the gradients of a convolution's weights and bias to g."""
    shape = PARAMETERS[f"{layer}_weights"]
    g[f"grad_{layer}_weights"] = conv.backward_weights(g[f"grad_{layer}"], input, shape)
    g[f"grad_{layer}_bias"] = conv.backward_bias(g[f"grad_{layer}"])


def step_values(p: Mapping[str, ArrayLike], images: ArrayLike, labels: ArrayLike) -> Arrays:
    """Everything that one step of training computes before the update: values, losses, gradients."""
    v = forward(p, images)
    v["losses"] = loss.cross_entropy(v["logits"], labels)
    v["loss"] = np.array([v["losses"].mean()])
    return v | backward(p, v, labels)


def train(
    p: dict[str, Array],
    batches: Iterable[tuple[ArrayLike, ArrayLike]],
    learning_rates: Iterable[float],
    momentum: float = 0.9,
    weight_decay: float = 0.0,
    velocity: dict[str, Array] | None = None,
) -> Iterator[float]:
    """Trains the parameters p, float64 and in place: one step, and one loss, per batch and learning rate.

    velocity: where those of the parameters are kept; they start at 0.
    """
    velocity = {} if velocity is None else velocity
    velocity |= {name: np.zeros(shape) for name, shape in PARAMETERS.items()}
    for (images, labels), rate in zip(batches, learning_rates):
        v = step_values(p, images, labels)
        for name in PARAMETERS:
            p[name], velocity[name] = optim.sgd(
                p[name], velocity[name], v[f"grad_{name}"], rate, momentum, weight_decay
            )
        yield float(v["loss"][0])


def flat(x: Array) -> Array:
    """(N, C, H, W) as (N, C * H * W)."""
    return x.reshape(len(x), -1)
