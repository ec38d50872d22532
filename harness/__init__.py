"""The grader of Backwarp: compiles, runs and judges CUDA kernels on a GPU or without one."""
