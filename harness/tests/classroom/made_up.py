"""Submissions made up by seed: right, wrong, hostile, empty, in broken encodings, links, duplicates.

`python -m tests.classroom.made_up DIR --people 200 --puzzles 12` writes them as folders, one per person.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import click

from backwarp.course.checkout import Course
from backwarp.course.declare import Puzzle
from backwarp.course.stubs import stub_text
from tests import ROOT

HOSTILE = (
    'extern "C" __global__ void {kernel}({parameters}) {{ while (true) {{ }} }}',
    'extern "C" __global__ void {kernel}({parameters}) {{ for (;;) printf("more"); }}',
    '#include "/etc/passwd"\n',
    '#include "/dev/zero"\n',
    "#define A A A\n" + "(" * 5000,
    'extern "C" __global__ void {kernel}({parameters}) {{ asm volatile("trap;"); }}',
)
KINDS = (
    "right",
    "right",
    "right",
    "same",
    "wrong",
    "wrong",
    "stub",
    "hostile",
    "empty",
    "encoding",
    "link",
    "none",
)


def text_for(puzzle: Puzzle, kind: str, chance: random.Random) -> bytes:
    solution = puzzle.solution_path.read_text(encoding="utf-8")
    if kind in ("right", "same"):
        return (solution + (f"// {chance.random()}\n" if kind == "right" else "")).encode()
    if kind == "wrong":
        places = [
            m
            for m in re.finditer(r"[-+*<]|\b[01]\b", solution)
            if "//" not in solution[: m.start()].rsplit("\n", 1)[-1]
        ]
        place = chance.choice(places)
        other = {"+": "-", "-": "+", "*": "+", "<": ">", "0": "1", "1": "2"}[place[0]]
        return (solution[: place.start()] + other + solution[place.end() :]).encode()
    if kind == "hostile":
        kernel = puzzle.kernels[0] if puzzle.kernels else None
        names = (
            {"kernel": kernel.name, "parameters": ", ".join(p.declaration for p in kernel.params)}
            if kernel
            else {}
        )
        return chance.choice(HOSTILE).format(**names).encode() if names else b"import os; os.fork()\n"
    if kind == "encoding":
        return solution.encode("utf-16") if chance.random() < 0.5 else solution.encode() + b"\xff\xfe\0"
    return b"" if kind == "empty" else stub_text(puzzle).encode()


def make(target: Path, people: int, puzzles: list[Puzzle], seed: int = 0) -> dict[str, int]:
    """Writes a folder per person; returns how many files are of each kind."""
    chance, counts = random.Random(seed), dict.fromkeys(KINDS, 0)
    for number in range(people):
        person = target / f"person {number:03}"
        for puzzle in puzzles:
            kind = chance.choice(KINDS)
            counts[kind] += 1
            path = person / puzzle.id / puzzle.file
            if kind == "none":
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if kind == "link":
                path.symlink_to(chance.choice((puzzle.solution_path, Path("/etc/passwd"), Path("/dev/zero"))))
            else:
                path.write_bytes(text_for(puzzle, kind, chance))
    return counts


@click.command()
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--people", default=200)
@click.option("--puzzles", default=12)
@click.option("--seed", default=0)
def main(target: Path, people: int, puzzles: int, seed: int) -> None:
    print(make(target, people, [p for p in Course(ROOT).puzzles() if not p.program][:puzzles], seed))


if __name__ == "__main__":
    main()
