"""Repair: the smallest change to a wrong kernel's own text that makes it right in every case.

from_solution.py first tries what the solution suggests, where the kernel differs from it.

Then all edits are tried: edits.py defines the operations and how they read, sites.py where they apply,
pool.py, kinds.py and terms.py which values they insert, ranks.py (with several.py) how likely those are, texts.py
(with halves.py, fills.py, alike.py and collectives.py) the edits that each need a file of their own. schemata.py (with statements.py,
insertions.py, moves.py, neighbours.py, expressions.py and support.py) writes all other edits into one kernel
that is compiled once; pairs.py, loops.py, guards.py and directions.py say which edits belong together, lines.py combines
those of one line; variants.py runs them; search.py decides their order, and suspicion.py which lines come first.

macros.py writes out macros that begin a loop, before anything else.

repair.py represents a repair, telling.py explains it to the student.
"""
