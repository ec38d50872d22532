"""Arrays as the source declares them, where the compiler describes none: shared arrays, and all of the optimised flavour."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

Shape = tuple[int, ...]

_TYPES_OF_SIZE = {
    1: "char int8_t uint8_t bool byte",
    2: "short half __half __nv_bfloat16 int16_t uint16_t",
    4: "int unsigned signed float int32_t uint32_t half2 __half2 __nv_bfloat162 char4 uchar4 short2 ushort2",
    8: "double long int64_t uint64_t size_t float2 int2 uint2 short4",
    16: "float4 int4 uint4 double2",
}
_C_SIZES = {name: size for size, names in _TYPES_OF_SIZE.items() for name in names.split()}
_MANGLED = dict(
    zip(
        "bahcstijlmxyfd",
        "bool char char char short short int int long long long long float double".split(),
        strict=True,
    )
)
_NO_TYPES = set(
    "return else case goto delete new throw typedef using extern static const constexpr volatile do in".split()
)
_OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv,
    ast.Mod: operator.mod, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
_LARGE = 1 << 40
_NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.S)
_LOCAL = re.compile(
    r"(?:^|[;{}])\s*(?P<words>(?:\w+\s+)+)(?P<name>\w+)\s*(?P<extents>(?:\[[^\]]*\])+)\s*(?=[;={,])"
)


def declared_shape(
    source: str, name: str, nbytes: int, symbol: str = "", access: int = 0
) -> tuple[Shape, int]:
    """(extents, bytes of an element) of the array `name` of `nbytes`; no extents where they are not plain.

    symbol: its own in PTX, which tells the arguments of a template. access: bytes of an access to it, taken for an
    element where the type says nothing. What does not multiply to `nbytes` is not believed, and neither is one of
    several declarations of a name.
    """
    scope, text = Scope(source, symbol), _body(source, symbol_names(symbol)[0]) or _blank(source)
    earlier = r"(?:\w+\s*(?:\[[^\]]*\])*\s*,\s*)*"  # `float a[4], b[8];`
    pattern = rf"\b([A-Za-z_]\w*)\s+{earlier}{re.escape(name)}\s*((?:\[[^\]]*\])+)"
    found = {(m[1], m[2]) for m in re.finditer(pattern, text) if m[1] not in _NO_TYPES}
    fitting, sizes = set(), {scope.size_of(type_) for type_, _ in found} - {0}
    for type_, brackets in found:
        shape, size = scope.extents(brackets), scope.size_of(type_)
        if count := math.prod(shape) if shape else 0:
            size = size or nbytes // count
            if count * size == nbytes and (not access or max(size, access) % min(size, access) == 0):
                fitting.add((shape, size))
    if len(fitting) == 1:
        return fitting.pop()
    if len(sizes) == 1:
        return (), sizes.pop()
    return (), access if access and nbytes % access == 0 else 4 if nbytes % 4 == 0 else 1


def local_arrays(source: str, first: int, last: int) -> list[tuple[str, Shape, int]]:
    """(name, extents, bytes of an element) of the local arrays declared in lines first to last.

    An array that is not understood has no extents.
    """
    text = "\n".join(_blank(source).split("\n")[max(first - 1, 0) : last])
    scope, found = Scope(source), []
    for match in _LOCAL.finditer(text):
        words = match["words"].split()
        if words[0] in ("return", "extern", "static", "typedef", "using") or any(
            w.startswith("__") for w in words[:-1]
        ):
            continue
        itemsize = scope.size_of(words[-1])
        found.append((match["name"], scope.extents(match["extents"]) if itemsize else (), itemsize))
    return found


class Scope:
    """The names of types and of integers that are known where a variable is declared."""

    def __init__(self, source: str, symbol: str = ""):
        own = _names(_body(source, symbol_names(symbol)[0]))
        arguments = {name: (text,) for name, text in template_arguments(source, symbol).items()}
        self.types, self.integers = (
            {**everywhere, **here, **arguments}
            for everywhere, here in zip(_names(_blank(source)), own, strict=True)
        )

    def size_of(self, type_: str, depth: int = 0) -> int:
        """Bytes of a type; 0 where it is not known."""
        sizes = (
            {self.size_of(t.split()[-1].split("::")[-1], depth + 1) for t in self.types.get(type_, ())}
            if depth < 9
            else {0}
        )
        return _C_SIZES.get(type_, sizes.pop() if len(sizes) == 1 else 0)

    def extents(self, brackets: str) -> Shape:
        """`[TILE][TILE + 1]` -> (16, 17); () where an extent is not known."""
        try:
            return tuple(self.integer(extent) for extent in re.findall(r"\[([^\]]*)\]", brackets))
        except (SyntaxError, ValueError, ArithmeticError, MemoryError, RecursionError):
            return ()

    def integer(self, text: str, depth: int = 0) -> int:
        """The value of an expression of integers. Errors: ValueError where it has none, and what ast.parse raises."""
        if depth > 9:
            raise ValueError(text)
        text = re.sub(r"\bsizeof\s*\(([\w\s]+)\)", lambda m: str(self.size_of(m[1].split()[-1]) or "?"), text)
        text = re.sub(r"\b(0x[\da-fA-F]+|\d+)[uUlL]+\b|\b\w+\s*::\s*", lambda m: m[1] or "", text)
        return self._value(ast.parse(text.strip()[:80], mode="eval").body, depth)

    def _value(self, node: ast.expr, depth: int) -> int:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.Name):
            values = {self.integer(text, depth + 1) for text in self.integers.get(node.id, ())}
            if len(values) == 1:
                return values.pop()
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            left, right = self._value(node.left, depth), self._value(node.right, depth)
            if 0 <= left < _LARGE and 0 <= right < (_LARGE if not isinstance(node.op, ast.LShift) else 40):
                return _OPERATORS[type(node.op)](left, right)
        raise ValueError(ast.dump(node))


@lru_cache(maxsize=8)
def _names(source: str) -> tuple[Mapping[str, tuple[str, ...]], Mapping[str, tuple[str, ...]]]:
    """(types, integers): name -> what it is defined as, once for each definition."""
    types, integers = {}, {}
    for name, text in _aliases(source):
        types.setdefault(name, set()).add(text)
    for name, text in _constants(source):
        integers.setdefault(name, set()).add(text)
    return tuple({name: tuple(texts) for name, texts in found.items()} for found in (types, integers))


def _aliases(text: str) -> Iterator[tuple[str, str]]:
    for m in re.finditer(r"\btypedef\s+([\w\s:]+?)\s+(\w+)\s*;|\busing\s+(\w+)\s*=\s*([\w\s:]+?)\s*;", text):
        yield (m[2], m[1]) if m[2] else (m[3], m[4])
    for m in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([A-Za-z_][\w ]*?)[ \t]*$", text, re.M):
        yield m[1], m[2]


def _constants(text: str) -> Iterator[tuple[str, str]]:
    for m in re.finditer(
        r"\b(?:constexpr|const)\s+(?:(?:static|const|constexpr)\s+)*\w[\w\s]*?(\b\w+\s*[={][^;]*);", text
    ):
        for declared in re.finditer(r"(?:^|,)\s*(\w+)\s*(?:=|\{)\s*([^,{}]*)", m[1]):
            yield declared[1], declared[2]
    for m in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([^\n\\]+)$", text, re.M):
        yield m[1], m[2]
    for m in re.finditer(r"\benum\b[^{};]*\{([^}]*)\}", text):
        before = "0"
        for declared in filter(str.strip, m[1].split(",")):
            name, _, value = (part.strip() for part in declared.partition("="))
            yield name, value or before
            before = f"{name} + 1"


def template_arguments(source: str, symbol: str) -> dict[str, str]:
    """Parameter -> argument of the template function in which a variable is declared: {"T": "double", "N": "20"}."""
    function, _, mangled = symbol_names(symbol)
    declared = (
        re.search(rf"\btemplate\s*<([^<>]*)>[^;{{}}]*\b{re.escape(function)}\s*\(", _blank(source))
        if mangled
        else None
    )
    if not declared:
        return {}
    names = [re.findall(r"\w+", p.split("=")[0])[-1] for p in declared[1].split(",") if p.strip()]
    arguments = []
    while mangled and not mangled.startswith("E"):
        literal, named = re.match(r"L[a-z](n?)(\d+)E", mangled), re.match(r"\d+", mangled)
        if literal:
            arguments.append("-" * bool(literal[1]) + literal[2])
            mangled = mangled[literal.end() :]
        elif named:
            end = named.end() + int(named[0])
            arguments.append(mangled[named.end() : end])
            mangled = mangled[end:]
        elif mangled[0] in _MANGLED:
            arguments.append(_MANGLED[mangled[0]])
            mangled = mangled[1:]
        else:
            return {}
    return dict(zip(names, arguments, strict=False))


def symbol_names(symbol: str) -> tuple[str, str, str]:
    """(function, variable, template arguments, still mangled) of an Itanium symbol: _ZZ1fILi4EEvPfE1t -> ("f", "t", "Li4EEvPfE1t")."""
    function = arguments = ""
    at = re.match(r"_ZZN?", symbol)
    rest = symbol[at.end() :] if at else ""
    while length := re.match(r"\d+", rest):
        end = length.end() + int(length[0])
        function, rest = rest[length.end() : end], rest[end:]
        arguments = rest[1:] if rest.startswith("I") else ""
    last = re.match(r"_ZZ.*E(\d+)", symbol)
    variable = symbol[last.end() :][: int(last[1])] if last else ""
    return function, variable, arguments


def _body(source: str, function: str) -> str:
    """What stands between the braces of a function; "" where it is not found, or there is more than one of the name."""
    text = _blank(source)
    found = list(re.finditer(rf"\b{re.escape(function)}\s*\([^;{{}}]*\{{", text)) if function else []
    if len(found) != 1:
        return ""
    depth = 1
    for brace in re.finditer(r"[{}]", text[found[0].end() :]):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return text[found[0].end() :][: brace.start()]
    return ""


def _blank(source: str) -> str:
    """The source without comments and strings; lines stay where they are."""
    return _NOISE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), source)
