"""LeNet on the course's kernels: data, model, training. The entry point is `backwarp train`."""
