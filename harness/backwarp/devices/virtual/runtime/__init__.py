"""What compiled kernels call: the virtual GPU's own CUDA C++ code, and the state shared with Python."""
