"""One reader of CUDA text: its tree, names in scope, expressions with values, accesses and stores. It knows nothing of the
other folders."""
