"""Repair: the smallest change to a wrong kernel's own text that makes it right in every case.

from_solution.py first tries what the solution suggests, where the kernel differs from it.

Then all edits are tried: edits.py says what can be changed and how that reads, sites.py where, pool.py, kinds.py and
terms.py what can be put in, ranks.py how far-fetched that is, texts.py (with halves.py and collectives.py) what each needs a file of its own.
schemata.py (with statements.py, insertions.py, moves.py, neighbours.py, expressions.py and support.py) writes all other edits into
one kernel that is compiled once; pairs.py, guards.py and directions.py say which belong together; variants.py runs them;
search.py says in what order, and suspicion.py in which lines first.

repair.py represents a repair, telling.py explains it to the student.
"""
