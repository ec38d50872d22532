"""The kernel's printf: formatted here, from the packed arguments that CUDA hands to vprintf."""

from __future__ import annotations

import ctypes
import re
import struct

from . import jit
from .memory import Arena

MAX_CHARACTERS = 64 << 10
MAX_LINES = 1000

_SPEC = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|z|j|t|L)?([a-zA-Z%])")
_open: dict[int, "Output"] = {}  # host address of a Launch -> where its printf goes
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)


class Output:
    """The text a launch prints, cut at MAX_CHARACTERS or MAX_LINES; what follows is only counted."""

    def __init__(self, arena: Arena, launch):
        self.arena, self.launch = arena, launch
        self.parts: list[str] = []
        self.characters = self.lines = 0

    def __enter__(self):
        _open[self.launch.ctypes.data] = self
        return self

    def __exit__(self, *_):
        del _open[self.launch.ctypes.data]

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def write(self, format_address: int, arguments: int) -> int:
        text, count = format_c(c_string(self.arena, format_address), Arguments(self.arena, arguments))
        self.parts.append(text)
        self.characters += len(text)
        self.lines += text.count("\n") or 1
        if self.characters > MAX_CHARACTERS or self.lines >= MAX_LINES:
            self.launch["printf_open"] = 0
        return count


class Arguments:
    """Packed varargs in device memory: 4-byte values aligned to 4, 8-byte values to 8."""

    def __init__(self, arena: Arena, address: int):
        self.arena, self.address, self.offset = arena, address, 0

    def take(self, size: int, kind: str):
        self.offset = -(-self.offset // size) * size
        start = self.address + self.offset
        self.offset += size
        if start + size > self.arena.size:
            return 0
        return struct.unpack("<" + kind, self.arena.bytes[start : start + size].tobytes())[0]


def c_string(arena: Arena, address: int, limit: int = 4096) -> str:
    """The zero-terminated string at a device address; readable bytes only."""
    out = bytearray()
    while len(out) < limit and address < arena.size and arena.shadow[address // 4]:
        byte = arena.bytes[address]
        if byte == 0:
            break
        out.append(byte)
        address += 1
    return out.decode("utf-8", "replace")


def format_c(template: str, arguments: Arguments) -> tuple[str, int]:
    """C's printf formatting. Returns (text, number of conversions)."""
    count = 0

    def convert(match: re.Match) -> str:
        nonlocal count
        flags, width, precision, length, kind = match.groups()
        if kind == "%":
            return "%"
        width = str(arguments.take(4, "i")) if width == "*" else width or ""
        precision = str(arguments.take(4, "i")) if precision == "*" else precision
        spec = "%" + flags + width + ("" if precision is None else "." + precision)
        count += 1
        wide = length in ("ll", "l", "z", "j", "t")
        if kind in "di":
            return (spec + "d") % arguments.take(8 if wide else 4, "q" if wide else "i")
        if kind in "uxXo":
            return (spec + ("d" if kind == "u" else kind)) % arguments.take(8 if wide else 4, "Q" if wide else "I")
        if kind in "fFeEgGaA":
            number = arguments.take(8, "d")
            return number.hex() if kind in "aA" else (spec + kind) % number
        if kind == "c":
            return (spec + "c") % chr(arguments.take(4, "I") & 0xFF)
        if kind == "s":
            return (spec + "s") % c_string(arguments.arena, arguments.take(8, "Q"))
        if kind == "p":
            return f"0x{arguments.take(8, 'Q'):x}"
        return match[0]

    return _SPEC.sub(convert, template), count


@_CALLBACK
def _printf(launch: int, format_address: int, arguments: int) -> int:
    output = _open.get(launch)
    try:
        return output.write(format_address, arguments) if output else 0
    except Exception as error:  # nothing may escape into compiled code
        output.parts.append(f"[printf: {error}]\n")
        return -1


jit.HOST_FUNCTIONS["bw_printf"] = _printf
