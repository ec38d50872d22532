"""What regenerates the results that are committed, and benchmarks of the virtual GPU."""
