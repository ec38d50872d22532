"""A stand-in for CuPy whose kernels run on the virtual GPU: for rehearsing what is done with a GPU.

It is of a compute capability that no compiler knows yet, for which the GPU is handed PTX instead of machine code.
"""
