"""A stand-in for CuPy: the few calls that gpu_worker makes, on host memory. Its kernels are Python."""
