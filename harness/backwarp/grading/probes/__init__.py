"""What is learnt by running a wrong kernel: added_up.py asks what it adds up, summed.py finds the terms and formulas.py describes
them (rules.py, places.py, one_element.py); dependences.py does so for results that are not sums, shares.py for
sums of a whole block; not_finite.py finds where a NaN first appears. fault_values.py and noting.py
give the values behind a bad access, outside_axis.py which of them are outside of their axis, written.py what was written before
it. access_map.py compares all accesses with those of right results (noted.py, indices.py).
"""
