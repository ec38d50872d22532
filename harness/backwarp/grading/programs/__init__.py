"""Python puzzles: program.py runs the file in a confined process (worker.py), data.py defines the messages,
grade.py judges."""
