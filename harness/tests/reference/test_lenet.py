"""LeNet in float64: shapes, central differences of the whole network, training."""

from __future__ import annotations

import numpy as np
import pytest
from backwarp.reference import lenet, loss


def batch(n, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(n, 1, 28, 28)), random.integers(0, 10, n)


def parameters(seed=0):
    p = {name: values.astype(np.float64) for name, values in lenet.initial(seed).items()}
    random = np.random.default_rng(seed + 1)
    return {name: values + 0.1 * random.normal(size=values.shape) for name, values in p.items()}


def test_shapes_are_those_of_the_figure():
    v = lenet.step_values(parameters(), *batch(2))
    shapes = {
        name: v[name].shape[1:] for name in ("conv1", "pool1", "conv2", "pool2", "fc1", "fc2", "logits")
    }
    assert shapes == {
        "conv1": (6, 24, 24),
        "pool1": (6, 12, 12),
        "conv2": (16, 8, 8),
        "pool2": (16, 4, 4),
        "fc1": (120,),
        "fc2": (84,),
        "logits": (10,),
    }
    assert sum(np.prod(shape) for shape in lenet.PARAMETERS.values()) == 44_426
    for name, values in v.items():
        if name.startswith("grad_"):
            other = name.removeprefix("grad_")
            assert values.shape == (lenet.PARAMETERS[other] if other in lenet.PARAMETERS else v[other].shape)


@pytest.mark.parametrize("name", lenet.PARAMETERS)
def test_gradients_of_parameters_equal_central_differences(name):
    p, (images, labels) = parameters(), batch(3)
    gradient = lenet.step_values(p, images, labels)[f"grad_{name}"]
    random, epsilon = np.random.default_rng(5), 1e-6
    for _ in range(4):
        index, sides = tuple(random.integers(0, gradient.shape)), []
        for sign in (1, -1):
            moved = {**p, name: p[name].copy()}
            moved[name][index] += sign * epsilon
            sides.append(loss.mean_cross_entropy(lenet.forward(moved, images)["logits"], labels))
        assert (sides[0] - sides[1]) / (2 * epsilon) == pytest.approx(gradient[index], rel=1e-4, abs=1e-8)


def test_initial_parameters_belong_to_the_seed():
    first, again, other = lenet.initial(3), lenet.initial(3), lenet.initial(4)
    for name, shape in lenet.PARAMETERS.items():
        assert first[name].dtype == np.float32 and first[name].shape == shape
        assert (first[name] == again[name]).all()
        assert name.endswith("bias") or (first[name] != other[name]).all()
    assert first["fc1_weights"].std() == pytest.approx(np.sqrt(2 / 256), rel=0.02)
    assert not first["conv2_bias"].any()


def test_training_learns_four_images_by_heart():
    images, labels = batch(4)
    p = {name: values.astype(np.float64) for name, values in lenet.initial(0).items()}
    losses = list(lenet.train(p, [(images, labels)] * 40, [0.01] * 40))
    assert losses[0] > 1 and losses[-1] < 0.05
    assert (lenet.forward(p, images)["logits"].argmax(1) == labels).all()


def test_one_step_of_training_by_hand():
    images, labels = batch(2)
    p = parameters()
    before = {name: values.copy() for name, values in p.items()}
    gradients = lenet.step_values(before, images, labels)
    (first,) = lenet.train(p, [(images, labels)], [0.1], momentum=0.9, weight_decay=0.01)
    assert first == gradients["loss"][0]
    for name in lenet.PARAMETERS:
        slope = gradients[f"grad_{name}"] + 0.01 * before[name]
        np.testing.assert_allclose(p[name], before[name] - 0.1 * slope, rtol=1e-13)
