"""Puzzle 44: the gradients of a batch that the device has no room for, chunk by chunk.

What to do: copy each chunk to the device, launch its kernels, copy its result back, in
three streams, so that copies and kernels of different chunks overlap. Events make the
order certain. The device has room for the arrays of three chunks.
You will write about 17 lines.

Check: backwarp grade 44    Stuck: backwarp hint 44    Start again: backwarp reset 44
On a GPU, with CuPy: python puzzles/44_streams/streams.py
"""

import cupy as cp

from backwarp.streams import launch


def backward(images, grad_output, weights, grad_images, grad_weights, chunk):
    """Fills grad_images and grad_weights, the gradients of a convolution.

    All five are NumPy arrays of float32 in pinned host memory: images and grad_images
    (N, C, H, W), grad_output (N, K, P, Q), weights and grad_weights (K, C, F, F).
    """
    copy_in, compute, copy_out = (cp.cuda.Stream(non_blocking=True) for _ in range(3))
    with compute:  # what follows is asked for in this stream
        w = cp.empty(weights.shape, cp.float32)
        w.set(weights, stream=compute)
        total = cp.zeros(weights.shape, cp.float32)
        part = cp.empty(weights.shape, cp.float32)

    # two arrays for each purpose, for chunks with an even and an odd number
    x = [cp.empty((chunk, *images.shape[1:]), cp.float32) for _ in range(2)]
    grad = [cp.empty((chunk, *grad_output.shape[1:]), cp.float32) for _ in range(2)]
    grad_x = [cp.empty((chunk, *images.shape[1:]), cp.float32) for _ in range(2)]

    filled, used, copied = ([cp.cuda.Event() for _ in range(2)] for _ in range(3))

    for i, start in enumerate(range(0, len(images), chunk)):
        p, stop = i % 2, min(start + chunk, len(images))
        n = stop - start  # the last chunk may be smaller

        # TODO(1): in copy_in, x[p][:n] and grad[p][:n] get images and grad_output, from start
        #          to stop: array.set(values, stream=...). Not before the kernels that read these
        #          two arrays last have ended: stream.wait_event(event). Then filled[p].record(...).

        # TODO(2): in compute, launch conv2d_backward_weights, which stores part; add part to
        #          total with +=; launch conv2d_backward_input, which stores grad_x[p][:n]. What
        #          do these have to wait for, and what for them?

        # TODO(3): in copy_out, the result goes to its part of grad_images:
        #          array.get(out=..., stream=..., blocking=False).

    # TODO(4): total goes to grad_weights. When backward returns, all copies have ended.


if __name__ == "__main__":
    from backwarp.streams.measure import main

    main(backward)
