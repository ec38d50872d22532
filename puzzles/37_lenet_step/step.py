"""Puzzle 37: one step of LeNet, forward and backward, from the kernels of part 1.

What to do: launch the kernels in the right order on the right arrays. A launch names
a kernel and its arrays, in the order of the kernel's signature; the sizes, the grid and
the block are taken from the arrays. The lesson has a table of all arrays.
You will write about 22 lines.

Check: backwarp grade 37    Stuck: backwarp hint 37    Start again: backwarp reset 37
"""


def forward(net):
    """From net.images to net.logits, then net.losses and net.loss."""
    net.launch("conv2d_forward", net.images, net.conv1_weights, net.conv1_bias, net.conv1)
    net.launch("relu_forward", net.conv1, net.relu1)
    net.launch("max_pool2d_forward", net.relu1, net.pool1, net.places1)

    # TODO(1): the same for conv2, relu2 and pool2.

    # TODO(2): the fully connected layers fc1 and fc2, each with its ReLU; then fc3, which
    #          stores net.logits.

    net.launch("softmax_cross_entropy_forward", net.logits, net.labels, net.losses)
    net.launch("mean_loss", net.losses, net.loss)


def backward(net):
    """From net.logits back to the gradients of all ten parameters."""
    net.launch("softmax_cross_entropy_backward", net.logits, net.labels, net.grad_logits)
    fc_backward(net, "fc3", net.grad_logits, net.relu4, net.grad_relu4)

    # TODO(3): back through relu4, fc2, relu3 and fc1, down to net.grad_pool2.

    # TODO(4): back through pool2, relu2 and conv2: its weights, its bias, its input.

    # TODO(5): back through pool1, relu1 and conv1. Nobody needs the gradient of the images.


def fc_backward(net, layer, grad_output, layer_input, grad_input):
    """The three gradients of one fully connected layer: "fc1", "fc2" or "fc3"."""
    # TODO(6): its weights, its bias, its input. net["grad_" + layer + "_bias"] is an array, too.
