"""What is read from the record of a run: its lines as moments that one can go to, forth and back, and what variables and arrays
held then."""
