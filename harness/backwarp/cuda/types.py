"""Whether an expression of a CUDA file is floating-point or integer, judged by its text alone."""

from __future__ import annotations

import re

from .pieces import Piece, Variable, remembered
from .text import CudaText
from .values import SIZES

FLOAT, INTEGER = "float", "integer"
_FLOATS = set("float double half __half __nv_bfloat16 float2 float4 double2 half2 __half2".split())
_INTEGERS = {name for name in SIZES if "int" in name} | {"unsigned", "signed", "char", "short", "long"}
_INTEGERS |= {"size_t", "bool"}
_BUILT_IN = ("threadIdx", "blockIdx", "blockDim", "gridDim")
_MATHS = set(
    "exp log sqrt rsqrt pow sin cos tan tanh sinh cosh fma fabs fmax fmin erf erff log2 exp2 log1p".split()
)
_SAME = {"min", "max", "abs", "__ldg", "__shfl_down_sync", "__shfl_xor_sync", "__shfl_up_sync", "__shfl_sync"}


def kind_of(e: Piece | None) -> str:
    """FLOAT, INTEGER, or "" if the text does not say."""
    return "" if e is None else _kind_of(e)


@remembered
def _kind_of(e: Piece) -> str:
    match e.kind:
        case "number_literal":
            plain = re.fullmatch(r"0[xX][0-9a-fA-F']+[uUlL]*|0[bB][01']+[uUlL]*|[0-9']+[uUlL]*", e.code)
            return INTEGER if plain else FLOAT
        case "identifier":
            return _declared(e.file, e.code, e.start, 0)
        case "subscript_expression":
            depth, base = 0, e
            while base.kind == "subscript_expression":
                depth, base = depth + 1, base.parts[0]
            return _declared(e.file, base.code, e.start, depth) if base.kind == "identifier" else ""
        case "field_expression":
            base = e.part("argument")
            if base.code in _BUILT_IN:
                return INTEGER
            return kind_of(base) if base.kind in ("identifier", "subscript_expression") else ""
        case "parenthesized_expression" if len(e.parts) == 1:
            return kind_of(e.parts[0])
        case "cast_expression":
            return of_type(e.part("type").code)
        case "unary_expression":
            return INTEGER if e.part("operator").code == "!" else kind_of(e.part("argument"))
        case "conditional_expression":
            return _joined(kind_of(e.part("consequence")), kind_of(e.part("alternative")))
        case "binary_expression":
            if e.part("operator").code in ("+", "-", "*", "/"):
                return _joined(kind_of(e.part("left")), kind_of(e.part("right")))
            return INTEGER
        case "call_expression":
            return _called(e)
    return ""


def of_type(type_: str) -> str:
    words = set(type_.replace("std::", "").split()) - {"const", "volatile", "static"}
    if words and words <= _FLOATS:
        return FLOAT
    return INTEGER if words and words <= _INTEGERS else ""


def _declared(file: CudaText, name: str, place: int, depth: int) -> str:
    """The kind of a variable's element after `depth` pairs of brackets."""
    found = [v for v in file.named(name, place) if len(v.extents) + v.pointer == depth]
    kinds = {_of_value(v) if v.type == "auto" and not depth else of_type(v.type) for v in found}
    return kinds.pop() if len(kinds) == 1 else ""


def _of_value(v: Variable) -> str:
    return kind_of(v.value) if v.file.is_followed(v) else ""


def _joined(a: str, b: str) -> str:
    return FLOAT if FLOAT in (a, b) else INTEGER if a == b else ""


def _called(e: Piece) -> str:
    name, arguments = next(e.calls())[0], e.part("arguments").parts
    if name in _SAME and arguments:
        kinds = [kind_of(a) for a in (arguments[1:2] if name.startswith("__shfl") else arguments)]
        return FLOAT if FLOAT in kinds else INTEGER if set(kinds) == {INTEGER} else ""
    if name in _MATHS or name[-1:] == "f" and name[:-1] in _MATHS or name in ("__expf", "__logf", "fmaf"):
        return FLOAT
    if function := e.file.function(name):
        type_ = function.node.child_by_field_name("type")
        return of_type(e.file.text[type_.start_byte : type_.end_byte]) if type_ else ""
    return of_type(name.removeprefix("static_cast<").removesuffix(">"))
