"""Verdicts, figures and progress as text, JSON, HTML and pictures."""
