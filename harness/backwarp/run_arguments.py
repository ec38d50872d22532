"""The arguments of `backwarp run`, given as text by the kernel's parameter names: numbers, arrays, structs, null pointers
and arrays of pointers. `Wanted` knows the kernel's parameters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from . import arrays, run_textures
from .cuda.pieces import Function
from .cuda.text import read
from .errors import CourseError

FILLS = ("zeros", "ones", "empty", "arange", "random")
HOW = (
    "NAME=zeros:1024, NAME=ones:3x5:float32, empty:, arange:, random:SHAPE[:DTYPE[:SEED]], NAME=file.npy, or a "
    "number: NAME=3 or NAME=3:int64; NAME=null, NAME='{3, 4}' or NAME=bytes:03000000 for a struct, NAME='[zeros:8; ones:8]' "
    "for an array of pointers"
)
MOST_BYTES = 4 << 30  # of one array
#: NumPy's types, and what C++ calls them
_CALLED = """
    f4: float
    f8: double
    f2: __half, half
    i1: char, signed char, int8_t
    ?: bool
    u1: unsigned char, uchar, uint8_t
    i2: short, short int, int16_t
    u2: unsigned short, ushort, uint16_t
    i4: int, int32_t, signed
    u4: unsigned, unsigned int, uint, uint32_t
    i8: long, long int, long long, long long int, int64_t, ptrdiff_t
    u8: unsigned long, unsigned long int, unsigned long long, unsigned long long int, ulong
    u8: uint64_t, size_t, uintptr_t
"""
_TYPES = {
    name: dtype
    for dtype, _, names in (line.strip().partition(": ") for line in _CALLED.strip().splitlines())
    for name in names.split(", ")
}
_VECTOR = re.compile(r"(float|double|int|uint|short|ushort|char|uchar|longlong|ulonglong)([1-4])")
_NUMBER = re.compile(
    r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?0[xX][0-9a-fA-F]+|true|false|nan|[-+]?inf"
)


_POINTERS = re.compile(r"\[(.*)\](?:\*(\d{1,4}))?", re.DOTALL)


@dataclass(frozen=True)
class Pointers:
    """An array of pointers to other arrays."""

    of: tuple[np.ndarray | None, ...]


class Wanted:
    """The parameters of a kernel. text: the source with its headers; sizes: the bytes of each parameter."""

    def __init__(self, source: str, text: str, kernel: str, sizes: Sequence[int]):
        self.text, self.kernel, self.sizes = text, kernel, sizes
        name = re.sub(r"<.*", "", kernel).split("::")[-1]
        own = re.sub(r"\n\s*\n", "\n", text)  # a text of megabytes is not read: most of it is blank
        self.function = read(source).function(name) or read(own).function(name)
        fits = self.function and len(self.function.parameters) == len(sizes)
        self.parameters = self.function.parameters if fits else ()
        named = [p.name or f"argument {i}" for i, p in enumerate(self.parameters, 1)]
        self.names = named or [f"argument {i}" for i in range(1, len(sizes) + 1)]

    @property
    def kinds(self) -> list[str | None]:
        """NumPy's type of each parameter that is a number, and of the elements of a vector; "" for others, None for a
        pointer. Empty if they are not known."""
        types = _template_types(self.function, self.kernel)
        return [None if p.pointer or p.extents else _type(p.type, types) for p in self.parameters]

    def arguments(self, texts: Sequence[str]) -> dict[str, object]:
        """Parameter -> an array, a NumPy scalar, an image or pointers, in the kernel's order. Errors: CourseError."""
        given = _by_name(texts, self.names, self.kernel)
        if missing := [n for n in self.names if n not in given]:
            listed = ", ".join(
                p.file.text[p.outer.start : p.outer.end] if p.outer else p.name for p in self.parameters
            )
            raise CourseError(f"{self.kernel}({listed}) needs --arg for {', '.join(missing)}: {HOW}")
        types = _template_types(self.function, self.kernel)
        made = {}
        for i, (name, size) in enumerate(zip(self.names, self.sizes, strict=True)):
            p = self.parameters[i] if self.parameters else None
            kind, text = _type(p.type, types) if p else "", given[name]
            image = run_textures.kind_of(p.type) if p else ""
            found = run_textures.image(name, text, image, lambda text, n=name: _value(n, text, "f4", True, 8))
            if found is None and text.startswith("{") and p:
                found = self._struct(name, p.type, text, size)
            pointer = None if p is None else p.pointer or bool(p.extents)
            made[name] = found if found is not None else _value(name, text, kind, pointer, size)
        return made

    def _struct(self, name: str, type_: str, text: str, size: int):
        layout = struct_layout(self.text, _plain_type(type_))
        values = re.findall(r"[^\s{},;]+", text)
        if layout is None or layout.itemsize != size:
            raise CourseError(
                f"--arg {name}: the members of {type_} are not known; write {name}=bytes: and {2 * size} hexadecimal digits"
            )
        flat = _flat(layout)
        if len(values) != len(flat):
            raise CourseError(
                f"--arg {name}: {type_} has {len(flat)} members; {len(values)} values were given"
            )
        data = bytearray(size)
        for value, (offset, of) in zip(values, flat, strict=True):
            if not _NUMBER.fullmatch(value):
                raise CourseError(f"--arg {name}: {value} is not a number")
            data[offset : offset + of.itemsize] = _number(name, value, of.str[1:], of.itemsize).tobytes()
        return np.frombuffer(bytes(data), np.dtype((np.void, size)))[0]


