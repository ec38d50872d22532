"""Puzzle 38: the training of LeNet: learning rate, update, loop, accuracy.

What to do: four small functions turn the step of puzzle 37 into training. The rate
says how far a step goes, the update changes the parameters, the loop does it for every
batch, and the accuracy says how good LeNet has become on images it has never seen.
You will write about 18 lines.

Check: backwarp grade 38    Stuck: backwarp hint 38    Start again: backwarp reset 38
"""

import math

PEAK, MOMENTUM, WEIGHT_DECAY = 0.02, 0.9, 0.001


def learning_rate(step, steps):
    """The learning rate of step 0, 1, ... steps - 1."""
    # TODO(1): in the first tenth of the steps, rise in a straight line: PEAK / warm_up in
    #          step 0, PEAK in step warm_up - 1. After that, fall from PEAK along half a
    #          cosine, which would reach 0 in step `steps`.
    warm_up = max(1, steps // 10)
    # BEGIN STUB
    # return PEAK
    # END STUB
    # BEGIN SOLUTION
    if step < warm_up:
        return PEAK * (step + 1) / warm_up
    done = (step - warm_up) / (steps - warm_up)
    return PEAK * (1 + math.cos(math.pi * done)) / 2
    # END SOLUTION


def update(net, rate):
    """Changes every parameter by its gradient."""
    for name in net.parameters:
        # TODO(2): launch sgd_step on net[name], its velocity and its gradient, with the numbers
        #          learning_rate, momentum and weight_decay by name.
        # BEGIN STUB
        # pass
        # END STUB
        # BEGIN SOLUTION
        arrays = net[name], net["velocity_" + name], net["grad_" + name]
        net.launch("sgd_step", *arrays, learning_rate=rate, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)
        # END SOLUTION


def train(net, batches):
    """One step for each batch of a list; the list of the losses."""
    losses = []
    # TODO(3): for every batch: load images and labels into net, forward, backward, update
    #          with this step's rate; append the loss, net.loss.get()[0].
    # BEGIN SOLUTION
    for step, (images, labels) in enumerate(batches):
        net.load(images, labels)
        net.forward()
        net.backward()
        update(net, learning_rate(step, len(batches)))
        losses.append(net.loss.get()[0])
    # END SOLUTION
    return losses


def accuracy(net, batches):
    """The share of images whose largest logit is that of their label, from 0 to 1."""
    right = total = 0
    # TODO(4): for every batch: load it, run forward, compare net.logits.get().argmax(axis=1)
    #          with the labels. The last batch may be smaller.
    # BEGIN SOLUTION
    for images, labels in batches:
        net.load(images, labels)
        net.forward()
        right += (net.logits.get().argmax(axis=1) == labels).sum()
        total += len(labels)
    # END SOLUTION
    return right / max(total, 1)
