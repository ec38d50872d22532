"""Names of kernels and variables in PTX: parsing Itanium symbols, and a text's kernels and their
parameters."""

from __future__ import annotations

import re

_MANGLED = dict(
    zip(
        "bahcstijlmxyfd",
        "bool char char char short short int int long long long long float double".split(),
        strict=True,
    )
)


def entries(ptx: str) -> list[str]:
    """The names of the kernels in a PTX text."""
    comment_or_entry = r"/\*.*?\*/|^\s*(?:\.(?:visible|weak)\s+)?\.entry\s+([\w$]+)"
    return [name for name in re.findall(comment_or_entry, ptx, re.MULTILINE | re.DOTALL) if name]


_VARIABLE = re.compile(
    r"\.(const|global)\s+(?:\.attribute\(\.managed\)\s+)?\.align\s+\d+\s+\.[a-z]+(\d+)\s+([\w$]+)(?:\[(\d+)\])?"
)
_LINKAGE = re.compile(r"[.\w \t]*")  # what precedes it on its line


def variables(ptx: str) -> list[tuple[str, str, int]]:
    """(space, name, bytes) of each variable of a PTX text in constant or global memory."""
    found = []
    for match in _VARIABLE.finditer(ptx):
        if _LINKAGE.fullmatch(ptx, ptx.rfind("\n", 0, match.start()) + 1, match.start()):
            space, bits, name, count = match.groups()
            found.append((space, name, int(bits) // 8 * int(count or 1)))
    return found


def demangle(symbol: str, qualified: bool = False) -> str:
    """The function name in an Itanium C++ symbol: _ZN1a4tileILi16EEvPf -> tile (or a::tile).

    Anonymous namespaces are left out; template arguments are too. Anything that is not a C++ symbol, such as
    an extern "C" name, is returned unchanged.
    """
    match = re.match(r"_Z(N?)(?:[rVK]*)(L?)(?=\d)", symbol)
    if not match:
        return symbol
    parts, position = [], match.end()
    while number := re.compile(r"L?(\d+)").match(symbol, position):
        start = number.end()
        parts.append(symbol[start : start + int(number[1])])
        position = start + int(number[1])
        if not match[1]:
            break
        if symbol[position : position + 1] == "I":
            break
    parts = [p for p in parts if not p.startswith(("_GLOBAL__N", "_INTERNAL"))]
    if not parts:
        return symbol
    return "::".join(parts) if qualified else parts[-1]


def of_any_compiler(symbol: str) -> str:
    """A symbol with the name that other compilers than NVRTC give to an anonymous namespace, and without their sign of a static
    function."""
    symbol = re.sub(r"^_ZL(?=\d)", "_Z", symbol)
    found = re.search(r"(?<!\d)(\d+)_GLOBAL__N_", symbol)
    return (
        symbol[: found.start()] + "12_GLOBAL__N_1" + symbol[found.end(1) + int(found[1]) :]
        if found
        else symbol
    )


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


def local_name(symbol: str) -> str:
    """The name of a function-level variable in an Itanium symbol: _ZZ4tilePfiE1t -> t."""
    return symbol_names(symbol)[1] or demangle(symbol)


def template_arguments(mangled: str) -> list[str]:
    """The arguments that follow a template's name in a symbol: dLi20ELb1EE... -> ["double", "20", "1"]; [] where unknown."""
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
            return []
    return arguments


def name_table(ptx: str, expressions: dict[str, str]):
    """(names, overloads) of the kernels in a PTX text."""
    found: dict[str, list[str]] = {}
    for symbol in entries(ptx):
        for plain in dict.fromkeys((symbol, demangle(symbol), demangle(symbol, qualified=True))):
            found.setdefault(plain, []).append(symbol)
    names = {plain: symbols[0] for plain, symbols in found.items() if len(symbols) == 1}
    overloads = {plain: tuple(symbols) for plain, symbols in found.items() if len(symbols) > 1}
    return names | expressions, overloads


def parameter_sizes(ptx: str, symbol: str) -> tuple[int, ...]:
    """The size in bytes of each parameter of a kernel."""
    head = re.search(rf"\.entry\s+{re.escape(symbol)}\s*\(([^)]*)\)", ptx)
    sizes = []
    for parameter in head[1].split(",") if head and head[1].strip() else ():
        bits = re.search(r"\.[a-z]+(\d+)\b", parameter)[1]
        count = re.search(r"\[(\d+)\]\s*$", parameter)
        sizes.append(int(bits) // 8 * (int(count[1]) if count else 1))
    return tuple(sizes)


def waits_for_grid(ptx: str, symbol: str) -> bool:
    """Whether a kernel uses the grid-wide barrier, for which the driver passes memory in %envreg1 and 2. In
    optimised PTX it is inlined into the kernel."""
    body = re.search(rf"\.entry\s+{re.escape(symbol)}\s*\(.*?^}}", ptx, re.MULTILINE | re.DOTALL)
    return bool(body) and "%envreg" in body[0]


def cluster_dimensions(ptx: str, symbol: str) -> tuple[int, int, int]:
    """Blocks of a cluster in x, y and z, as the source says; (1, 1, 1) where it says nothing."""
    head = re.search(rf"\.entry\s+{re.escape(symbol)}\s*\([^{{]*", ptx)
    found = re.search(r"\.reqnctapercluster\s+([\d, ]+)", head[0]) if head else None
    x, y, z = (*(int(n) for n in found[1].split(",")), 1, 1)[:3] if found else (1, 1, 1)
    return x, y, z