def constants(texts: Sequence[str], text: str, variables: dict[str, int]) -> dict[str, np.ndarray]:
    """Name -> the values of each `--constant`, of the variable's declared type. Errors: CourseError."""
    found = {}
    for given in texts:
        name, _, value = given.partition("=")
        kind = declared_type(text, name)
        if value.endswith(".npy"):
            found[name] = _loaded(name, value, True, 0)
        elif value.partition(":")[0] in FILLS:
            found[name] = _filled(name, *value.partition(":")[::2], kind=kind)
        elif _NUMBER.fullmatch(number := value.partition(":")[0]):
            of = _dtype(name, value.partition(":")[2] or kind)
            found[name] = np.array(_number(name, number, of.str[1:], of.itemsize))
        else:
            raise CourseError(f"--constant {given}: write NAME=zeros:16:float32, NAME=3, or NAME=file.npy")
    return found


def declared_type(text: str, variable: str) -> str:
    """NumPy's name of the type of a variable outside functions; "" if it is not known."""
    pattern = rf"\b__(?:constant|device|managed)__\b([^;{{}}()=]*?)\b{re.escape(variable)}\b\s*(?:\[|;|=|\{{)"
    match = re.search(pattern, text)
    return _type(match[1], {}) if match and "*" not in match[1] else ""


# ---- structs -------------------------------------------------------------------------------------------


def struct_layout(text: str, name: str, depth: int = 0) -> np.dtype | None:
    """The layout of a struct of numbers and of other structs; None if it is not known."""
    pattern = rf"\bstruct\s+{re.escape(name)}\s*\{{([^{{}}]*)\}}|\bstruct\s*\w*\s*\{{([^{{}}]*)\}}\s*{re.escape(name)}\s*;"
    match = re.search(pattern, text)
    if not match or depth > 8:
        return None
    fields: list[tuple] = []
    body = re.sub(r"//[^\n]*|/\*.*?\*/", " ", match[1] if match[1] is not None else match[2], flags=re.DOTALL)
    for declaration in filter(str.strip, body.split(";")):
        member = re.fullmatch(
            r"\s*([\w\s]+?)\s*((?:\*?\s*\w+\s*(?:\[\s*\d+\s*\]\s*)*(?:,|\Z)\s*)+)", declaration
        )
        if not member:
            return None
        kind = _type(member[1], {})
        of = np.dtype(kind) if kind else struct_layout(text, _plain_type(member[1]), depth + 1)
        width = _VECTOR.fullmatch(_plain_type(member[1]))
        for declarator in member[2].split(","):
            extents = tuple(int(n) for n in re.findall(r"\[\s*(\d+)", declarator))
            extents += (int(width[2]),) if width and width[2] != "1" else ()
            own = np.dtype("u8") if "*" in declarator else of
            if own is None or width and "*" not in declarator and width[2] in "24":
                return None  # vectors are aligned as a whole
            fields.append((f"f{len(fields)}", own, extents))
    return np.dtype(fields, align=True) if fields else None


