"""From CUDA C++ to machine code: the steps, the cache, the child process."""
