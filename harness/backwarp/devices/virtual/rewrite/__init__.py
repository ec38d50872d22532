"""Semantics-preserving transformations, PTX -> PTX."""
