"""Array declarations in the source, for arrays the compiler does not describe: shared arrays, and all arrays
in the optimised flavour."""

from __future__ import annotations

import math
import re

from ....cuda.pieces import Variable
from ....cuda.text import CudaText, read
from ....cuda.values import Values
from ...nvrtc.symbols import symbol_names, template_arguments

Shape = tuple[int, ...]


def declared_shape(
    source: str, name: str, nbytes: int, symbol: str = "", access: int = 0
) -> tuple[Shape, int]:
    """(extents, bytes of an element) of the array `name` of `nbytes`; no extents if they are not clear.

    symbol: its name in PTX, which reveals template arguments. access: bytes of an access to it, taken as the
    element size if the type is unknown. Extents whose product is not `nbytes` are ignored, and so is a name
    with several declarations.
    """
    file = read(source)
    inside = file.function(symbol_names(symbol)[0])
    values = Values(file, template_values(file, symbol))
    declared = [v for v in arrays(file) if v.name == name and (not inside or inside.holds(v))]
    fitting, sizes = set(), {values.size_of(v.type) for v in declared} - {0}
    for v in declared:
        shape, size = values.extents(v), values.size_of(v.type)
        if count := math.prod(shape) if shape else 0:
            size = size or nbytes // count
            if count * size == nbytes and (not access or max(size, access) % min(size, access) == 0):
                fitting.add((shape, size))
    if len(fitting) == 1:
        return fitting.pop()
    if len(sizes) == 1:
        return (), sizes.pop()
    return (), access if access and nbytes % access == 0 else 4 if nbytes % 4 == 0 else 1


def declared_type(source: str, symbol: str) -> str:
    """The type of a shared variable, or of the elements of a shared array, by the name that the compiler gives it; "" where
    that is not clear. symbol: its name in PTX."""
    scope, name, _ = symbol_names(symbol)
    file = read(source)
    inside = file.function(scope)
    arguments = template_values(file, symbol)
    found = {
        re.sub(r"\w+", lambda word: arguments.get(word[0], word[0]), v.type).split("::")[-1].strip()
        for v in file.variables
        if v.name == (name or symbol) and "__shared__" in v.words and (not inside or inside.holds(v))
    }
    return found.pop() if len(found) == 1 else ""


def local_arrays(source: str, first: int, last: int) -> list[tuple[str, Shape, int]]:
    """(name, extents, bytes of an element) of the local arrays declared in lines first to last.

    An array whose declaration is not understood has no extents.
    """
    file = read(source)
    values = Values(file)
    found = [
        v
        for v in arrays(file)
        if first <= v.line <= last and not {"extern", "static", "__shared__"} & set(v.words)
    ]
    return [
        (v.name, values.extents(v) if values.size_of(v.type) else (), values.size_of(v.type)) for v in found
    ]


def arrays(file: CudaText) -> list[Variable]:
    """The arrays that are variables: no arrays of pointers, members or parameters."""
    places = ("field_declaration_list", "function_definition", "lambda_expression")
    return [v for v in file.variables if v.extents and not v.pointer and v.scope.type not in places]


def template_values(file: CudaText, symbol: str) -> dict[str, str]:
    """Parameter -> argument of the template function in which a variable is declared: {"T": "double", "N": "20"}."""
    name, _, mangled = symbol_names(symbol)
    function = file.function(name)
    return dict(zip(function.templates if function else (), template_arguments(mangled), strict=False))
