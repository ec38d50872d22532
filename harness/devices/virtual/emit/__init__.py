"""PTX -> LLVM text."""
