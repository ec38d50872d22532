"""What can be read in the text of a wrong kernel: causes.py asks statements.py (code that compiles but cannot be meant),
misuses.py (what the puzzle gives is used wrongly) and only_change.py. The others answer single questions."""
