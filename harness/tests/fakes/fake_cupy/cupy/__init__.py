"""A stand-in for CuPy: the few calls that gpu/worker.py makes, on host memory. Its kernels are Python."""