def _flat(layout: np.dtype, at: int = 0) -> list[tuple[int, np.dtype]]:
    """(offset, type) of each number in a struct, in order."""
    if layout.subdtype:
        of, extents = layout.subdtype
        return [x for i in range(int(np.prod(extents))) for x in _flat(of, at + i * of.itemsize)]
    if layout.fields:
        return [x for n in layout.names for x in _flat(layout.fields[n][0], at + layout.fields[n][1])]
    return [(at, layout)]


# ---- texts ---------------------------------------------------------------------------------------------


def _by_name(texts: Sequence[str], names: Sequence[str], kernel: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            name, value = next((n for n in names if n not in given), ""), text
        if name not in names:
            raise CourseError(
                f"{kernel} has no parameter {name or value}; it has {', '.join(names) or 'none'}"
            )
        if name in given:
            raise CourseError(f"--arg {name} is given twice")
        given[name] = value
    return given


def _template_types(function: Function | None, name: str) -> dict[str, str]:
    if not function or "<" not in name:
        return {}
    values = [v.strip() for v in name[name.index("<") + 1 : name.rindex(">")].split(",")]
    return dict(zip(function.templates, values, strict=False))


def _plain_type(text: str) -> str:
    left_out = ("const", "volatile", "struct", "static", "extern", "__restrict__")
    return " ".join(w for w in re.findall(r"\w+", text) if w not in left_out)


def _type(text: str, templates: dict[str, str]) -> str:
    """NumPy's name of a C++ type, or of that of the elements of a pointer or vector; "" for another type."""
    text = _plain_type(text)
    text = templates.get(text, text)
    if vector := _VECTOR.fullmatch(text):
        text = vector[1].replace("longlong", "long long").replace("ulong", "unsigned long")
    return _TYPES.get(text, "")


def _value(name: str, text: str, kind: str, pointer: bool | None, size: int):
    fill, colon, rest = text.partition(":")
    if pointer is not False and colon and fill in FILLS:
        return _filled(name, fill, rest, kind)
    if text in ("null", "nullptr", "NULL") and pointer is not False:
        return np.uint64(0)
    if pointer is not False and (listed := _POINTERS.fullmatch(text.strip())):
        of = tuple(_pointed(name, i, t.strip(), kind) for i, t in enumerate(listed[1].split(";")))
        return Pointers(of * int(listed[2] or 1))
    if fill == "bytes" and colon and not pointer:
        if not re.fullmatch(r"(?:[0-9a-fA-F]{2})*", rest) or len(rest) != 2 * size:
            raise CourseError(f"--arg {name}: {name} has {size} bytes: write {2 * size} hexadecimal digits")
        return np.frombuffer(bytes.fromhex(rest), np.dtype((np.void, size)))[0]
    if text.endswith(".npy"):
        return _loaded(name, text, pointer, size)
    if _NUMBER.fullmatch(fill) and not pointer:
        if not (kind or rest or pointer is None):
            raise CourseError(
                f"--arg {name}: its type is not known; write {fill}:float32 or the like, or a .npy file"
            )
        return _number(name, fill, _dtype(name, rest or kind).str[1:] if rest or kind else "", size)
    what = "an array" if pointer else "a number"
    raise CourseError(
        f"--arg {name}={text}: {name} is {what if pointer is not None else 'an argument'}; write {HOW}"
    )


def _pointed(name: str, position: int, text: str, kind: str) -> np.ndarray | None:
    found = _value(f"{name}[{position}]", text, kind, True, 8)
    if isinstance(found, Pointers):
        raise CourseError(f"--arg {name}: an array of pointers holds arrays, not further pointers")
    return found if isinstance(found, np.ndarray) else None


def _filled(name: str, fill: str, rest: str, kind: str) -> np.ndarray:
    shape, _, dtype = rest.partition(":")
    dtype, _, seed = dtype.partition(":")
    if not re.fullmatch(r"[0-9]{1,20}(?:[x,][0-9]{1,20}){,31}", shape):
        raise CourseError(f"--arg {name}: {shape or 'no shape'} is not a shape, such as 1024 or 2x3x7")
    sizes = tuple(int(n) for n in re.split("[x,]", shape))
    of = _dtype(name, dtype or kind)
    if seed and not seed.isdecimal():
        raise CourseError(f"--arg {name}: {seed} is not a seed")
    if np.prod([float(n) for n in sizes]) * of.itemsize > MOST_BYTES:
        raise CourseError(f"--arg {name}: more than {MOST_BYTES >> 30} GiB")
    if fill == "empty":
        return np.broadcast_to(np.zeros((), of), sizes).view(arrays.Empty)
    if fill == "arange":
        return np.arange(np.prod(sizes, dtype=np.int64)).astype(of).reshape(sizes)
    if fill == "random":
        random = np.random.default_rng(int(seed or 0))
        if of.kind == "f":
            return random.uniform(-1, 1, sizes).astype(of)
        return random.integers(0 if of.kind in "bu" else -8, 2 if of.kind == "b" else 9, sizes).astype(of)
    return np.full(sizes, fill == "ones", of)


def _dtype(name: str, text: str) -> np.dtype:
    try:
        of = np.dtype(text or "unknown")
    except TypeError:
        of = None
    if of is None or of.kind not in "biuf":
        problem = f"{text} is not a type of numbers" if text else "the type of its elements is not known"
        raise CourseError(f"--arg {name}: {problem}; write float32, int32 or the like")
    return of


def _loaded(name: str, path: str, pointer: bool | None, size: int):
    try:
        data = arrays.read(path)
    except OSError as error:
        raise CourseError(f"--arg {name}: {path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise CourseError(f"--arg {name}: {path} is not a file of one NumPy array: {error}") from None
    if data.nbytes > MOST_BYTES:
        raise CourseError(f"--arg {name}: more than {MOST_BYTES >> 30} GiB")
    if pointer is False or pointer is None and size != 8:  # a struct, or one number, by value
        if data.nbytes != size:
            raise CourseError(f"--arg {name}: {path} has {data.nbytes} bytes; {name} has {size}")
        return np.frombuffer(data.tobytes(), np.dtype((np.void, size)))[0]
    return data


def _number(name: str, text: str, kind: str, size: int):
    whole = bool(re.fullmatch(r"[-+]?(?:[\d_]+|0[xX][0-9a-fA-F]+)", text))
    of = np.dtype(kind or (f"i{size}" if whole or size not in (2, 4, 8) else f"f{size}"))
    if of.itemsize != size:
        raise CourseError(f"--arg {name}: a parameter of {size} bytes, which {text} as {of.name} has not")
    try:
        words = {"true": 1, "false": 0}
        value = words[text] if text in words else int(text, 0) if whole else float(text)
        if of.kind in "iu" and value != int(value):
            raise ValueError
        return of.type(value if of.kind == "f" else int(value))
    except (ValueError, OverflowError):
        raise CourseError(f"--arg {name}: {text} is not a value of its type, {of.name}") from None
