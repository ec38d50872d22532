"""Analyses of PTX, which never change it."""
