"""LLVM text of kernels whose threads are lanes of vectors, as determined by `analyse/lanes`.

`body` is the text of a kernel; `lift` makes vectors of what the table of opcodes writes, and `rows` several of each;
`values` are the operands; `memory` is loads and stores: `patterns` by their addresses, `checks` whether they are within an
array, `slow` lane by lane where they may not be; `exchanges` is shuffles and votes, `matrices` is ldmatrix and mma,
`copies` is cp.async.
"""
