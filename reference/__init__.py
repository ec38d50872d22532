"""What the kernels of the course ought to compute: plain NumPy in float64, written to be read."""
