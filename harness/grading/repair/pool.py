"""The values that a repair may put in: variables, thread and block coordinates, and constants of a function."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from ...course.cuda_text import CudaText, Function, Piece, Variable
from ...course.cuda_values import Values

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


@dataclass(frozen=True)
class Entry:
    """One value. variable: None for what can be named everywhere. known: its value where it never changes.

    varies: it differs between threads or iterations, as an index does, and an extent does not.
    """

    text: str
    variable: Variable | None = None
    known: int | float | None = None
    varies: bool = False


class Pool:
    """The values of one function, and what its expressions are: "integer", "float", "pointer" or ""."""

    def __init__(self, file: CudaText, function: Function):
        self.file, self.function = file, function
        self.values = Values(file)
        self.parameters = {v.node.id for v in function.parameters}

    @cached_property
    def locals(self) -> list[Variable]:
        whole = self.function.whole
        return [v for v in self.file.variables if v.scope != self.file.root and whole.holds(v)]

    @cached_property
    def integers(self) -> list[Entry]:
        found = [
            Entry(v.name, v, varies=v.node.id not in self.parameters)
            for v in self.locals
            if kind_of(v) == "integer" and "constexpr" not in v.words
        ]
        if self.function.is_kernel:
            found += [
                Entry(text, varies=not text.endswith(("Dim.x", "Dim.y", "Dim.z"))) for text in self._builtins
            ]
        found += self._constants
        literals = {int(t) for t in self._literals if re.fullmatch(r"\d{1,6}", t)} | {0, 1, 2}
        return found + [Entry(str(n), known=n) for n in sorted(literals)]

    @cached_property
    def floats(self) -> list[Entry]:
        found = [Entry(v.name, v, varies=True) for v in self.locals if kind_of(v) == "float"]
        constants = {"0.0f": 0.0, "1.0f": 1.0, "-1.0f": -1.0, "2.0f": 2.0, "0.5f": 0.5}
        if any(word in self.function.whole.code for word in ("max", ">", "INFINITY")):
            constants |= {"-INFINITY": float("-inf"), "INFINITY": float("inf")}
        constants |= {
            t: float(t.rstrip("fF")) for t in self._literals if re.fullmatch(r"\d*\.\d*[fF]?", t) and t != "."
        }
        return found + [Entry(text, known=value) for text, value in constants.items()]

    @cached_property
    def pointers(self) -> list[Variable]:
        """Pointers and arrays of one element type: one may have been named for another."""
        return [
            v
            for v in self.locals
            if (v.pointer or v.extents) and not v.file.text[v.start : v.end].startswith("&")
        ]

    @cached_property
    def _literals(self) -> set[str]:
        return {n.code for n in self.function.body.all("number_literal")}

    @cached_property
    def _builtins(self) -> list[str]:
        used = self.function.body.code
        axes = [axis for axis in "xyz" if axis == "x" or re.search(rf"Idx\.{axis}\b|Dim\.{axis}\b", used)]
        names = [name for name in BUILTINS if name != "gridDim" or name in used]
        return [f"{name}.{axis}" for axis in axes for name in names]

    @cached_property
    def _constants(self) -> list[Entry]:
        """constexpr integers and macros."""
        found = {}
        for v in self.file.variables:
            if (
                {"constexpr", "const"} & set(v.words)
                and kind_of(v) == "integer"
                and v.scope == self.file.root
            ):
                if (value := self.values.integer(v.value)) is not None:
                    found[v.name] = Entry(v.name, v, known=value)
        return list(found.values())

    def here(self, entries: list[Entry], place: int) -> list[int]:
        """Those that can be named at a place, by number."""
        named: dict[str, Variable] = {}
        for e in entries:
            if (v := e.variable) is not None and v.end <= place and self._holds(v, place):
                named[e.text] = v
        return [i for i, e in enumerate(entries) if e.variable is None or named.get(e.text) is e.variable]

    def _holds(self, v: Variable, place: int) -> bool:
        return v.scope == self.file.root or v.scope.start_byte <= place < v.scope.end_byte

    # -- what an expression is ------------------------------------------------------------------------

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
                return "integer" if e.part("argument").code in BUILTINS else ""
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
            return "pointer" if found[0].extents or _is_pointer(found[0]) else kind_of(found[0])
        return (
            "integer"
            if any(m.name == e.code for m in self.file.macros) and self.values.integer(e) is not None
            else ""
        )

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
        if len(found) != 1 or depth != len(found[0].extents) + _is_pointer(found[0]):
            return ""
        return kind_of_type(found[0].type)

    def _call(self, e: Piece) -> str:
        name, arguments = e.part("function").code, e.part("arguments").parts
        if kind := kind_of_type(name.removeprefix("static_cast<").removesuffix(">")):
            return kind
        if name.startswith("__shfl"):
            return self.kind(arguments[1]) if len(arguments) > 1 else ""
        if name in _OF_ARGUMENT and len(arguments) > _OF_ARGUMENT[name]:
            return self.kind(arguments[_OF_ARGUMENT[name]])
        if own := self.file.function(name):
            type_ = own.part("type")
            return (
                kind_of_type(type_.code)
                if type_ and own.node.child_by_field_name("declarator").type == "function_declarator"
                else ""
            )
        return "float" if _FLOAT_FUNCTIONS.match(name) else ""


def kind_of(v: Variable) -> str:
    """Of a plain variable; "" for arrays, pointers and other types."""
    return "" if v.pointer or v.extents else kind_of_type(v.type)


def kind_of_type(type_: str) -> str:
    type_ = " ".join(word for word in type_.split() if word not in ("const", "volatile"))
    return "integer" if type_ in INTEGERS else "float" if type_ in FLOATS else ""


def _is_pointer(v: Variable) -> bool:
    return v.pointer and not any(n.type == "reference_declarator" for n in _chain(v))


def _chain(v: Variable):
    node = v.node
    while node is not None:
        yield node
        node = node.child_by_field_name("declarator")
