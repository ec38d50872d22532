"""Repair: the smallest change to a wrong kernel's own text that makes it right in every case.

from_solution.py first tries what the solution suggests, where the kernel differs from it.

Then all edits are tried: edits.py defines the operations and how they read, sites.py where they apply, pool.py and
terms.py which values they insert, ranks.py how likely those are.
schemata.py (with statements.py, moves.py, expressions.py and support.py) writes all of them into one kernel that is
compiled once; pairs.py says which edits belong together; variants.py runs them; order.py decides their order, and
suspicion.py which lines come first; search.py tries them, and judge.py grades what is left.

repair.py represents a repair, telling.py explains it to the student.
"""
