"""Launches: memory, blocks over processor cores, what they print and leave behind."""
