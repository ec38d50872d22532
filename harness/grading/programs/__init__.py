"""Python puzzles: the file runs in a confined process (worker.py) that program.py starts and data.py speaks to; grade.py judges."""
