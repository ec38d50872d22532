"""What compiled kernels call: CUDA C++ of the virtual GPU's own, and the state they share with Python."""
