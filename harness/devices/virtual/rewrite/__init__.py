"""PTX -> PTX."""
