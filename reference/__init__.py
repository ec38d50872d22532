"""What the course's kernels should compute: plain float64 NumPy, written to be read."""
