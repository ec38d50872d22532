"""Launches: memory, blocks on processor cores, output and results."""
