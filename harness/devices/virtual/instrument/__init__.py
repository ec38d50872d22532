"""Checks and counters added to a kernel: one module for each, a pass from PTX to PTX.

What passes insert beside ordinary PTX is listed in `insert`. compile/recipes.py says which builds make a check,
compile/pipeline.py in which order.
"""
