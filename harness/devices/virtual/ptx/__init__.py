"""PTX: its text, its instructions, and the properties of each."""
