"""Checks and counters added to a kernel."""
