"""What the course asks: puzzles as they are declared, the student's files, inputs, progress."""

from .declare import *  # noqa: F403  (what puzzles are declared with)
