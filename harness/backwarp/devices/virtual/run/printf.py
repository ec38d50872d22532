"""The kernel's printf: formatted here from the packed arguments that CUDA passes to vprintf.

As in CUDA itself, this machine's C library formats the numbers. It never sees the student's format string,
only single conversions of a known kind.
"""

from __future__ import annotations

import ctypes
import re
import struct

from ..compile import link
from ..runtime.abi import GIVEN_UP, GRANULE, PARTIAL, READ, Launch
from .arena import Arena

MAX_CHARACTERS = 64 << 10
MAX_LINES = 1000

_WIDEST = 4000  # characters of one conversion
_SPEC = re.compile(rb"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d*))?(hh|h|ll|l|z|j|t|L)?([a-zA-Z%])")
_snprintf = ctypes.CDLL(None).snprintf
_open: dict[int, Output] = {}  # host address of a Launch -> the destination of its printf
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)


class Output:
    """The text that each launch of a device prints, cut at MAX_CHARACTERS or MAX_LINES; the rest is only counted."""

    def __init__(self, arena: Arena, launch: Launch):
        self.arena, self.launch = arena, launch
        self._key = ctypes.addressof(launch)
        self._clear()

    def _clear(self) -> None:
        self.parts: list[str] = []
        self.places: list[int] = []  # of each part, how far the launch's record was: see record
        self.characters = self.lines = 0
        self.interruption: BaseException | None = None

    def __enter__(self):
        if self.parts or self.interruption:
            self._clear()
        _open[self._key] = self
        return self

    def __exit__(self, *_):
        del _open[self._key]
        if self.interruption:
            raise self.interruption

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def write(self, format_address: int, arguments: int) -> int:
        self.places.append(self.launch.rows)
        taken = Arguments(self.arena, arguments)
        formatted, count = format_c(c_bytes(self.arena, format_address), taken)
        self.launch.unset_argument = taken.unset
        text = formatted.decode("utf-8", "replace")
        self.parts.append(text)
        self.characters += len(text)
        self.lines += text.count("\n") or 1
        if self.characters > MAX_CHARACTERS or self.lines >= MAX_LINES:
            self.launch.printf_open = 0
        return count


class Arguments:
    """Packed varargs in device memory: 4-byte values aligned to 4, 8-byte values to 8."""

    def __init__(self, arena: Arena, address: int):
        self.arena, self.address, self.offset, self.taken, self.unset = arena, address, 0, 0, 0

    def take(self, size: int, kind: str):
        self.offset = -(-self.offset // size) * size
        start = self.address + self.offset
        if self.arena.is_unset(start, size):
            self.unset = self.unset or start
        self.offset += size
        self.taken += 1
        if not 0 <= start <= self.arena.size - size:
            return 0
        return struct.unpack("<" + kind, self.arena.bytes[start : start + size].tobytes())[0]


def c_string(arena: Arena, address: int) -> str:
    """The zero-terminated string at a device address; readable bytes only."""
    return c_bytes(arena, address).decode("utf-8", "replace")


def c_bytes(arena: Arena, address: int, limit: int = 4096) -> bytes:
    out = bytearray()
    while len(out) < limit and 0 <= address < arena.size and readable(arena, address):
        byte = arena.bytes[address]
        if byte == 0:
            break
        out.append(byte)
        address += 1
    return bytes(out)


def readable(arena: Arena, address: int) -> bool:
    state = int(arena.shadow[address // GRANULE])
    return bool(state & READ) or bool(state & PARTIAL and state >> 5 + address % GRANULE)


def format_c(template: bytes, arguments: Arguments) -> tuple[bytes, int]:
    """C's printf formatting. Returns (text, number of arguments taken)."""

    def convert(match: re.Match) -> bytes:
        flags, width, precision, length, kind = match.groups()
        if kind == b"%":
            return b"%"
        if kind not in b"diuoxXfFeEgGaAcsp":
            return match[0]
        width = arguments.take(4, "i") if width == b"*" else int(width or 0)
        if width < 0:
            flags, width = flags + b"-", -width
        precision = (
            arguments.take(4, "i") if precision == b"*" else -1 if precision is None else int(precision or 0)
        )
        spec = b"%" + flags + (b"%d" % min(width, _WIDEST) if width else b"")
        spec += b".%d" % min(precision, _WIDEST) if precision >= 0 else b""
        if kind == b"s":
            address = arguments.take(8, "Q")
            text = c_bytes(arguments.arena, address) if address else b"(null)"
            return _format(spec + b"s", ctypes.c_char_p(text))
        if kind == b"p":
            return _format(spec + b"p", ctypes.c_void_p(arguments.take(8, "Q")))
        if kind in b"fFeEgGaA":
            return _format(spec + kind, ctypes.c_double(arguments.take(8, "d")))
        if kind == b"c":
            text = bytes([arguments.take(4, "I") & 0xFF])
            width = min(width, _WIDEST)
            return text.rjust(width) if b"-" not in flags else text.ljust(width)
        if length in (b"ll", b"l", b"z", b"j", b"t"):
            return _format(spec + b"ll" + kind, ctypes.c_longlong(arguments.take(8, "q")))
        return _format(spec + (length or b"").replace(b"L", b"") + kind, ctypes.c_int(arguments.take(4, "i")))

    return _SPEC.sub(convert, template), arguments.taken


def _format(spec: bytes, value) -> bytes:
    buffer = ctypes.create_string_buffer(2 * _WIDEST)
    _snprintf(buffer, ctypes.c_size_t(len(buffer)), spec, value)
    return buffer.value


@_CALLBACK
def _printf(launch: int, format_address: int, arguments: int) -> int:
    output = _open.get(launch)
    try:
        return output.write(format_address, arguments) if output else 0
    except Exception as error:  # no exception may escape into compiled code
        output.parts.append(f"[printf: {error}]\n")
        return -1
    except BaseException as interruption:  # Ctrl-C: stop the grid, then pass on the interruption
        output.interruption = interruption
        output.launch.stop = GIVEN_UP
        return -1


link.HOST_FUNCTIONS["bw_printf"] = _printf
