"""Presentations of a Verdict."""
