"""Where an address of a program is in its text, by the debug information that its compiler wrote.

Source: DWARF 4, sections 6.2 (line numbers) and 3.3.8 (what was inlined, and where it was called).
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class Place:
    """A line of one of the program's files. column: from 1; 0 where it is not known."""

    file: str
    line: int
    column: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Lines:
    """program: an ELF file. files: the names that count as the program's own; others are libraries'."""

    def __init__(self, program: bytes, files: Iterable[str]):
        self._program, self._files = program, sorted(files, key=len, reverse=True)

    def places(self, frames: Sequence[int]) -> list[Place]:
        """The program's lines from a call outwards. frames: the addresses that calls return to."""
        found: list[Place] = []
        for frame in frames:
            if frame:
                found += [p for p in self._at(frame - 1) if not found or p != found[-1]]
        return found

    def place(self, frames: Sequence[int]) -> Place | None:
        return next(iter(self.places(frames)), None)

    def _at(self, address: int) -> list[Place]:
        """The places of one address: where it is, and where what was inlined there was called."""
        starts, rows = self._rows
        i = bisect_right(starts, address) - 1
        raw = [rows[i]] if i >= 0 else []  # file, line and column
        holding = [i for i in reversed(self._inlined) if i[0] <= address < i[1]]
        inlined = sorted(
            holding, key=lambda i: i[1] - i[0]
        )  # of two as long, the one in the other comes first
        raw += [place for _, _, *place in inlined]
        return [Place(own, line, column) for file, line, column in raw if line and (own := self._own(file))]

    def _own(self, file: str) -> str:
        return next((name for name in self._files if file == name or file.endswith(f"/{name}")), "")

    @cached_property
    def _unit(self):
        """The program's own compilation unit, which is linked first, and the names of its files."""
        from elftools.elf.elffile import ELFFile

        debug = ELFFile(io.BytesIO(self._program)).get_dwarf_info()
        unit = next(
            u for u in debug.iter_CUs() if self._own(_text(u.get_top_DIE().attributes["DW_AT_name"].value))
        )
        program = debug.line_program_for_CU(unit)
        folders = [_text(f) for f in program["include_directory"]]
        names = [""]
        for entry in program["file_entry"]:
            folder = folders[entry.dir_index - 1] + "/" if entry.dir_index else ""
            names.append(folder + _text(entry.name))
        return debug, unit, program, names

    @cached_property
    def _rows(self) -> tuple[list[int], list[tuple[str, int, int]]]:
        _, _, program, names = self._unit
        found: dict[int, tuple[str, int, int]] = {}
        for entry in program.get_entries():
            if (state := entry.state) is not None:
                place = names[state.file], state.line, state.column
                found[state.address] = ("", 0, 0) if state.end_sequence else place
        starts = sorted(found)
        return starts, [found[start] for start in starts]

    @cached_property
    def _inlined(self) -> list[tuple[int, int, str, int, int]]:
        """(start, end, file, line, column): addresses of what was inlined, and where it was called."""
        debug, unit, _, names = self._unit
        ranges, found = debug.range_lists(), []
        base = unit.get_top_DIE().attributes["DW_AT_low_pc"].value
        for die in unit.iter_DIEs():
            if die.tag != "DW_TAG_inlined_subroutine" or "DW_AT_call_line" not in die.attributes:
                continue
            at = die.attributes
            column = at["DW_AT_call_column"].value if "DW_AT_call_column" in at else 0
            place = names[at["DW_AT_call_file"].value], at["DW_AT_call_line"].value, column
            if "DW_AT_ranges" in at:
                parts = ranges.get_range_list_at_offset(at["DW_AT_ranges"].value, unit)
                spans = [
                    (base + p.begin_offset, base + p.end_offset) for p in parts if hasattr(p, "begin_offset")
                ]
            else:
                low, high = at["DW_AT_low_pc"].value, at["DW_AT_high_pc"]
                spans = [(low, high.value if high.form == "DW_FORM_addr" else low + high.value)]
            found += [(*span, *place) for span in spans]
        return found


def _text(name: bytes | str) -> str:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else name
