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
    # BEGIN SOLUTION
    net.launch("conv2d_forward", net.pool1, net.conv2_weights, net.conv2_bias, net.conv2)
    net.launch("relu_forward", net.conv2, net.relu2)
    net.launch("max_pool2d_forward", net.relu2, net.pool2, net.places2)
    # END SOLUTION

    # TODO(2): the fully connected layers fc1 and fc2, each with its ReLU; then fc3, which
    #          stores net.logits.
    # BEGIN SOLUTION
    net.launch("fc_forward", net.pool2, net.fc1_weights, net.fc1_bias, net.fc1)
    net.launch("relu_forward", net.fc1, net.relu3)
    net.launch("fc_forward", net.relu3, net.fc2_weights, net.fc2_bias, net.fc2)
    net.launch("relu_forward", net.fc2, net.relu4)
    net.launch("fc_forward", net.relu4, net.fc3_weights, net.fc3_bias, net.logits)
    # END SOLUTION

    net.launch("softmax_cross_entropy_forward", net.logits, net.labels, net.losses)
    net.launch("mean_loss", net.losses, net.loss)


def backward(net):
    """From net.logits back to the gradients of all ten parameters."""
    net.launch("softmax_cross_entropy_backward", net.logits, net.labels, net.grad_logits)
    fc_backward(net, "fc3", net.grad_logits, net.relu4, net.grad_relu4)

    # TODO(3): back through relu4, fc2, relu3 and fc1, down to net.grad_pool2.
    # BEGIN SOLUTION
    net.launch("relu_backward", net.grad_relu4, net.fc2, net.grad_fc2)
    fc_backward(net, "fc2", net.grad_fc2, net.relu3, net.grad_relu3)
    net.launch("relu_backward", net.grad_relu3, net.fc1, net.grad_fc1)
    fc_backward(net, "fc1", net.grad_fc1, net.pool2, net.grad_pool2)
    # END SOLUTION

    # TODO(4): back through pool2, relu2 and conv2: its weights, its bias, its input.
    # BEGIN SOLUTION
    net.launch("max_pool2d_backward", net.grad_pool2, net.places2, net.grad_relu2)
    net.launch("relu_backward", net.grad_relu2, net.conv2, net.grad_conv2)
    net.launch("conv2d_backward_weights", net.grad_conv2, net.pool1, net.grad_conv2_weights)
    net.launch("conv2d_backward_bias", net.grad_conv2, net.grad_conv2_bias)
    net.launch("conv2d_backward_input", net.grad_conv2, net.conv2_weights, net.grad_pool1)
    # END SOLUTION

    # TODO(5): back through pool1, relu1 and conv1. Nobody needs the gradient of the images.
    # BEGIN SOLUTION
    net.launch("max_pool2d_backward", net.grad_pool1, net.places1, net.grad_relu1)
    net.launch("relu_backward", net.grad_relu1, net.conv1, net.grad_conv1)
    net.launch("conv2d_backward_weights", net.grad_conv1, net.images, net.grad_conv1_weights)
    net.launch("conv2d_backward_bias", net.grad_conv1, net.grad_conv1_bias)
    # END SOLUTION


def fc_backward(net, layer, grad_output, layer_input, grad_input):
    """The three gradients of one fully connected layer: "fc1", "fc2" or "fc3"."""
    # TODO(6): its weights, its bias, its input. net["grad_" + layer + "_bias"] is an array, too.
    # BEGIN SOLUTION
    net.launch("fc_backward_weights", grad_output, layer_input, net["grad_" + layer + "_weights"])
    net.launch("fc_backward_bias", grad_output, net["grad_" + layer + "_bias"])
    net.launch("fc_backward_input", grad_output, net[layer + "_weights"], grad_input)
    # END SOLUTION
