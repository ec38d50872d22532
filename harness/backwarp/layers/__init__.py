"""Puzzle 40: a student's PyTorch operators on the course's kernels, run in one process and graded in
another."""
