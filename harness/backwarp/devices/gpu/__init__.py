"""A GPU, through CuPy."""
