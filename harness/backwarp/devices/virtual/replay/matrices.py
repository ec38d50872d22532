"""What instructions on matrices give to the lanes of a warp: which lane has which element of a fragment. The drawings in
puzzles/include/mma.cuh show the same. Source: PTX ISA, sections 9.7.14.5 (fragments of mma) and 9.7.14.5.15 (ldmatrix)."""

from __future__ import annotations

import re

import numpy as np

from .record import Record

_PRODUCT = re.compile(r"\.m16n8k(\d+)\..*\.f32\.(f16|bf16|tf32)\.")


def loaded(record: Record, who: int, head: int, register: int, part: int) -> tuple[np.void, int] | None:
    """Where ldmatrix has found two bytes, `part` bytes into a register of a lane: (the access of the lane that gave the row's
    address, the offset in its array). head: the place of its "pass" in the thread's rows."""
    lane = who & 31
    row, column = lane // 4, lane % 4 * 2 + part // 2
    if ".trans" in record.of(int(record.threads[who][head]))[5]:
        row, column = column, row
    other = who - lane + 8 * register + row
    place = record.same(who, other, head - 1)
    index = None if place is None else record.access_at.get(int(record.threads[other][place]))
    if index is None:
        return None
    access = record.accesses[index]
    return access, int(access["offset"]) + 2 * column


def delivered(record: Record, access: np.void) -> list[tuple[str, float]]:
    """What a lane gets from an ldmatrix to which it has given an address: (element, value), register by register."""
    who, found = int(access["who"]), []
    rows = record.threads[who]
    head = int(np.searchsorted(rows, access["row"])) + 1
    for register in range(4):
        at = head + 1 + register
        if at >= len(rows) or record.of(int(rows[at]))[0] != "got":
            break
        for part in (0, 2):
            if (source := loaded(record, who, head, register, part)) and source[0]["array"] >= 0:
                held = record.arrays[source[0]["array"]]
                bits = int(record.rows["value"][rows[at]]) >> 8 * part & 0xFFFF
                value = np.array([bits], np.uint16).view(np.float16)[0].item()
                found.append((held.element(source[1] // held.dtype.itemsize), value))
    return found


def factors(opcode: str, lane: int, register: int) -> list[tuple[tuple[int, int, int], tuple[int, int, int]]]:
    """What an mma adds up in a register of D of a lane: for each product, of A and of B, (lane, register, the first byte of two in
    it, or -1 for all). None for shapes that are not 16 x 8, and other D than floats."""
    if not (found := _PRODUCT.search(opcode)):
        return []
    halves = 1 if found[2] == "tf32" else 2
    row, column, products = lane // 4 + register // 2 * 8, lane % 4 * 2 + register % 2, []
    for k in range(int(found[1])):
        e, rest = divmod(k, 4 * halves)
        t, half = divmod(rest, halves)
        part = 2 * half if halves == 2 else -1
        products.append(((row % 8 * 4 + t, row // 8 + 2 * e, part), (column * 4 + t, e, part)))
    return products
