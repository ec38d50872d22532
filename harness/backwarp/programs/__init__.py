"""Whole CUDA programs on the virtual GPU: `backwarp exec prog.cu`, without a CUDA toolkit, a compiler or a GPU on the machine.

compiler.py compiles the host part by clang and links it with host/shim.cpp, CUDA's runtime as messages. The program runs in a
process of its own (process.py, confined by start.py) and asks this one for everything; session.py answers: it knows memory,
streams and kernels, launches these on the virtual GPU, and names mistakes (mistakes.py), with the line from the program's debug
information (lines.py). run.py is all of it together.
"""
