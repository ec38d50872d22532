"""Transformations, PTX -> PTX, that keep what a kernel does."""
