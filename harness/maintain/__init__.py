"""Scripts that regenerate committed results, and benchmarks of the virtual GPU."""
