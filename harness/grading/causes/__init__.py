"""Why a kernel is wrong, in the words of the puzzle. `grading/explain.py` asks, and decides what a verdict tells.

What a wrong output is, found by running kernels: naming.py compares it with what the declared mistakes write
(wrong_kernels.py), other_inputs.py and combined.py with what the right kernel makes of other inputs, summed.py finds
the terms it adds up and formulas.py tells them (rules.py, places.py, one_element.py), dependences.py does so where
nothing is summed, shares.py where the threads of a block add up together. orders.py sorts the inputs; integers.py looks
at integers; not_finite.py finds where a NaN arises.

What the text says: text_causes.py asks misuses.py and slips.py (near_solution.py, same_values.py, rows_columns.py,
array_steps.py, guarded_axes.py, digits.py, remainders.py, loop_slips.py; findings.py is what they find), unset.py why
there is no value. fault_values.py and noting.py give the values behind a bad access, written.py what was written before.
"""
