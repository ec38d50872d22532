"""Repair: the smallest change to a wrong kernel's own text that makes it right in every case.

edits.py says what can be changed and how that reads, sites.py where, pool.py what can be put in. schemata.py (with
statements.py, expressions.py and support.py) writes all edits into one kernel that is compiled once; pairs.py says which
belong together; search.py runs them and grades what is left; telling.py says it to the student.
"""
