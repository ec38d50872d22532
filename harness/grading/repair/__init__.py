"""Repair: the smallest change to a wrong kernel's own text that makes it right in every case.

edits.py says what can be changed and how that reads, schemata.py writes all changes into one kernel that is
compiled once, search.py runs them and grades what is left.
"""
