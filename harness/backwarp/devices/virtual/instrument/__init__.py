"""Checks and counters added to a kernel: one module for each, every one a pass from PTX to PTX.

`insert` lists what passes insert besides ordinary PTX. compile/recipes.py says which builds have a check,
compile/pipeline.py gives the order.
"""
