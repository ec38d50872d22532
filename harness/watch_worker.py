"""The process in which `backwarp watch` grades: kept warm between two saves, and ended when it hangs or dies."""

from __future__ import annotations

import os
from pathlib import Path

from .checkout import Course
from .devices.child import attach
from .errors import BackwarpError
from .grade import Options, grade_file


def main() -> None:
    connection = attach()
    while True:
        try:
            _, (root, puzzle_id, device, seed) = connection.recv()
        except (EOFError, OSError):
            os._exit(0)
        try:
            puzzle = Course(Path(root)).load(puzzle_id)
            answer = "ok", grade_file(puzzle, puzzle.stub_path, Options(device, seed))
        except BackwarpError as error:
            answer = "error", error, False
        connection.send(answer)


if __name__ == "__main__":
    main()
