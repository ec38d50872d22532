"""PTX -> LLVM text.

The translation of an opcode is a row of `table`, in the module for its section of the manual; control flow,
memory, calls and collectives are methods of the emitter.
"""
