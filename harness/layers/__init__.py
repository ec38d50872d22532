"""Puzzle 40: a student's PyTorch operators on the course's kernels, driven in one process and judged in another."""
