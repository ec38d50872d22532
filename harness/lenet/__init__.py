"""LeNet on the course's kernels: data, model, training. `backwarp train` is the way in."""
