"""PTX: its text, its instructions, and their meaning (`isa`: one row per family of opcodes)."""
