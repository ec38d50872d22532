"""What the kernels of the course should compute: plain NumPy in float64, written to be read."""
