"""Checks and counters that are added to a kernel."""
