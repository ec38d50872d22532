"""Why a kernel is wrong, in the words of the puzzle. `grading/explain.py` calls this and decides what goes
into the verdict.

Found by running kernels: naming.py compares a wrong output with what the declared mistakes write
(wrong_kernels.py); other_inputs.py and combined.py compare it with what the right kernel computes from other
inputs; summed.py finds the terms that it sums and formulas.py describes them (rules.py, places.py,
one_element.py); dependences.py does so for results that are not sums, shares.py for sums computed by a whole
block. orders.py sorts the inputs; integers.py looks at integers; not_finite.py finds where a NaN first appears.

Found in the source text: text_causes.py calls misuses.py and slips.py (near_solution.py, same_values.py,
rows_columns.py, array_steps.py, counted_axes.py, guarded_axes.py, digits.py, remainders.py, tile_slips.py, too_few.py;
findings.py holds what they return); unset.py says why an element has no value, limits.py which comparison ends where the sums do. fault_values.py and noting.py give the values behind
a bad access, outside_axis.py which of them are outside of their axis, written.py what was written before it,
left_out.py which store leaves out what is read.
"""
