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
# BEGIN SOLUTION
@linear.register_fake
def _(x, weight, bias):
    return x.new_empty(len(x), len(weight))


@custom_op("backwarp::linear_backward", mutates_args=())
def linear_backward(grad_y: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    grad_y = grad_y.contiguous()
    grad_x, grad_weight = x.new_empty(x.shape), weight.new_empty(weight.shape)
    grad_bias = weight.new_empty(len(weight))
    launch("fc_backward_input", grad_y, weight, grad_x)
    launch("fc_backward_weights", grad_y, x.contiguous(), grad_weight)
    launch("fc_backward_bias", grad_y, grad_bias)
    return grad_x, grad_weight, grad_bias


@linear_backward.register_fake
def _(grad_y, x, weight):
    return x.new_empty(x.shape), weight.new_empty(weight.shape), weight.new_empty(len(weight))


def linear_keeps(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:2])


def linear_gradient(ctx, grad_y):
    return linear_backward(grad_y, *ctx.saved_tensors)


linear.register_autograd(linear_gradient, setup_context=linear_keeps)
# END SOLUTION

# ---- The convolution: x (N, C, H, W), weight (K, C, F, F), bias (K,) ----


@custom_op("backwarp::conv2d", mutates_args=())
def conv2d(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    # TODO(2): launch the kernel on an output of the right shape; then, below, all that
    #          linear has: a fake, conv2d_backward with its fake, register_autograd.
    # BEGIN STUB
    # return x.new_empty(x.shape)
    # END STUB
    # BEGIN SOLUTION
    y = x.new_empty(conv2d_shape(x, weight))
    launch("conv2d_forward", x.contiguous(), weight, bias, y)
    return y


def conv2d_shape(x, weight):
    (N, _, H, W), (K, _, F, _) = x.shape, weight.shape
    return N, K, H - F + 1, W - F + 1


@conv2d.register_fake
def _(x, weight, bias):
    return x.new_empty(conv2d_shape(x, weight))


@custom_op("backwarp::conv2d_backward", mutates_args=())
def conv2d_backward(grad_y: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    grad_y = grad_y.contiguous()
    grad_x, grad_weight = x.new_empty(x.shape), weight.new_empty(weight.shape)
    grad_bias = weight.new_empty(len(weight))
    launch("conv2d_backward_input", grad_y, weight, grad_x)
    launch("conv2d_backward_weights", grad_y, x.contiguous(), grad_weight)
    launch("conv2d_backward_bias", grad_y, grad_bias)
    return grad_x, grad_weight, grad_bias


@conv2d_backward.register_fake
def _(grad_y, x, weight):
    return x.new_empty(x.shape), weight.new_empty(weight.shape), weight.new_empty(len(weight))


def conv2d_keeps(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:2])


def conv2d_gradient(ctx, grad_y):
    return conv2d_backward(grad_y, *ctx.saved_tensors)


conv2d.register_autograd(conv2d_gradient, setup_context=conv2d_keeps)
# END SOLUTION

# ---- Pooling in windows of 2 x 2: x (N, C, H, W) ----


@custom_op("backwarp::max_pool2d", mutates_args=())
def max_pool2d(x: Tensor) -> tuple[Tensor, Tensor]:
    """The maxima, and their places, int32."""
    # TODO(3): the same. The backward operator needs the places, and the shape of x, which
    #          is a list[int] in its signature. ctx can keep it as an attribute.
    # BEGIN STUB
    # return x.new_empty(x.shape), x.new_empty(x.shape, dtype=torch.int32)
    # END STUB
    # BEGIN SOLUTION
    y, places = max_pool2d_outputs(x)
    launch("max_pool2d_forward", x.contiguous(), y, places)
    return y, places


@max_pool2d.register_fake
def max_pool2d_outputs(x):
    shape = (*x.shape[:2], x.shape[2] // 2, x.shape[3] // 2)
    return x.new_empty(shape), x.new_empty(shape, dtype=torch.int32)


@custom_op("backwarp::max_pool2d_backward", mutates_args=())
def max_pool2d_backward(grad_y: Tensor, places: Tensor, shape: list[int]) -> Tensor:
    grad_x = grad_y.new_empty(shape)
    launch("max_pool2d_backward", grad_y.contiguous(), places, grad_x)
    return grad_x


@max_pool2d_backward.register_fake
def _(grad_y, places, shape):
    return grad_y.new_empty(shape)


def max_pool2d_keeps(ctx, inputs, output):
    ctx.save_for_backward(output[1])
    ctx.shape = inputs[0].shape


def max_pool2d_gradient(ctx, grad_y, grad_places):
    (places,) = ctx.saved_tensors
    return max_pool2d_backward(grad_y, places, ctx.shape)


max_pool2d.register_autograd(max_pool2d_gradient, setup_context=max_pool2d_keeps)
# END SOLUTION

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
        # BEGIN STUB
        # return x.new_zeros(len(x), 10)
        # END STUB
        # BEGIN SOLUTION
        for layer in (self.conv1, self.conv2):
            x, _ = max_pool2d(relu(conv2d(x, layer.weight, layer.bias)))
        x = x.flatten(1)
        for layer in (self.fc1, self.fc2):
            x = relu(linear(x, layer.weight, layer.bias))
        return linear(x, self.fc3.weight, self.fc3.bias)
        # END SOLUTION


def train(model, batches, rate):
    """A step for each pair (images, labels), with momentum 0.9 and weight decay 0.001; the losses."""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=0.001)
    losses = []
    for images, labels in batches:
        # TODO(5): the loss is torch.nn.functional.cross_entropy; its gradients; the optimizer's
        #          step. Append loss.item().
        # BEGIN STUB
        # pass
        # END STUB
        # BEGIN SOLUTION
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        # END SOLUTION
    return losses


if __name__ == "__main__":
    from backwarp.layers.training import main

    main(LeNet, train)
