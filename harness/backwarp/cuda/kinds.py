"""The kinds of the expressions of a file: "integer", "float", "bool", "pointer" or ""."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from .pieces import Piece, Variable
from .text import CudaText
from .values import Values

if TYPE_CHECKING:
    from tree_sitter import Node

INTEGERS = {
    "int",
    "unsigned",
    "unsigned int",
    "long",
    "long long",
    "size_t",
    "int32_t",
    "uint32_t",
    "int64_t",
    "uint64_t",
}
FLOATS = {"float", "double"}
BUILTINS = ("threadIdx", "blockIdx", "blockDim", "gridDim")
_FLOAT_FUNCTIONS = re.compile(r"(?:\w+f|sqrt|exp|log|pow|fabs|tanh|rsqrt|__\w+f|__fdividef|__half2float)$")
_OF_ARGUMENT = {"min": 0, "max": 0, "abs": 0, "atomicAdd": 1, "atomicMax": 1, "__ldg": 0}


class Kinds:
    """Of one file."""

    def __init__(self, file: CudaText):
        self.file, self.values = file, Values(file)

    def kind(self, e: Piece | None) -> str:
        match e.kind if e else "":
            case "number_literal":
                return "float" if re.search(r"\.|^(?!0[xX]).*([eE]|[fF]$)", e.code) else "integer"
            case "identifier":
                return self._named(e)
            case "true" | "false":
                return "bool"
            case "parenthesized_expression":
                return self.kind(e.parts[0]) if len(e.parts) == 1 else ""
            case "field_expression":
                return "integer" if e.part("argument").code in BUILTINS else self._member(e)
            case "subscript_expression" | "pointer_expression":
                return self._element(e)
            case "unary_expression":
                return "bool" if e.part("operator").code == "!" else self.kind(e.part("argument"))
            case "cast_expression":
                return kind_of_type(e.part("type").code)
            case "conditional_expression":
                return self._both(e.part("consequence"), e.part("alternative"))
            case "assignment_expression":
                return self.kind(e.part("left"))
            case "call_expression":
                return self._call(e)
            case "binary_expression":
                sign = e.part("operator").code
                if sign in ("&&", "||", "<", ">", "<=", ">=", "==", "!="):
                    return "bool"
                return self._both(e.part("left"), e.part("right"))
        return ""

    def _named(self, e: Piece) -> str:
        found = self.file.named(e.code, e.start)
        if len(found) == 1:
            return "pointer" if found[0].extents or is_pointer(found[0]) else kind_of(found[0])
        return (
            "integer"
            if any(m.name == e.code for m in self.file.macros) and self.values.integer(e) is not None
            else ""
        )

    def _member(self, e: Piece) -> str:
        """Of a member of a variable whose structure the file declares."""
        own = e.part("argument")
        found = self.file.named(own.code, e.start) if own.kind == "identifier" else []
        members = self.members.get(found[0].type, []) if len(found) == 1 and not found[0].extents else []
        return next((kind_of(v) for v in members if v.name == e.part("field").code), "")

    @cached_property
    def members(self) -> dict[str, list[Variable]]:
        """By the name of the structure."""
        found: dict[str, list[Variable]] = {}
        for v in (v for v in self.file.variables if v.scope and v.scope.type == "field_declaration_list"):
            found.setdefault(_name_of_record(v.scope), []).append(v)
        return found

    def _both(self, left: Piece, right: Piece) -> str:
        kinds = {self.kind(left), self.kind(right)} - {"bool"}
        if "" in kinds:
            return ""
        return next((kind for kind in ("pointer", "float", "integer") if kind in kinds), "integer")

    def _element(self, e: Piece) -> str:
        first, depth = e.node, 0
        while first.type in ("subscript_expression", "pointer_expression"):
            if first.type == "pointer_expression" and first.child_by_field_name("operator").text != b"*":
                return ""
            first, depth = first.child_by_field_name("argument"), depth + 1
        name = self.file.text[first.start_byte : first.end_byte]
        found = self.file.named(name, e.start) if first.type == "identifier" else []
        if len(found) != 1 or depth != len(found[0].extents) + is_pointer(found[0]):
            return ""
        return kind_of_type(found[0].type)

    def _call(self, e: Piece) -> str:
        name, arguments = e.part("function").code, e.part("arguments").parts
        if kind := kind_of_type(name.removeprefix("static_cast<").removesuffix(">")):
            return kind
        if name.startswith("__shfl"):
            return self.kind(arguments[1]) if len(arguments) > 1 else ""
        if name in _OF_ARGUMENT and len(arguments) > _OF_ARGUMENT[name]:
            of = arguments[_OF_ARGUMENT[name]]
            return self.kind(of.part("argument") if of.code.startswith("&") else of)  # `__ldg(&x[i])`
        if own := self.file.function(name):
            type_ = own.part("type")
            return (
                kind_of_type(type_.code)
                if type_ and own.node.child_by_field_name("declarator").type == "function_declarator"
                else ""
            )
        return "float" if _FLOAT_FUNCTIONS.match(name) else ""


def kind_of(v: Variable) -> str:
    """The kind of a plain variable; "" for arrays, pointers and other types."""
    return "" if v.pointer or v.extents else kind_of_type(v.type)


def kind_of_type(type_: str) -> str:
    type_ = " ".join(word for word in type_.split() if word not in ("const", "volatile"))
    return "integer" if type_ in INTEGERS else "float" if type_ in FLOATS else ""


def _name_of_record(body: Node) -> str:
    name = body.parent.child_by_field_name("name")
    return name.text.decode() if name else ""


def is_pointer(v: Variable) -> bool:
    return v.pointer and not any(n.type == "reference_declarator" for n in _chain(v))


def _chain(v: Variable):
    node = v.node
    while node is not None:
        yield node
        node = node.child_by_field_name("declarator")
