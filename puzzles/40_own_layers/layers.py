"""Puzzle 40: the kernels of part 1 as PyTorch operators, and a LeNet that trains on them.

What to do: ReLU below is complete. Make the fully connected layer, the convolution and the
pooling operators of the same kind, with gradients, and build LeNet from them.
You will write about 80 lines.

Check: backwarp grade 40    Stuck: backwarp hint 40    Start again: backwarp reset 40
Train: python puzzles/40_own_layers/layers.py
"""

import torch
from torch import Tensor
from torch.library import custom_op

from backwarp.tensors import launch

# ---- ReLU: complete ----


@custom_op("backwarp::relu", mutates_args=())
def relu(x: Tensor) -> Tensor:
    y = x.new_empty(x.shape)
    launch("relu_forward", x.contiguous(), y)
    return y


@relu.register_fake
def _(x):
    return x.new_empty(x.shape)


@custom_op("backwarp::relu_backward", mutates_args=())
def relu_backward(grad_y: Tensor, x: Tensor) -> Tensor:
    grad_x = x.new_empty(x.shape)
    launch("relu_backward", grad_y.contiguous(), x.contiguous(), grad_x)
    return grad_x


@relu_backward.register_fake
def _(grad_y, x):
    return x.new_empty(x.shape)


def relu_keeps(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


def relu_gradient(ctx, grad_y):
    (x,) = ctx.saved_tensors
    return relu_backward(grad_y, x)


relu.register_autograd(relu_gradient, setup_context=relu_keeps)

# ---- The fully connected layer: x (N, I), weight (O, I), bias (O,) ----


@custom_op("backwarp::linear", mutates_args=())
def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    y = x.new_empty(len(x), len(weight))
    launch("fc_forward", x.contiguous(), weight, bias, y)
    return y


# TODO(1): register_fake for linear; an operator linear_backward(grad_y, x, weight), which
#          returns the three gradients, a tuple[Tensor, Tensor, Tensor], and has a fake too;
#          register_autograd for linear.

# ---- The convolution: x (N, C, H, W), weight (K, C, F, F), bias (K,) ----


@custom_op("backwarp::conv2d", mutates_args=())
def conv2d(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    # TODO(2): launch the kernel on an output of the right shape; then, below, all that
    #          linear has: a fake, conv2d_backward with its fake, register_autograd.
    return x.new_empty(x.shape)

# ---- Pooling in windows of 2 x 2: x (N, C, H, W) ----


@custom_op("backwarp::max_pool2d", mutates_args=())
def max_pool2d(x: Tensor) -> tuple[Tensor, Tensor]:
    """The maxima, and their places, int32."""
    # TODO(3): the same. The backward operator needs the places, and the shape of x, which
    #          is a list[int] in its signature. ctx can keep it as an attribute.
    return x.new_empty(x.shape), x.new_empty(x.shape, dtype=torch.int32)

# ---- LeNet ----


class LeNet(torch.nn.Module):
    def __init__(self):
        super().__init__()  # PyTorch's layers hold the parameters, and choose their first values
        self.conv1, self.conv2 = torch.nn.Conv2d(1, 6, 5), torch.nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2 = torch.nn.Linear(256, 120), torch.nn.Linear(120, 84)
        self.fc3 = torch.nn.Linear(84, 10)

    def forward(self, x):
        """The logits (N, 10) of images (N, 1, 28, 28)."""
        # TODO(4): conv1, ReLU, pooling; conv2, ReLU, pooling; then, as (N, 256), fc1, ReLU, fc2,
        #          ReLU, fc3; all of them with the operators above.
        return x.new_zeros(len(x), 10)


def train(model, batches, rate):
    """A step for each pair (images, labels), with momentum 0.9 and weight decay 0.001; the losses."""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=0.001)
    losses = []
    for images, labels in batches:
        # TODO(5): the loss is torch.nn.functional.cross_entropy; its gradients; the optimizer's
        #          step. Append loss.item().
        pass
    return losses


if __name__ == "__main__":
    from backwarp.layers.training import main

    main(LeNet, train)
