"""Why a kernel is wrong, as findings (`grading/findings.py`). `grading/explain.py` asks all of these and decides what goes into
the verdict.

Found by running kernels: naming.py compares a wrong output with what the declared mistakes write
(wrong_kernels.py); other_inputs.py and combined.py compare it with what the right kernel computes from other
inputs; added_up.py asks what it adds up: summed.py finds the terms and formulas.py describes them (rules.py, places.py,
place_steps.py, one_element.py); dependences.py does so for results that are not sums, shares.py for sums computed by a whole
block. orders.py sorts the inputs; integers.py looks at integers; not_finite.py finds where a NaN first appears. fault_values.py
and noting.py give the values behind a bad access, outside_axis.py which of them are outside of their axis, written.py what was
written before it.

Found in the source text: text_causes.py calls slips.py, misuses.py (rows_columns.py, array_steps.py, counted_axes.py,
guarded_axes.py, digits.py, remainders.py, tile_slips.py, launch_axes.py, block_slips.py) and only_change.py; unset.py and
only_store.py say why an element has no value, collectives.py which lanes a mask names in vain.
"""
