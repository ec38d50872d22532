"""PTX: its text, its instructions, and what each of them is (`isa`: one row for each family of opcodes)."""
