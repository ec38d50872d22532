"""CUDA C++ -> PTX, with NVIDIA's own compiler."""
