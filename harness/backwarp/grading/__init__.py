"""Runs one file in every build and order, and returns a Verdict. Nothing here prints."""
