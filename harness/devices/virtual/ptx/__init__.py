"""PTX: its text, its instructions, what each is."""
